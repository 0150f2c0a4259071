# SPDX-License-Identifier: Apache-2.0
"""The properties of rows that follow from the mapping of indices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from connector_elasticsearch.documents.mapping import definition_of, kind_of

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    """The columns of the documents of some indices.

    Attributes:
        schema: The columns.
        formatted: Paths of timestamps that only the server can parse.
        mappings: The mappings by index, in the server's form.
    """

    schema: pa.Schema
    formatted: tuple[str, ...]
    mappings: Mapping[str, Any] = field(repr=False)

    @property
    def requires_routing(self) -> bool:
        """Return whether finding a document of an index requires more than its ID."""
        return any(each.get("_routing", {}).get("required") for each in self.mappings.values())

    def definitions(self, name: str) -> list[Mapping[str, Any]]:
        """Return the definition of a top-level field in each index, which is empty if missing."""
        return [each.get("properties", {}).get(name, {}) for each in self.mappings.values()]

    def kinds(self, path: str) -> set[str | None]:
        """Return Elasticsearch's types of a field in the indices, with None if it is missing."""
        return {kind_of(mapping, path) for mapping in self.mappings.values()}

    def definitions_at(self, path: str) -> list[Mapping[str, Any]]:
        """Return the definitions of a field in the indices that have it."""
        found = [definition_of(mapping, path) for mapping in self.mappings.values()]
        return [each for each in found if each is not None]
