# SPDX-License-Identifier: Apache-2.0
"""Sends operations in bulk requests, and checks the result of each operation."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from connector_elasticsearch.client import (
    AsyncElasticsearchClient,
    ElasticsearchConnection,
    path_of,
)
from connector_elasticsearch.client.errors import explained
from connector_elasticsearch.errors import (
    ElasticsearchAuthorizationError,
    ElasticsearchRequestError,
    ElasticsearchRetryableError,
    ElasticsearchTooLargeError,
)
from connector_elasticsearch.sink.answers import is_all_written, not_written
from connector_elasticsearch.sink.operations import BulkConverter, document_of
from connector_elasticsearch.sink.outcomes import MERGE_OBJECTS, Outcome, wrong_option
from connectors_core.sink import (
    AsyncSinkWriter,
    AsyncSinkWriterConfiguration,
    EntryColumns,
    WriterInitContext,
)

__all__ = ["BulkTarget", "ElasticsearchWriter", "Refresh"]

ALREADY_WRITTEN_METRIC: Final = "numDocumentsAlreadyWritten"
"""The documents that already existed and that `create` left unchanged."""
STALE_METRIC: Final = "numDocumentsStale"
"""The documents of which the server had a newer version."""

_DOING: Final = "writing documents"
_NO_SCRIPTS: Final = (
    "allow the server to run inline Painless scripts in updates, or set the option to true, which "
    "keeps the other keys of objects"
)
# The fields of a response that the server sends; a response can have thousands of items.
_FILTER: Final = ",".join(
    ["errors", "items.*.status", *(f"items.*.error.{name}" for name in ("type", "reason", "index"))]
)


class Refresh(StrEnum):
    """When written documents become visible to searches."""

    FALSE = "false"
    """With the next refresh of the index."""
    WAIT_FOR = "wait_for"
    """Before an epoch ends. A request then lasts until the refresh."""


@dataclass(frozen=True, kw_only=True)
class BulkTarget:
    """The target of bulk requests.

    Attributes:
        connection: The connection to the servers.
        index: The index of all operations, or None if each operation names its index.
        pipeline: The ingest pipeline for the documents.
        refresh: When written documents become visible to searches.
    """

    connection: ElasticsearchConnection
    index: str | None
    pipeline: str | None
    refresh: Refresh

    @property
    def path(self) -> str:
        """The path of the requests."""
        return path_of("_bulk") if self.index is None else path_of(self.index, "_bulk")

    @property
    def params(self) -> Mapping[str, str]:
        """The query parameters."""
        params = {"filter_path": _FILTER}
        if self.pipeline is not None:
            params["pipeline"] = self.pipeline
        if self.refresh is not Refresh.FALSE:
            params["refresh"] = self.refresh.value
        return params


class ElasticsearchWriter(AsyncSinkWriter[bytes]):
    """Writes the rows of one task in one epoch. Executor.

    Args:
        target: The target of the requests.
        converter: Converts rows to operations.
        context: The context of the writer.
        configuration: The limits.
    """

    def __init__(
        self,
        target: BulkTarget,
        converter: BulkConverter,
        context: WriterInitContext,
        configuration: AsyncSinkWriterConfiguration,
    ) -> None:
        super().__init__(converter, context, configuration)
        self._target = target
        self._metrics = context.metric_group
        self._client = AsyncElasticsearchClient(
            target.connection, connections=configuration.max_in_flight_requests
        )
        self._too_large: float = float("inf")

    async def submit_request_entries(self, entries: Sequence[bytes]) -> Sequence[bytes]:
        """See `AsyncSinkWriter`. Sends a request that is too large for the server in halves."""
        assert isinstance(entries, EntryColumns)  # the converter returns these
        waiting = deque([range(len(entries))])
        again: list[bytes] = []
        settled = False
        while waiting:
            part = waiting.popleft()
            body = entries.joined(part.start, part.stop)
            if len(part) > 1 and len(body) >= self._too_large:
                waiting.extendleft(_halves(part))
                continue
            try:
                answer = await self._client.request_bytes(
                    "POST", self._target.path, body, params=self._target.params, doing=_DOING
                )
                if not is_all_written(answer, len(part)):
                    again += self._to_send_again(entries, part, answer)
                settled = True
            except ElasticsearchTooLargeError as exc:
                self._too_large = min(self._too_large, len(body))
                if len(part) == 1:
                    reason = f"{len(body)} bytes: {exc.message}"
                    self.reject(entries[part.start], reason, cause=exc)
                    settled = True
                else:
                    waiting.extendleft(_halves(part))
            except ElasticsearchRetryableError as exc:
                if not settled:
                    raise  # includes the server's requested delay
                self.explain_retry(f"{exc.message}: {exc.found}")
                return [*again, *(entries[at] for rest in (part, *waiting) for at in rest)]
        return again

    def get_size_in_bytes(self, entry: bytes) -> int:
        """See `AsyncSinkWriter`."""
        return len(entry)

    def raw(self, entry: bytes) -> bytes:
        """See `AsyncSinkWriter`: the document."""
        return document_of(entry)

    async def close_client(self) -> None:
        """See `AsyncSinkWriter`."""
        await self._client.close()

    def _to_send_again(self, entries: EntryColumns, part: range, answer: bytes) -> Iterator[bytes]:
        """Return the operations to retry, after checking the outcome of each operation."""

        def operation_at(number: int) -> bytes:
            return entries[part[number]]

        for each in not_written(answer, len(part), operation_at, _DOING):
            operation = operation_at(each.number)
            if each.outcome is Outcome.LATER:
                self.explain_retry(explained(each.error))
                yield operation
            elif each.outcome is Outcome.REFUSED:
                self._refuse(operation, each.error or {})
            elif each.outcome is Outcome.FORBIDDEN:
                raise ElasticsearchAuthorizationError(
                    "the login lacks the privilege to write to this index",
                    found=explained(each.error),
                    option=self._target.connection.login_option or "username",
                    hint="ask an administrator to grant the privilege named in the message",
                )
            elif each.outcome is Outcome.ALREADY_WRITTEN:
                self._metrics.inc(ALREADY_WRITTEN_METRIC)
            elif each.outcome is Outcome.STALE:
                self._metrics.inc(STALE_METRIC)

    def _refuse(self, operation: bytes, error: Mapping[str, Any]) -> None:
        option = wrong_option(error, one_index=self._target.index is not None)
        if option is None:
            self.reject(operation, explained(error))
            return
        raise ElasticsearchRequestError(
            "the server rejects every document because of a setting of the sink",
            found=explained(error),
            option=option,
            hint=_NO_SCRIPTS if option == MERGE_OBJECTS else None,
        )


def _halves(part: range) -> tuple[range, range]:
    """Return both halves in reverse order, because each is put at the head of the queue."""
    middle = len(part) // 2
    return part[middle:], part[:middle]
