# SPDX-License-Identifier: Apache-2.0
"""Definitions of tables in files and in SQLite, each as its `CREATE TABLE` statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final
from urllib.parse import quote

import orjson

from connectors_core.catalog.catalog import ObjectPath
from connectors_core.catalog.secret_options import refuse_clear_secrets
from connectors_core.catalog.table_store import TableStore
from connectors_core.engine.state import StateStore, decode_document, encode_document, shortened
from connectors_core.errors import StateVersionError
from connectors_core.table.catalog_table import CatalogTable
from connectors_core.table.factory import factory_named
from connectors_core.table.sql import parse_statement
from connectors_core.table.sql.statements import CreateTable
from connectors_core.table.sql.writing import create_table_text

__all__ = ["FileTableStore", "SqliteTableStore"]

_KIND: Final = "table"
_LAYOUT: Final = 1


class FileTableStore(TableStore):
    """A file for each table.

    Args:
        files: The folder.
    """

    def __init__(self, files: StateStore) -> None:
        self._files = files

    def get(self, path: ObjectPath) -> CatalogTable | None:
        """See `TableStore`."""
        data = self._files.read_or_none(_file(path))
        if data is None:
            return None
        return _statement(decode_document(_KIND, data, path=_file(path))).table

    def add(self, path: ObjectPath, table: CatalogTable) -> bool:
        """See `TableStore`."""
        return self._files.create(_file(path), encode_document(_KIND, _payload(path, table)))

    def replace(self, path: ObjectPath, table: CatalogTable) -> None:
        """See `TableStore`."""
        self._files.replace(_file(path), encode_document(_KIND, _payload(path, table)))

    def remove(self, path: ObjectPath) -> None:
        """See `TableStore`."""
        self._files.delete(_file(path))

    def paths(self) -> list[ObjectPath]:
        """See `TableStore`."""
        read = {name: self._files.read_or_none(name) for name in self._files.list()}
        return [
            ObjectPath(*_statement(decode_document(_KIND, data, path=name)).name)
            for name, data in read.items()
            if data is not None  # another process has removed it since
        ]

    def check(self, path: ObjectPath, table: CatalogTable) -> None:
        """See `TableStore`."""
        _payload(path, table)


class SqliteTableStore(TableStore):
    """Rows of the table `connectors_tables`.

    Args:
        database: Opens the database in a transaction.
        catalog: The name of the catalog.
    """

    def __init__(
        self, database: Callable[[], AbstractContextManager[sqlite3.Connection]], catalog: str
    ) -> None:
        self._database = database
        self._catalog = catalog

    def get(self, path: ObjectPath) -> CatalogTable | None:
        """See `TableStore`."""
        query = (
            "SELECT document FROM connectors_tables WHERE catalog = ? AND database = ? AND name = ?"
        )
        with self._database() as database:
            found = database.execute(query, self._key(path)).fetchone()
        return None if found is None else _statement(orjson.loads(found[0])).table

    def add(self, path: ObjectPath, table: CatalogTable) -> bool:
        """See `TableStore`."""
        return self._insert("INSERT OR IGNORE", path, table)

    def replace(self, path: ObjectPath, table: CatalogTable) -> None:
        """See `TableStore`."""
        self._insert("INSERT OR REPLACE", path, table)

    def remove(self, path: ObjectPath) -> None:
        """See `TableStore`."""
        statement = "DELETE FROM connectors_tables WHERE catalog = ? AND database = ? AND name = ?"
        with self._database() as database:
            database.execute(statement, self._key(path))

    def paths(self) -> list[ObjectPath]:
        """See `TableStore`."""
        query = "SELECT database, name FROM connectors_tables WHERE catalog = ?"
        with self._database() as database:
            return [ObjectPath(*each) for each in database.execute(query, [self._catalog])]

    def check(self, path: ObjectPath, table: CatalogTable) -> None:
        """See `TableStore`."""
        _payload(path, table)

    def _insert(self, verb: str, path: ObjectPath, table: CatalogTable) -> bool:
        document = orjson.dumps(_payload(path, table)).decode()
        statement = f"{verb} INTO connectors_tables VALUES (?, ?, ?, ?)"
        with self._database() as database:
            return database.execute(statement, [*self._key(path), document]).rowcount > 0

    def _key(self, path: ObjectPath) -> tuple[str, str, str]:
        return self._catalog, path.database, path.name


def _file(path: ObjectPath) -> str:
    # A quoted name has no comma, and no name is that of another folder.
    return shortened(f"{quote(path.database, safe='')},{quote(path.name, safe='')}") + ".json"


def _payload(path: ObjectPath, table: CatalogTable) -> dict[str, Any]:
    is_secret = factory_named(table, str(path)).is_secret
    refuse_clear_secrets(f"table {path}", table.options, is_secret)
    return {"layout": _LAYOUT, "statement": create_table_text((path.database, path.name), table)}


def _statement(payload: Mapping[str, Any]) -> CreateTable:
    if payload.get("layout") != _LAYOUT:
        raise StateVersionError(
            "the table is stored in another layout",
            expected=f"layout {_LAYOUT}",
            found=payload.get("layout"),
        )
    statement = parse_statement(payload["statement"])
    assert isinstance(statement, CreateTable)
    return statement
