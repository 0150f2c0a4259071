# SPDX-License-Identifier: Apache-2.0
"""The definition of a table, as `CREATE TABLE` states it and a catalog keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors_core.table.table_schema import TableSchema

__all__ = ["CONNECTOR", "CatalogTable", "CatalogView"]

CONNECTOR = "connector"
"The option with the identifier of a table's factory."


@dataclass(frozen=True, kw_only=True)
class CatalogTable:
    """The definition of a table.

    Attributes:
        schema: Its columns.
        options: Its options, with the one that names the connector.
        partition_keys: The columns by which it is partitioned.
        comment: Its comment.
    """

    schema: TableSchema
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # it can have secrets
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None


@dataclass(frozen=True, kw_only=True)
class CatalogView:
    """The definition of a view.

    Attributes:
        query: Its query.
        columns: The names of its columns, or none for those of the query.
        comment: Its comment.
        catalog: The catalog in which its query finds names; None for the current one.
        database: The database in which its query finds names; None for the current one.
    """

    query: str
    columns: tuple[str, ...] = ()
    comment: str | None = None
    catalog: str | None = None
    database: str | None = None
