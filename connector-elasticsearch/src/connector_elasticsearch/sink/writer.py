# SPDX-License-Identifier: Apache-2.0
"""The writer: sends operations in bulk requests, and looks at the answer to each of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from connector_elasticsearch.client import (
    AsyncElasticsearchClient,
    ElasticsearchConnection,
    decoded,
    path_of,
)
from connector_elasticsearch.client.errors import explained, type_of
from connector_elasticsearch.errors import (
    ElasticsearchAuthorizationError,
    ElasticsearchRetryableError,
    ElasticsearchTooLargeError,
)
from connector_elasticsearch.sink.operations import BulkConverter, BulkOperation
from connector_elasticsearch.sink.outcomes import Outcome, outcome_of
from connectors_core.annotations import public
from connectors_core.sink import (
    AsyncSinkWriter,
    AsyncSinkWriterConfiguration,
    WriterInitContext,
)

__all__ = ["BulkTarget", "ElasticsearchWriter", "Refresh"]

ALREADY_WRITTEN_METRIC: Final = "numDocumentsAlreadyWritten"
"""Documents that were there already and that `create` left as they were."""
STALE_METRIC: Final = "numDocumentsStale"
"""Documents of which the server had a newer version."""

_DOING: Final = "writing documents"
# Of an answer to thousands of operations, what is looked at.
_FILTER: Final = "errors,items.*.status,items.*.error.type,items.*.error.reason"
# How the answer begins where all are written: nobody looks at thousands of objects then.
_NO_ERRORS: Final = b'{"errors":false,'


@public
class Refresh(StrEnum):
    """When searches see what was written."""

    FALSE = "false"
    """With the index's next refresh, at some time."""
    WAIT_FOR = "wait_for"
    """Before an epoch ends; a request then lasts until that refresh."""


@dataclass(frozen=True, kw_only=True)
class BulkTarget:
    """Where bulk requests go.

    Attributes:
        connection: How the servers are reached.
        index: The index of all operations; None where each names its own.
        pipeline: Ingest pipeline that documents go through.
        refresh: When searches see what was written.
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
        """What stands behind it."""
        params = {"filter_path": _FILTER}
        if self.pipeline is not None:
            params["pipeline"] = self.pipeline
        if self.refresh is not Refresh.FALSE:
            params["refresh"] = self.refresh.value
        return params


class ElasticsearchWriter(AsyncSinkWriter[BulkOperation]):
    """Writes the rows of one task of one epoch. Executor.

    Args:
        target: Where requests go.
        converter: Makes operations of rows.
        context: What the writer knows of itself.
        configuration: The bounds.
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

    async def submit_request_entries(
        self, entries: Sequence[BulkOperation]
    ) -> Sequence[BulkOperation]:
        """See `AsyncSinkWriter`. What is too large for the server is sent in halves."""
        waiting = deque([entries])
        again: list[BulkOperation] = []
        settled = False
        while waiting:
            part = waiting.popleft()
            body = b"".join([operation.body for operation in part])
            if len(part) > 1 and len(body) >= self._too_large:
                waiting.extendleft(_halves(part))
                continue
            try:
                answer = await self._client.request_bytes(
                    "POST", self._target.path, body, params=self._target.params, doing=_DOING
                )
                if not answer.startswith(_NO_ERRORS):
                    again += self._to_send_again(part, decoded(answer, _DOING)["items"])
                settled = True
            except ElasticsearchTooLargeError as exc:
                self._too_large = min(self._too_large, len(body))
                if len(part) == 1:
                    self.reject(part[0], f"{len(body)} bytes: {exc.message}", cause=exc)
                    settled = True
                else:
                    waiting.extendleft(_halves(part))
            except ElasticsearchRetryableError as exc:
                if not settled:
                    raise  # with the time that the server asks to wait
                self.explain_retry(f"{exc.message}: {exc.found}")
                return [*again, *part, *(each for rest in waiting for each in rest)]
        return again

    def get_size_in_bytes(self, entry: BulkOperation) -> int:
        """See `AsyncSinkWriter`."""
        return len(entry.body)

    def get_key(self, entry: BulkOperation) -> str | None:
        """See `AsyncSinkWriter`: the id."""
        return entry.key

    def raw(self, entry: BulkOperation) -> bytes:
        """See `AsyncSinkWriter`: the document."""
        return entry.document

    async def close_client(self) -> None:
        """See `AsyncSinkWriter`."""
        await self._client.close()

    def _to_send_again(
        self, operations: Sequence[BulkOperation], items: Sequence[Mapping[str, Any]]
    ) -> list[BulkOperation]:
        """Look at what became of each operation; return those that the server could not take."""
        again = []
        for operation, item in zip(operations, items, strict=True):
            ((action, result),) = item.items()
            error = result.get("error")
            outcome = outcome_of(action, result["status"], type_of(error))
            if outcome is Outcome.LATER:
                self.explain_retry(explained(error))
                again.append(operation)
            elif outcome is Outcome.REFUSED:
                self.reject(operation, explained(error))
            elif outcome is Outcome.FORBIDDEN:
                raise ElasticsearchAuthorizationError(
                    "the login may not write to this index",
                    found=explained(error),
                    option=self._target.connection.login_option or "username",
                    hint="let an administrator grant the privilege that the message names",
                )
            elif outcome is Outcome.ALREADY_WRITTEN:
                self._metrics.inc(ALREADY_WRITTEN_METRIC)
            elif outcome is Outcome.STALE:
                self._metrics.inc(STALE_METRIC)
        return again


def _halves(operations: Sequence[BulkOperation]) -> tuple[Sequence[BulkOperation], ...]:
    """Both halves, the second one first, as they are put before what waits."""
    middle = len(operations) // 2
    return operations[middle:], operations[:middle]
