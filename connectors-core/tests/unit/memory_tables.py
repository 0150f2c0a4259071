# SPDX-License-Identifier: Apache-2.0
"""The catalog suite for the catalog in memory."""

from __future__ import annotations

import pyarrow as pa

from connectors_core.catalog import GenericInMemoryCatalog, ObjectPath
from connectors_core.table import CatalogTable, PhysicalColumn, TableSchema
from connectors_core.testing import (
    Capabilities,
    Capability,
    CatalogExternalContext,
    CatalogTestSuite,
)


class Memory(CatalogExternalContext):
    """Tables of files, which are never read, in one folder."""

    def __init__(self, folder, catalog=None):
        self._folder = folder
        self._catalog = catalog or GenericInMemoryCatalog("memory")

    def create_catalog(self, name):
        return self._catalog

    def add_table(self, name):
        self._catalog.create_table(ObjectPath("default", name), self.definition())
        (self._folder / name).touch()

    def stored(self, name):
        return (self._folder / name).exists()

    def definition(self):
        columns = (PhysicalColumn("id", pa.int64()), PhysicalColumn("text", pa.string()))
        options = {"connector": "filesystem", "path": str(self._folder), "format": "parquet"}
        return CatalogTable(
            schema=TableSchema(columns, primary_key=("id",)), options=options, comment="things"
        )


class MemoryCatalogSuite(CatalogTestSuite):
    written_for = "1.5"
    capabilities = Capabilities(
        can=frozenset(
            {
                Capability.CREATE_DATABASES,
                Capability.CREATE_TABLES,
                Capability.ALTER_TABLES,
                Capability.RENAME_TABLES,
                Capability.DROP_TABLES,
                Capability.VIEWS,
            }
        ),
        cannot={
            Capability.PARTITIONS: "definitions have no data",
            Capability.STATISTICS: "definitions have no data",
            Capability.PERSISTENT: "it is in memory",
            Capability.SECRETS: "it has no login",  # pragma: allowlist secret
        },
    )

    def external_context(self, folder):
        return Memory(folder)
