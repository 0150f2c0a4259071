# SPDX-License-Identifier: Apache-2.0
"""A folder as a catalog: its folders are databases, and theirs are tables."""

from __future__ import annotations

import contextlib
import glob
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from connector_filesystem.filesystem import STORAGE_OPTIONS, FileLocation, mapped_errors
from connector_filesystem.formats import detect_format
from connector_filesystem.sink.buckets import escape_path_name
from connector_filesystem.sink.contents import CONTENTS_FOLDER
from connector_filesystem.source import FileSource
from connector_filesystem.source.paths import NULL_PARTITIONS
from connectors_core.catalog import (
    CatalogError,
    CatalogFactory,
    CatalogTableStatistics,
    DatabaseAlreadyExistError,
    DatabaseNotEmptyError,
    DatabaseNotExistError,
    FunctionCatalog,
    ObjectPath,
    PartitionNotExistError,
    TableAlreadyExistError,
    TableNotExistError,
)
from connectors_core.errors import InvalidOptionError
from connectors_core.options import Configured, Option, Setting, option
from connectors_core.table import CatalogTable, CatalogView, TableSchema

__all__ = ["FileCatalog", "FileCatalogFactory", "FileCatalogOptions"]

_HIDDEN: Final = (".", "_")
# An object store has no empty folders, so that an empty file stands for one.
_KEEP: Final = ".keep"
_OWN: Final = frozenset({"path", "drop-files"})


class FileCatalogOptions(Configured, scope="file catalog", since="3.0.0"):
    """The settings of `FileCatalog`."""

    path: Setting[str] = option("path", str, doc="The folder, as a path or a URL.")
    storage_options: Setting[dict[str, Any], Mapping[str, Any] | None] = STORAGE_OPTIONS
    drop_files: Setting[bool] = option(
        "drop-files",
        bool,
        default=False,
        doc="Whether dropping a table or partition deletes its files. Otherwise, it is refused if "
        "there are files.",
    )


