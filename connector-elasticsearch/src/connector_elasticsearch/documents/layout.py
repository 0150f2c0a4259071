# SPDX-License-Identifier: Apache-2.0
"""What the mapping of indices says of the rows that are made of their documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa

from connector_elasticsearch.client import ElasticsearchClient, ElasticsearchConnection, path_of
from connector_elasticsearch.client.retrying import retrying
from connector_elasticsearch.documents.decoding import leaves
from connector_elasticsearch.documents.mapping import (
    fields_of,
    kind_of,
    pruned,
    with_own_format,
)

__all__ = ["Layout", "layout_of"]


@dataclass(frozen=True)
class Layout:
    """Columns of the documents of some indices.

    Attributes:
        schema: The columns.
        formatted: Paths of moments that only the server can read.
        mappings: By index, as the server gives them.
    """

    schema: pa.Schema
    formatted: tuple[str, ...]
    mappings: Mapping[str, Any] = field(repr=False)

    @property
    def requires_routing(self) -> bool:
        """Whether a document of an index is not found by its id alone."""
        return any(each.get("_routing", {}).get("required") for each in self.mappings.values())

    def kinds(self, path: str) -> set[str | None]:
        """Elasticsearch's types of a field, of which an index may have another; None for none."""
        return {kind_of(mapping, path) for mapping in self.mappings.values()}


def layout_of(
    connection: ElasticsearchConnection,
    index: str,
    *,
    retry_timeout: timedelta,
    schema: pa.Schema | None = None,
    fields: Sequence[str] = (),
    array_fields: Sequence[str] = (),
) -> Layout:
    """Ask the server for its mapping. Driver.

    Args:
        connection: How the servers are reached.
        index: Indices, aliases, data streams or patterns, separated by commas.
        retry_timeout: How long a request is repeated that may succeed later.
        schema: Columns that were declared; None to take them from the mapping.
        fields: Columns to keep, or paths into them; none for all.
        array_fields: Paths of fields that hold several values.

    Raises:
        ConfigurationError: There is no such index, or its mapping cannot be used.
    """
    with closing(ElasticsearchClient(connection)) as client:
        answer = retrying(retry_timeout)(
            client.request,
            "GET",
            path_of(index, "_mapping"),
            doing=f"reading the mapping of {index}",
        )
    mappings = {name: each["mappings"] for name, each in answer.items()}
    if schema is None:
        schema = fields_of(mappings, array_fields)
    if fields:
        schema = pruned(schema, fields)
    formatted = with_own_format(mappings) & set(leaves(list(schema)))
    return Layout(schema, tuple(sorted(formatted)), mappings)
