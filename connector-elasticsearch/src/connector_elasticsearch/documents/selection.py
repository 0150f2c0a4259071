# SPDX-License-Identifier: Apache-2.0
"""The selection of documents and their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from connector_elasticsearch.client import (
    ElasticsearchClient,
    ElasticsearchConnection,
    path_of,
    told,
)
from connector_elasticsearch.client.retries import retrying
from connector_elasticsearch.documents.decoder import maps_of_moments, moments_of
from connector_elasticsearch.documents.layout import Layout
from connector_elasticsearch.documents.mapping import fields_of, pruned, with_own_format
from connector_elasticsearch.documents.source_filters import check_source
from connectors_core.errors import UnsupportedError

__all__ = ["DocumentSelection"]

_RESULT_WINDOW: Final = "max_result_window"
_DEFAULT_WINDOW: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class DocumentSelection:
    """Which documents to read, and from which servers.

    Attributes:
        connection: The connection to the servers.
        index: Indices, aliases, data streams, or patterns, separated by commas.
        query: A query for the documents to read, or None for all.
        schema: The declared columns, or None to derive them from the mapping.
        fields: Columns to keep, or paths into them. An empty sequence keeps all.
        array_fields: Paths of fields that hold several values.
        retry_timeout: How long to retry a request after temporary errors.
    """

    connection: ElasticsearchConnection
    index: str
    query: Mapping[str, Any] | None = field(default=None, hash=False)
    schema: pa.Schema | None = None
    fields: Sequence[str] = ()
    array_fields: Sequence[str] = ()
    retry_timeout: timedelta

    @cached_property
    def layout(self) -> Layout:
        """The layout from the servers' mapping, which is requested once and then pickled with this.

        Driver.

        Raises:
            ConfigurationError: The index does not exist, its mapping is not supported, or it does
                not keep a column in the source of documents.
        """
        mappings = self._of_indices("mappings", "_mapping")
        schema = fields_of(mappings, self.array_fields) if self.schema is None else self.schema
        if self.fields:
            schema = pruned(schema, self.fields)
        check_source(schema, mappings)
        own = with_own_format(mappings)
        _check_maps(schema, own)
        formatted = own & set(moments_of(list(schema)))
        return Layout(schema, tuple(sorted(formatted)), mappings)

    def result_window(self) -> int:
        """Return the maximum number of documents in a response of all indices. Driver.

        Raises:
            ConfigurationError: The index does not exist.
        """
        found = self._of_indices("settings", "_settings", f"index.{_RESULT_WINDOW}")
        windows = {name: int(each["index"][_RESULT_WINDOW]) for name, each in found.items()}
        # The response lacks indices with the default.
        return min(windows.get(name, _DEFAULT_WINDOW) for name in self.layout.mappings)

    def _of_indices(self, kind: str, *path: str) -> dict[str, Any]:
        """Return a part of the metadata of each index that has it.

        Args:
            kind: The part, as in the response.
            *path: The end of the path of the request.
        """
        doing = f"reading the {kind} of {self.index}"
        with closing(ElasticsearchClient(self.connection)) as client:

            def asked() -> dict[str, Any]:
                answer = client.request("GET", path_of(self.index, *path), doing=doing)
                return {
                    name: told(each, kind, kind=dict, doing=doing)
                    for name, each in told(answer, kind=dict, doing=doing).items()
                }

            return retrying(self.retry_timeout)(asked)


def _check_maps(schema: pa.Schema, formatted: frozenset[str]) -> None:
    """Refuse timestamps in maps that only the server can parse: it writes fields, not maps."""
    for above in maps_of_moments(list(schema)):
        found = sorted(path for path in formatted if path.startswith(f"{above}."))
        if found:
            raise UnsupportedError(
                f"the timestamps of the map {above!r} have a custom format",
                expected="a date format of the mapping that the connector can parse",
                found=", ".join(found),
                option="schema",
                hint="declare the values of the map as STRING, or a struct with these fields",
            )
