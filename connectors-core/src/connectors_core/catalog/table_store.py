# SPDX-License-Identifier: Apache-2.0
"""Where a catalog keeps the definitions of tables that its system cannot keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from connectors_core.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from connectors_core.catalog.catalog import ObjectPath

__all__ = ["MemoryTableStore", "TableStore"]


class TableStore(ABC):
    """Keeps the definitions of the tables of one catalog. Driver."""

    @abstractmethod
    def get(self, path: ObjectPath) -> CatalogTable | None:
        """Return the definition of a table, or None if there is none."""

    @abstractmethod
    def add(self, path: ObjectPath, table: CatalogTable) -> bool:
        """Add a definition, and return whether this call added it.

        Of several concurrent additions of a table, one succeeds.

        Raises:
            InvalidOptionError: A secret would be stored in clear text.
        """

    @abstractmethod
    def replace(self, path: ObjectPath, table: CatalogTable) -> None:
        """Add or replace a definition.

        Raises:
            InvalidOptionError: A secret would be stored in clear text.
        """

    @abstractmethod
    def remove(self, path: ObjectPath) -> None:
        """Remove a definition if there is one."""


class MemoryTableStore(TableStore):
    """Definitions that end with the process."""

    def __init__(self) -> None:
        self._tables: dict[ObjectPath, CatalogTable] = {}

    def get(self, path: ObjectPath) -> CatalogTable | None:
        """See `TableStore`."""
        return self._tables.get(path)

    def add(self, path: ObjectPath, table: CatalogTable) -> bool:
        """See `TableStore`."""
        return self._tables.setdefault(path, table) is table

    def replace(self, path: ObjectPath, table: CatalogTable) -> None:
        """See `TableStore`."""
        self._tables[path] = table

    def remove(self, path: ObjectPath) -> None:
        """See `TableStore`."""
        self._tables.pop(path, None)
