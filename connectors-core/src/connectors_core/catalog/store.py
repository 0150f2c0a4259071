# SPDX-License-Identifier: Apache-2.0
"""Where catalogs, and the definitions that they keep, survive a restart (Flink's FLIP-295)."""

from __future__ import annotations

import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

import orjson

from connectors_core.catalog.errors import CatalogAlreadyExistError, CatalogNotExistError
from connectors_core.catalog.function_store import FunctionStore, MemoryFunctionStore
from connectors_core.catalog.stored_documents import FileDocuments, SqliteDocuments, check_layout
from connectors_core.catalog.stored_functions import StoredFunctions
from connectors_core.catalog.stored_tables import StoredTables
from connectors_core.catalog.table_store import MemoryTableStore, TableStore
from connectors_core.engine.state import (
    StateStore,
    decode_document,
    encode_document,
    is_shortened,
    shortened,
)

__all__ = ["CatalogDescriptor", "CatalogStore", "FileCatalogStore", "SqliteCatalogStore"]

_KIND: Final = "catalog"
_LAYOUT: Final = 1
_SUFFIX: Final = ".json"
_OBJECTS: Final = ("tables", "functions")
_WAIT_SECONDS: Final = 30.0


@dataclass(frozen=True)
class CatalogDescriptor:
    """The definition of a catalog.

    Attributes:
        name: Its name.
        options: Its options. Secrets are references such as `${env:PASSWORD}`.
        comment: Its comment.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    comment: str | None = None


class CatalogStore(ABC):
    """Keeps catalogs, and what they keep of tables and functions. Driver.

    Processes can share a location.
    """

    @abstractmethod
    def store_catalog(self, descriptor: CatalogDescriptor) -> None:
        """Add a catalog. Of several concurrent additions of a name, one succeeds.

        Raises:
            CatalogAlreadyExistError: There is one of this name.
        """

    @abstractmethod
    def remove_catalog(self, name: str) -> None:
        """Remove a catalog.

        Raises:
            CatalogNotExistError: There is none.
        """

    @abstractmethod
    def get_catalog(self, name: str) -> CatalogDescriptor | None:
        """Return a catalog, or None if there is none."""

    @abstractmethod
    def list_catalogs(self) -> list[str]:
        """Return the names of all catalogs, in order."""

    def tables_of(self, name: str) -> TableStore:
        """Return where a catalog keeps definitions that its system cannot keep.

        They end with the catalog: `remove_catalog` removes them. By default, they are in memory.
        """
        return MemoryTableStore()

    def functions_of(self, name: str) -> FunctionStore:
        """Return where a catalog keeps functions.

        They end with the catalog: `remove_catalog` removes them. By default, they are in memory.
        """
        return MemoryFunctionStore()


class FileCatalogStore(CatalogStore):
    """Files in a folder, for catalogs and what they keep.

    The file system must create files exclusively.

    Args:
        path: The folder, a path or a URL for fsspec.
        storage_options: Options for its file system.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        self._files = StateStore(os.fspath(path), storage_options)

    def store_catalog(self, descriptor: CatalogDescriptor) -> None:
        """See `CatalogStore`."""
        data = encode_document(_KIND, _payload(descriptor))
        if not self._files.create(_file(descriptor.name), data):
            raise _exists(descriptor.name)

    def remove_catalog(self, name: str) -> None:
        """See `CatalogStore`."""
        if not self._files.exists(_file(name)):
            raise _missing(name)
        for kind in _OBJECTS:  # first, so that no later catalog of this name gets them
            self._files.delete_tree(_folder(name, kind))
        self._files.delete(_file(name))

    def get_catalog(self, name: str) -> CatalogDescriptor | None:
        """See `CatalogStore`."""
        data = self._files.read_or_none(_file(name))
        if data is None:
            return None
        return _descriptor(decode_document(_KIND, data, path=_file(name)))

    def list_catalogs(self) -> list[str]:
        """See `CatalogStore`."""
        files = [each for each in self._files.list() if each.endswith(_SUFFIX)]
        return sorted(filter(None, map(self._name_in, files)))

    def _name_in(self, file: str) -> str | None:
        """Return the name of a catalog, which a long name of a file does not have in full."""
        quoted = file.removesuffix(_SUFFIX)
        if not is_shortened(quoted):
            return unquote(quoted)
        data = self._files.read_or_none(file)
        return None if data is None else _descriptor(decode_document(_KIND, data, path=file)).name

    def tables_of(self, name: str) -> TableStore:
        """See `CatalogStore`. A folder beside the file of the catalog."""
        return StoredTables(FileDocuments(self._files.child(_folder(name, "tables")), "table"))

    def functions_of(self, name: str) -> FunctionStore:
        """See `CatalogStore`. A folder beside the file of the catalog."""
        files = self._files.child(_folder(name, "functions"))
        return StoredFunctions(FileDocuments(files, "function"))


