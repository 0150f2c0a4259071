# SPDX-License-Identifier: Apache-2.0
"""Documents about the objects of a catalog, in files and in SQLite."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final
from urllib.parse import quote

import orjson

from connectors_core.catalog.catalog import ObjectPath
from connectors_core.engine.state import StateStore, decode_document, encode_document, shortened
from connectors_core.errors import StateVersionError

__all__ = ["Documents", "FileDocuments", "SqliteDocuments", "check_layout"]

_IS_KEY: Final = "catalog = ? AND database = ? AND name = ?"


class Documents(ABC):
    """A document for each object."""

    @abstractmethod
    def get(self, path: ObjectPath) -> Mapping[str, Any] | None:
        """Return the document of an object, or None if there is none."""

    @abstractmethod
    def add(self, path: ObjectPath, document: Mapping[str, Any]) -> bool:
        """Add a document, and return whether this call, of several ones, added it."""

    @abstractmethod
    def replace(self, path: ObjectPath, document: Mapping[str, Any]) -> None:
        """Add or replace a document."""

    @abstractmethod
    def remove(self, path: ObjectPath) -> None:
        """Remove a document if there is one."""

    @abstractmethod
    def paths(self, place: Callable[[Mapping[str, Any]], ObjectPath]) -> list[ObjectPath]:
        """Return the objects that have a document, in no order.

        Args:
            place: Returns the object that a document is about.
        """


class FileDocuments(Documents):
    """A file for each document.

    Args:
        files: The folder.
        kind: The kind of the objects, such as a table, for the checks of a document.
    """

    def __init__(self, files: StateStore, kind: str) -> None:
        self._files = files
        self._kind = kind

    def get(self, path: ObjectPath) -> Mapping[str, Any] | None:
        """See `Documents`."""
        data = self._files.read_or_none(_file(path))
        return None if data is None else decode_document(self._kind, data, path=_file(path))

    def add(self, path: ObjectPath, document: Mapping[str, Any]) -> bool:
        """See `Documents`."""
        return self._files.create(_file(path), encode_document(self._kind, document))

    def replace(self, path: ObjectPath, document: Mapping[str, Any]) -> None:
        """See `Documents`."""
        self._files.replace(_file(path), encode_document(self._kind, document))

    def remove(self, path: ObjectPath) -> None:
        """See `Documents`."""
        self._files.delete(_file(path))

    def paths(self, place: Callable[[Mapping[str, Any]], ObjectPath]) -> list[ObjectPath]:
        """See `Documents`."""
        read = {name: self._files.read_or_none(name) for name in self._files.list()}
        return [
            place(decode_document(self._kind, data, path=name))
            for name, data in read.items()
            if data is not None  # another process has removed it since
        ]


class SqliteDocuments(Documents):
    """Rows of a table with the columns `catalog`, `database`, `name`, and `document`.

    Args:
        database: Opens the database in a transaction.
        table: The table.
        catalog: The name of the catalog.
    """

    def __init__(
        self,
        database: Callable[[], AbstractContextManager[sqlite3.Connection]],
        table: str,
        catalog: str,
    ) -> None:
        self._database = database
        self._table = table
        self._catalog = catalog

    def get(self, path: ObjectPath) -> Mapping[str, Any] | None:
        """See `Documents`."""
        query = f"SELECT document FROM {self._table} WHERE {_IS_KEY}"  # noqa: S608
        with self._database() as database:
            found = database.execute(query, self._key(path)).fetchone()
        return None if found is None else orjson.loads(found[0])

    def add(self, path: ObjectPath, document: Mapping[str, Any]) -> bool:
        """See `Documents`."""
        return self._insert("INSERT OR IGNORE", path, document)

    def replace(self, path: ObjectPath, document: Mapping[str, Any]) -> None:
        """See `Documents`."""
        self._insert("INSERT OR REPLACE", path, document)

    def remove(self, path: ObjectPath) -> None:
        """See `Documents`."""
        with self._database() as database:
            database.execute(f"DELETE FROM {self._table} WHERE {_IS_KEY}", self._key(path))  # noqa: S608

    def paths(self, place: Callable[[Mapping[str, Any]], ObjectPath]) -> list[ObjectPath]:
        """See `Documents`. The keys of the rows say it."""
        query = f"SELECT database, name FROM {self._table} WHERE catalog = ?"  # noqa: S608
        with self._database() as database:
            return [ObjectPath(*each) for each in database.execute(query, [self._catalog])]

    def _insert(self, verb: str, path: ObjectPath, document: Mapping[str, Any]) -> bool:
        statement = f"{verb} INTO {self._table} VALUES (?, ?, ?, ?)"
        values = [*self._key(path), orjson.dumps(document).decode()]
        with self._database() as database:
            return database.execute(statement, values).rowcount > 0

    def _key(self, path: ObjectPath) -> tuple[str, str, str]:
        return self._catalog, path.database, path.name


def check_layout(document: Mapping[str, Any], layout: int, name: str) -> None:
    """Check that a document has the layout that this version reads.

    Args:
        document: The document.
        layout: The layout.
        name: The kind of its object, such as "table".

    Raises:
        StateVersionError: It has another one.
    """
    if document.get("layout") != layout:
        raise StateVersionError(
            f"the {name} is stored in another layout",
            expected=f"layout {layout}",
            found=document.get("layout"),
        )


def _file(path: ObjectPath) -> str:
    # A quoted name has no comma, and no name is that of another folder.
    return shortened(f"{quote(path.database, safe='')},{quote(path.name, safe='')}") + ".json"