class FileCatalog(FunctionCatalog):
    """The folders below a path: a database is a folder, and a table is a folder in it.

    A table that the catalog has created has the columns and partitions of its definition, which
    the catalog keeps. Any other folder with files is a table with the columns of its files, and
    those of folders such as `day=2026-01-31`.

    Args:
        name: The name of the catalog.
        options: `FileCatalogOptions`, and others for all tables, such as those of the source.
    """

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name)
        own = {key: each for key, each in options.items() if key in FileCatalogOptions.OPTIONS}
        settings = FileCatalogOptions.from_options(own)
        self._options = {key: each for key, each in options.items() if key not in _OWN}
        self._drops_files = settings.drop_files
        self._location = FileLocation(settings.path, settings.storage_options or {})

    def open(self) -> None:
        """See `Catalog`."""
        self._location.check_reachable()

    # --- databases ---

    def list_databases(self) -> list[str]:
        """See `Catalog`. The default one is always there."""
        defined = {path.database for path in self.definitions.paths()}
        return sorted({self.default_database, *defined, *self._folders()})

    def create_database(self, database: str, *, if_not_exists: bool = False) -> None:
        """See `Catalog`. It creates a folder."""
        if self.database_exists(database) and not if_not_exists:
            raise DatabaseAlreadyExistError(f"the database {database} exists")
        self._make_folder(database)

    def drop_database(
        self, database: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """See `Catalog`. With its tables, it drops their files only if the catalog allows it."""
        if not self.database_exists(database):
            if if_exists:
                return
            raise self._no_database(database)
        tables = [ObjectPath(database, name) for name in self.list_tables(database)]
        functions = self.list_functions(database)
        kept = [each.name for each in tables if not cascade or self._keeps_files(each)]
        kept += [] if cascade else functions
        if kept:
            raise DatabaseNotEmptyError(
                f"the database {database} has tables or functions",
                found=", ".join(kept),
                option="drop-files" if cascade else None,
                hint="drop them first, or use DROP DATABASE ... CASCADE; it deletes files if the "
                "catalog has 'drop-files' = 'true'",
            )
        for each in tables:
            self.drop_table(each)
        if not self._remove_empty(database):
            raise DatabaseNotEmptyError(
                f"the folder of the database {database} has files of no table",
                hint="remove them, which the catalog does not",
            )
        for name in functions:
            self.drop_function(ObjectPath(database, name))

    # --- tables ---

    def list_tables(self, database: str) -> list[str]:
        """See `Catalog`. Folders with files of a known format, and tables with a definition."""
        if not self.database_exists(database):
            raise self._no_database(database)
        folders = self._folders(database)
        defined = {each.name for each in self.definitions.paths() if each.database == database}
        with_files = {name for name in folders if self._first_file(database, name) is not None}
        return sorted(defined | with_files)

    def table_exists(self, path: ObjectPath) -> bool:
        """See `Catalog`. Case matters."""
        file = self._first_file(path.database, path.name)
        return file is not None or self.definitions.get(path) is not None

    def get_table(self, path: ObjectPath) -> CatalogTable:
        """See `Catalog`."""
        self._path(path.database, path.name)
        found = self.definitions.get(path) or self._table_of_files(path)
        if found is None:
            raise _missing(path)
        return self.completed(path, found)

    def completed(self, path: ObjectPath, table: CatalogTable) -> CatalogTable:
        """See `Catalog`."""
        return self.with_known(path, table, self._known(path), fixed=("connector", "path"))

    def create_table(
        self, path: ObjectPath, table: CatalogTable | CatalogView, *, replace: bool = False
    ) -> None:
        """See `Catalog`. It creates a folder, and keeps the definition."""
        if isinstance(table, CatalogView) or replace:
            raise self.unsupported("create a view")
        if not self.database_exists(path.database):
            raise self._no_database(path.database)
        if glob.has_magic(path.name):
            raise InvalidOptionError(
                f"the name {path.name!r} is a pattern of files",
                expected="a name without *, ?, and [",
                option="path",
                found=path.name,
            )
        # Only the process that has added the definition has created the table.
        definition = self.without_known(self.completed(path, table), self._known(path))
        if self.table_exists(path) or not self.definitions.add(path, definition):
            raise TableAlreadyExistError(f"the table {path} exists", hint="use IF NOT EXISTS")
        try:
            self._make_folder(path.database, path.name)
        except BaseException:
            self.definitions.remove(path)
            raise

    def alter_table(self, path: ObjectPath, table: CatalogTable | CatalogView) -> None:
        """See `Catalog`. It keeps the definition, also that of a table that had none."""
        if isinstance(table, CatalogView):
            raise self.unsupported("alter a view")
        if not self.table_exists(path):
            raise _missing(path)
        definition = self.without_known(self.completed(path, table), self._known(path))
        self.definitions.replace(path, definition)

    def drop_table(self, path: ObjectPath) -> None:
        """See `Catalog`. It deletes the files of the table, if the catalog allows it.

        Raises:
            TableNotExistError: There is none.
            CatalogError: The table has files, and the catalog does not allow it.
        """
        if not self.table_exists(path):
            raise _missing(path)
        if self._keeps_files(path):
            raise self._files_stay(f"of the table {path}")
        # Without files, only the records of a table with a key can remain.
        records = () if self._drops_files else (CONTENTS_FOLDER,)
        folder = self._path(path.database, path.name, *records)
        with self._errors("removing", str(path)), contextlib.suppress(FileNotFoundError):
            self._location.fs.invalidate_cache()
            self._location.fs.rm(folder, recursive=True)
        if not self._drops_files:
            self._remove_empty(path.database, path.name)
        self.definitions.remove(path)

    def _keeps_files(self, path: ObjectPath) -> bool:
        return not self._drops_files and self._first_file(path.database, path.name) is not None

    def _known(self, path: ObjectPath) -> dict[str, str]:
        folder = self._path(path.database, path.name)
        return {
            "connector": "filesystem",
            **self._options,
            "path": self._location.url_of(folder),
        }

    def _table_of_files(self, path: ObjectPath) -> CatalogTable | None:
        """Return the table that the files of a folder show."""
        found = self._first_file(path.database, path.name)
        if found is None:
            return None
        kind, _ = detect_format(found)
        assert kind is not None
        folders = posixpath.dirname(found).split("/")
        keys = tuple(unquote(each.partition("=")[0]) for each in folders if "=" in each)
        options = {} if "format" in self._options else {"format": kind.value}
        return CatalogTable(schema=TableSchema(), options=options, partition_keys=keys)

    # --- partitions and statistics ---

    def list_partitions(self, path: ObjectPath) -> list[dict[str, str]]:
        """See `Catalog`. The folders `key=value`, also empty ones."""
        keys = self.get_table(path).partition_keys
        return [dict(each) for each in self._partitions(len(keys), path.database, path.name)]

    def create_partition(self, path: ObjectPath, partition: Mapping[str, str]) -> None:
        """See `Catalog`. An empty folder."""
        folders = self._folders_of(path, partition)
        self._make_folder(path.database, path.name, *folders)

    def drop_partition(self, path: ObjectPath, partition: Mapping[str, str]) -> None:
        """See `Catalog`. It deletes the files of the partition, if the catalog allows it.

        Raises:
            PartitionNotExistError: There is none.
            CatalogError: The partition has files, and the catalog does not allow it.
        """
        parts = path.database, path.name, *self._folders_of(path, partition)
        if not self._is_folder(*parts):
            raise PartitionNotExistError(
                f"the table {path} has no partition {'/'.join(parts[2:])}",
                hint="list_partitions() returns those that exist",
            )
        if not self._drops_files:
            if not self._remove_empty(*parts):
                raise self._files_stay(f"of a partition of the table {path}")
            return
        with self._errors("removing a partition of", str(path)):
            self._location.fs.rm(self._path(*parts), recursive=True)

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

    def _make_folder(self, *parts: str) -> None:
        folder, fs = self._path(*parts), self._location.fs
        with self._errors("creating", "/".join(parts)):
            fs.makedirs(folder, exist_ok=True)
            if not fs.isdir(folder):
                fs.touch(f"{folder}/{_KEEP}")

    def _is_folder(self, *parts: str) -> bool:
        folder, fs = self._path(*parts), self._location.fs
        with self._errors("listing", "/".join(parts)):
            fs.invalidate_cache(folder)
            return bool(fs.isdir(folder))

    def _remove_empty(self, *parts: str) -> bool:
        """Remove a folder without files, also in its folders; return whether it is gone."""
        folder, fs = self._path(*parts), self._location.fs
        with self._errors("removing", "/".join(parts)):
            fs.invalidate_cache(folder)
            try:
                found = {str(each["name"]).rstrip("/"): each for each in fs.ls(folder, detail=True)}
            except FileNotFoundError:
                return True
            names = {
                name
                for name, info in found.items()
                if name == folder
                or info["type"] != "directory"
                or not self._remove_empty(*parts, posixpath.basename(name))
            }
            if not names <= {folder, f"{folder}/{_KEEP}"}:
                return False
            if f"{folder}/{_KEEP}" in names:
                fs.rm_file(f"{folder}/{_KEEP}")
            if fs.isdir(folder):
                fs.rmdir(folder)
        return True

    def _folders(self, *parts: str) -> list[str]:
        return sorted(
            posixpath.basename(info["name"].rstrip("/"))
            for info in self._listed(self._path(*parts))
            if info["type"] == "directory"
        )

    def _listed(self, folder: str) -> Iterator[Mapping[str, Any]]:
        with self._errors("listing", folder):
            self._location.fs.invalidate_cache(folder)  # other processes write here
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

    def _files_stay(self, whose: str) -> CatalogError:
        return CatalogError(
            f"the catalog {self.name} does not delete the files {whose}",
            option="drop-files",
            hint="remove the folder yourself, or create the catalog WITH ('drop-files' = 'true')",
        )

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
        return tuple(FileCatalogOptions.OPTIONS)

    def create_catalog(self, name: str, options: Mapping[str, str]) -> FileCatalog:
        """See `CatalogFactory`."""
        return FileCatalog(name, options)


def _missing(path: ObjectPath) -> TableNotExistError:
    return TableNotExistError(
        f"there is no table {path}", hint="SHOW TABLES lists the folders with files"
    )