class SqliteCatalogStore(CatalogStore):
    """Tables of an SQLite database.

    Args:
        path: The file of the database.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)

    def store_catalog(self, descriptor: CatalogDescriptor) -> None:
        """See `CatalogStore`."""
        document = orjson.dumps(_payload(descriptor)).decode()
        try:
            with self._database() as database:
                database.execute(
                    "INSERT INTO connectors_catalogs VALUES (?, ?)", [descriptor.name, document]
                )
        except sqlite3.IntegrityError as error:
            raise _exists(descriptor.name) from error

    def remove_catalog(self, name: str) -> None:
        """See `CatalogStore`."""
        with self._database() as database:
            done = database.execute("DELETE FROM connectors_catalogs WHERE name = ?", [name])
            if not done.rowcount:
                raise _missing(name)
            for kind in _OBJECTS:
                database.execute(f"DELETE FROM {_table(kind)} WHERE catalog = ?", [name])  # noqa: S608

    def get_catalog(self, name: str) -> CatalogDescriptor | None:
        """See `CatalogStore`."""
        with self._database() as database:
            query = "SELECT document FROM connectors_catalogs WHERE name = ?"
            found = database.execute(query, [name]).fetchone()
        return None if found is None else _descriptor(orjson.loads(found[0]))

    def list_catalogs(self) -> list[str]:
        """See `CatalogStore`."""
        with self._database() as database:
            found = database.execute("SELECT name FROM connectors_catalogs ORDER BY name")
            return [name for (name,) in found]

    def tables_of(self, name: str) -> TableStore:
        """See `CatalogStore`."""
        return StoredTables(SqliteDocuments(self._database, _table("tables"), name))

    def functions_of(self, name: str) -> FunctionStore:
        """See `CatalogStore`."""
        return StoredFunctions(SqliteDocuments(self._database, _table("functions"), name))

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Open the database in a transaction, which waits for those of other processes."""
        with closing(sqlite3.connect(self._path, timeout=_WAIT_SECONDS)) as database, database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS connectors_catalogs "
                "(name TEXT PRIMARY KEY, document TEXT NOT NULL)"
            )
            for kind in _OBJECTS:
                database.execute(
                    f"CREATE TABLE IF NOT EXISTS {_table(kind)} (catalog TEXT, database TEXT, "
                    "name TEXT, document TEXT NOT NULL, PRIMARY KEY (catalog, database, name))"
                )
            yield database


def _payload(descriptor: CatalogDescriptor) -> dict[str, Any]:
    return {
        "layout": _LAYOUT,
        "name": descriptor.name,
        "options": dict(descriptor.options),
        "comment": descriptor.comment,
    }


def _descriptor(payload: Mapping[str, Any]) -> CatalogDescriptor:
    check_layout(payload, _LAYOUT, "catalog")
    return CatalogDescriptor(payload["name"], payload["options"], payload["comment"])


def _file(name: str) -> str:
    return shortened(quote(name, safe="")) + _SUFFIX


def _folder(name: str, kind: str) -> str:
    return f"{shortened(quote(name, safe=''))}.{kind}"


def _table(kind: str) -> str:
    return f"connectors_{kind}"


def _exists(name: str) -> CatalogAlreadyExistError:
    return CatalogAlreadyExistError(f"the catalog {name} exists", hint="use IF NOT EXISTS")


def _missing(name: str) -> CatalogNotExistError:
    return CatalogNotExistError(f"there is no catalog {name}")
