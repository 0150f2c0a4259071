# SPDX-License-Identifier: Apache-2.0
"""The options of `CREATE TABLE` in a catalog that define the index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from connectors_core.options import JSON_MAP, Configured, Setting, option
from connectors_core.table import CatalogTable

__all__ = ["INDEX_OPTIONS", "IndexOptions"]


class IndexOptions(Configured, scope="Elasticsearch index", since="3.0.0"):
    """The options of `CREATE TABLE` in a catalog that define the index."""

    vector_fields: Setting[dict[str, Any], Mapping[str, Any] | None] = option(
        "vector-fields",
        JSON_MAP,
        default=None,
        doc="Columns that hold vectors, `ARRAY<FLOAT>` or `ARRAY<DOUBLE>`, and the parameters of "
        "their fields of the type `dense_vector`, e.g. "
        '`{"embedding": {"dims": 384, "similarity": "cosine"}}`.',
    )

    @classmethod
    def of(cls, table: CatalogTable) -> IndexOptions:
        """Return the options in a definition.

        Raises:
            InvalidOptionError: A value is invalid.
        """
        given = {key: each for key, each in table.options.items() if key in cls.OPTIONS}
        return cls.from_options(given)

    @classmethod
    def removed_from(cls, table: CatalogTable) -> CatalogTable:
        """Return a definition without these options."""
        kept = {key: each for key, each in table.options.items() if key not in cls.OPTIONS}
        return replace(table, options=kept)


INDEX_OPTIONS: Final = IndexOptions.OPTIONS
"""The options of `CREATE TABLE` in a catalog."""
