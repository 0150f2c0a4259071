# SPDX-License-Identifier: Apache-2.0
"""A folder as a catalog: its folders are databases, and theirs are tables."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from connector_filesystem.filesystem import FileLocation, mapped_errors
from connector_filesystem.formats import detect_format
from connector_filesystem.sink.buckets import escape_path_name
from connector_filesystem.source import FileSource
from connector_filesystem.source.paths import NULL_PARTITIONS
from connectors_core.catalog import (
    Catalog,
    CatalogFactory,
    CatalogTableStatistics,
    DatabaseAlreadyExistError,
    DatabaseNotEmptyError,
    DatabaseNotExistError,
    ObjectPath,
    TableNotExistError,
)
from connectors_core.errors import InvalidOptionError, MissingOptionError
from connectors_core.options import Option
from connectors_core.table import CatalogTable, TableSchema

__all__ = ["FileCatalog", "FileCatalogFactory"]

_HIDDEN: Final = (".", "_")
_STORAGE: Final = "storage-options."
_OF_CATALOG: Final = frozenset({"path", f"{_STORAGE}*"})


class FileCatalog(Catalog):
    """The folders below a path: a database is a folder, and a table is a folder in it.

    A table has the columns of its files, and those of folders such as `day=2026-01-31`. A database
    appears with its first folder.

    Args:
        name: The name of the catalog.
        options: `path`, and options for all tables, such as those of the storage.
    """

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name)
        path = options.get("path")
        if path is None:
            raise MissingOptionError("path", doc="The folder.", scope=f"catalog {name}")
        self._options = {key: value for key, value in options.items() if key != "path"}
        storage = {
            key.removeprefix(_STORAGE): value
            for key, value in options.items()
            if key.startswith(_STORAGE)
        }
        self._location = FileLocation(path, storage)

    def open(self) -> None:
        """See `Catalog`."""
        self._location.check_reachable()

    def list_databases(self) -> list[str]:
        """See `Catalog`. The default one is always there."""
        return sorted({self.default_database, *self._folders()})

    def create_database(self, database: str, *, if_not_exists: bool = False) -> None:
        """See `Catalog`."""
        if self.database_exists(database) and not if_not_exists:
            raise DatabaseAlreadyExistError(f"the database {database} exists")
        with self._errors("creating", database):
            self._location.fs.makedirs(self._path(database), exist_ok=True)

    def drop_database(
        self, database: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """See `Catalog`. Only an empty folder can be dropped."""
        if database not in self._folders():
            if if_exists:
                return
            raise self._no_database(database)
        if self.list_tables(database):
            raise DatabaseNotEmptyError(
                f"the database {database} has tables",
                found=", ".join(self.list_tables(database)),
                hint="remove their files, which the catalog does not",
            )
        with self._errors("removing", database):
            self._location.fs.rmdir(self._path(database))

    def list_tables(self, database: str) -> list[str]:
        """See `Catalog`. The folders that have files of a known format."""
        if not self.database_exists(database):
            raise self._no_database(database)
        names = self._folders(database)
        return sorted(name for name in names if self._first_file(database, name) is not None)

    def table_exists(self, path: ObjectPath) -> bool:
        """See `Catalog`. Case matters."""
        return self._first_file(path.database, path.name) is not None

    def get_table(self, path: ObjectPath) -> CatalogTable:
        """See `Catalog`."""
        found = self._first_file(path.database, path.name)
        if found is None:
            raise TableNotExistError(
                f"there is no folder {path.name} with files", found=self._location.url
            )
        kind, _ = detect_format(found)
        assert kind is not None
        folders = posixpath.dirname(found).split("/")
        keys = tuple(unquote(each.partition("=")[0]) for each in folders if "=" in each)
        place = self._path(path.database, path.name)
        options = {
            "connector": "filesystem",
            "format": kind.value,
            **self._options,
            "path": self._location.url_of(place),
        }
        return CatalogTable(schema=TableSchema(), options=options, partition_keys=keys)

    # --- partitions and statistics ---

    def list_partitions(self, path: ObjectPath) -> list[dict[str, str]]:
        """See `Catalog`. The folders `key=value`, also empty ones."""
        keys = self.get_table(path).partition_keys
        return [dict(each) for each in self._partitions(len(keys), path.database, path.name)]

    def create_partition(self, path: ObjectPath, partition: Mapping[str, str]) -> None:
        """See `Catalog`. An empty folder."""
        folders = self._folders_of(path, partition)
        with self._errors("creating a partition of", str(path)):
            self._location.fs.makedirs(
                self._path(path.database, path.name, *folders), exist_ok=True
            )

    def drop_partition(self, path: ObjectPath, partition: Mapping[str, str]) -> None:
        """See `Catalog`. Its files are removed."""
        folder = self._path(path.database, path.name, *self._folders_of(path, partition))
        with self._errors("removing a partition of", str(path)):
            self._location.fs.rm(folder, recursive=True)

    def get_table_statistics(self, path: ObjectPath) -> CatalogTableStatistics:
        """See `Catalog`. The size of all files."""
        sizes = [info["size"] for _, info in self._files(path.database, path.name)]
        return CatalogTableStatistics(total_size=sum(sizes))

    # --- folders ---

    def _path(self, *parts: str) -> str:
        for each in parts:
            if not each or "/" in each or each in {".", ".."}:
                raise InvalidOptionError(
                    f"{each!r} is not the name of a folder", option="path", found=each
                )
        return self._location.join(*parts) if parts else self._location.path

    def _folders(self, *parts: str) -> list[str]:
        return sorted(
            posixpath.basename(info["name"].rstrip("/"))
            for info in self._listed(self._path(*parts))
            if info["type"] == "directory"
        )

    def _listed(self, folder: str) -> Iterator[Mapping[str, Any]]:
        with self._errors("listing", folder):
            try:
                found = self._location.fs.ls(folder, detail=True)
            except FileNotFoundError:
                return
        for info in sorted(found, key=lambda info: str(info["name"])):
            if not posixpath.basename(info["name"].rstrip("/")).startswith(_HIDDEN):
                yield info

    def _files(self, *parts: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the data files below a folder, by their paths relative to it."""
        waiting = [self._path(*parts)]
        root = waiting[0].rstrip("/")
        while waiting:
            for info in self._listed(waiting.pop(0)):
                name = str(info["name"]).rstrip("/")
                if info["type"] == "directory":
                    waiting.append(name)
                elif detect_format(name)[0] is not None:
                    yield posixpath.relpath(name, root), info

    def _first_file(self, database: str, name: str) -> str | None:
        return next((path for path, _ in self._files(database, name)), None)

    def _partitions(self, depth: int, *parts: str) -> Iterator[list[tuple[str, str]]]:
        if not depth:
            yield []
            return
        for folder in self._folders(*parts):
            key, equals, value = folder.partition("=")
            if equals:
                shown = "" if value in NULL_PARTITIONS else unquote(value)
                for rest in self._partitions(depth - 1, *parts, folder):
                    yield [(unquote(key), shown), *rest]

    def _folders_of(self, path: ObjectPath, partition: Mapping[str, str]) -> list[str]:
        keys = self.get_table(path).partition_keys
        if set(partition) != set(keys):
            raise InvalidOptionError(
                f"the partition does not fit the table {path}",
                expected=", ".join(keys) or "a table with partitions",
                found=", ".join(partition),
            )
        return [f"{escape_path_name(key)}={escape_path_name(partition[key])}" for key in keys]

    def _errors(self, doing: str, what: str) -> Any:
        return mapped_errors(f"{doing} {what} in", self._location.url)

    def _no_database(self, database: str) -> DatabaseNotExistError:
        return DatabaseNotExistError(
            f"there is no folder {database}", expected=", ".join(self.list_databases())
        )


class FileCatalogFactory(CatalogFactory):
    """Catalogs of the type `filesystem`."""

    identifier = "filesystem"

    def is_secret(self, key: str) -> bool:
        """See `CatalogFactory`."""
        return FileSource.OPTIONS.is_secret(key)

    def options(self) -> tuple[Option[Any], ...]:
        """See `CatalogFactory`."""
        return tuple(each for each in FileSource.OPTIONS if each.key in _OF_CATALOG)

    def create_catalog(self, name: str, options: Mapping[str, str]) -> FileCatalog:
        """See `CatalogFactory`."""
        return FileCatalog(name, options)
