# SPDX-License-Identifier: Apache-2.0
"""The core's test suites for tables of files and for folders as a catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from connector_filesystem import FileSink, KeyedFileSink
from connector_filesystem.catalog import FileCatalog
from connector_filesystem.table_factory import FileTableFactory
from connectors_core.catalog import FileCatalogStore
from connectors_core.table import CatalogTable, MetadataColumn
from connectors_core.testing import (
    Capabilities,
    Capability,
    CatalogExternalContext,
    CatalogTestSuite,
    ChangelogExternalContext,
    ChangelogTestSuite,
    TableExternalContext,
    TableTestSuite,
    table_schema,
)

SUITES = "1.5"
PASSWORD = "canary-93f1"  # pragma: allowlist secret
_NO_ROWS = pa.table({"id": [], "text": [], "version": []})


class FileTables(TableExternalContext):
    """A folder of Parquet files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def definition(self) -> CatalogTable:
        options = {"connector": "filesystem", "path": str(self._folder), "format": "parquet"}
        return CatalogTable(schema=table_schema(), options=options)

    def metadata(self) -> Sequence[MetadataColumn]:
        return [
            MetadataColumn("file", pa.string(), "file.name", virtual=True),
            MetadataColumn("path", pa.string(), "file.path", virtual=True),
        ]

    def secret_options(self) -> Mapping[str, str]:
        return {"storage-options.secret": PASSWORD}


class FileTableSuite(TableTestSuite):
    written_for = SUITES
    factory = FileTableFactory
    capabilities = Capabilities(
        can=frozenset(
            {
                Capability.SCAN,
                Capability.INSERT,
                Capability.LOOKUP,
                Capability.METADATA_COLUMNS,
                Capability.SECRETS,
            }
        )
    )

    def external_context(self, folder: Path) -> FileTables:
        return FileTables(folder)


class KeyedFileTables(FileTables):
    """A folder of Parquet files, whose rows have a key."""

    def definition(self) -> CatalogTable:
        return replace(super().definition(), schema=table_schema(key=True))


class KeyedFileTableSuite(FileTableSuite):
    def external_context(self, folder: Path) -> KeyedFileTables:
        return KeyedFileTables(folder)


class ChangedFiles(ChangelogExternalContext):
    """A folder of Parquet files that equal the table of the changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "copy"

    def create_sink(self) -> KeyedFileSink:
        return KeyedFileSink(FileSink(str(self._folder)), ("id",))

    def read_back(self) -> pa.Table:
        found = sorted(self._folder.glob("*.parquet"))
        return pa.concat_tables(map(pq.read_table, found)) if found else _NO_ROWS


class KeyedFileChangelogSuite(ChangelogTestSuite):
    capabilities = Capabilities(
        can=frozenset({Capability.CHANGELOG_SINK}),
        cannot={Capability.CHANGELOG_SOURCE: "files have rows, not their changes"},
    )

    def external_context(self, folder: Path) -> ChangedFiles:
        return ChangedFiles(folder)


class Folders(CatalogExternalContext):
    """A folder whose folders are databases."""

    catalog_class: type[FileCatalog] = FileCatalog

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "lake"
        self._store = FileCatalogStore(folder / "catalogs")

    def create_catalog(self, name: str) -> FileCatalog:
        return self.new_catalog(name, {"drop-files": "true"})

    def create_default_catalog(self, name: str) -> FileCatalog:
        return self.new_catalog(name, {})

    def new_catalog(self, name: str, options: Mapping[str, str]) -> FileCatalog:
        own = {"path": str(self._folder), "storage-options.auto_mkdir": "false"}
        catalog = self.catalog_class(name, {**own, **options})
        catalog.definitions = self._store.tables_of("folders")
        return catalog

    def definition(self) -> CatalogTable:
        return CatalogTable(schema=table_schema(), options={"format": "csv"}, comment="made")

    def add_table(self, name: str) -> None:
        self._put(self._folder / "default" / name)

    def add_partitioned_table(self, name: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        self._put(self._folder / "default" / name / "day=2024-01-01" / "hour=7")
        return {"day": "2024-01-01", "hour": "7"}, {"day": "2024-01-02", "hour": "8"}

    def stored(self, name: str) -> set[Path]:
        return set((self._folder / "default" / name).rglob("*.parquet"))

    @staticmethod
    def _put(folder: Path) -> None:
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2], "text": ["a", "b"]}), folder / "1.parquet")


class FileCatalogSuite(CatalogTestSuite):
    written_for = SUITES
    capabilities = Capabilities(
        can=frozenset(
            {
                Capability.CREATE_DATABASES,
                Capability.CREATE_TABLES,
                Capability.ALTER_TABLES,
                Capability.DROP_TABLES,
                Capability.PARTITIONS,
                Capability.STATISTICS,
                Capability.PERSISTENT,
            }
        ),
        cannot={
            Capability.RENAME_TABLES: "files stay where they are",
            Capability.VIEWS: "a folder has only data",
            Capability.SECRETS: "local folders need no login",  # pragma: allowlist secret
        },
    )

    def external_context(self, folder: Path) -> Folders:
        return Folders(folder)
