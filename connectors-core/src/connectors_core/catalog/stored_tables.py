# SPDX-License-Identifier: Apache-2.0
"""Definitions of tables in documents, each as its `CREATE TABLE` statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connectors_core.catalog.catalog import ObjectPath
from connectors_core.catalog.secret_options import refuse_clear_secrets
from connectors_core.catalog.stored_documents import Documents, check_layout
from connectors_core.catalog.table_store import TableStore
from connectors_core.table.catalog_table import CatalogTable
from connectors_core.table.factory import factory_named
from connectors_core.table.sql import parse_statement
from connectors_core.table.sql.statements import CreateTable
from connectors_core.table.sql.writing import create_table_text

__all__ = ["StoredTables"]

_LAYOUT: Final = 1


class StoredTables(TableStore):
    """Definitions that survive a restart.

    Args:
        documents: Keeps them.
    """

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def get(self, path: ObjectPath) -> CatalogTable | None:
        """See `TableStore`."""
        document = self._documents.get(path)
        return None if document is None else _statement(document).table

    def add(self, path: ObjectPath, table: CatalogTable) -> bool:
        """See `TableStore`."""
        return self._documents.add(path, _document(path, table))

    def replace(self, path: ObjectPath, table: CatalogTable) -> None:
        """See `TableStore`."""
        self._documents.replace(path, _document(path, table))

    def remove(self, path: ObjectPath) -> None:
        """See `TableStore`."""
        self._documents.remove(path)

    def paths(self) -> list[ObjectPath]:
        """See `TableStore`."""
        return self._documents.paths(lambda document: ObjectPath(*_statement(document).name))

    def check(self, path: ObjectPath, table: CatalogTable) -> None:
        """See `TableStore`."""
        _document(path, table)


def _document(path: ObjectPath, table: CatalogTable) -> dict[str, Any]:
    is_secret = factory_named(table, str(path)).is_secret
    refuse_clear_secrets(f"table {path}", table.options, is_secret)
    return {"layout": _LAYOUT, "statement": create_table_text((path.database, path.name), table)}


def _statement(document: Mapping[str, Any]) -> CreateTable:
    check_layout(document, _LAYOUT, "table")
    statement = parse_statement(document["statement"])
    assert isinstance(statement, CreateTable)
    return statement
