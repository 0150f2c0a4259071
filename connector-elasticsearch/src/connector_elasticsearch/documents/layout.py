# SPDX-License-Identifier: Apache-2.0
"""What the mapping of indices says of the rows that are made of their documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from connector_elasticsearch.documents.mapping import kind_of

__all__ = ["Layout"]


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
