# SPDX-License-Identifier: Apache-2.0
"""Where a catalog keeps the definitions of tables that its system cannot keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from connectors_core.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from connectors_core.catalog.catalog import ObjectPath

__all__ = ["MemoryTableStore", "TableStore"]

# Only stored definitions have this option.
_IDENTITY: Final = "identity"


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

    @abstractmethod
    def paths(self) -> list[ObjectPath]:
        """Return the tables that have a definition, in no order."""

    def check(self, path: ObjectPath, table: CatalogTable) -> None:
        """Check that a definition can be stored. Call it before the system creates the table.

        Raises:
            InvalidOptionError: A secret would be stored in clear text.
        """

    def current(self, path: ObjectPath, identity: str) -> CatalogTable | None:
        """Return the definition of a table, or None if there is none.

        A definition of a former table of the same name is none.

        Args:
            path: The table.
            identity: The system's ID of the table, which differs from that of a later table of the
                same name, such as the ID of a topic. Empty if the system has none.
        """
        table = self.get(path)
        if table is None:
            return None
        options = dict(table.options)
        stored = options.pop(_IDENTITY, "")
        if stored and identity and stored != identity:
            return None
        return replace(table, options=options)

    def define(self, path: ObjectPath, table: CatalogTable, identity: str) -> None:
        """Add or replace the definition of a table; see `current` and `replace`."""
        self.replace(path, _identified(table, identity))

    def define_once(self, path: ObjectPath, table: CatalogTable, identity: str) -> bool:
        """Add the definition of a table that has none; see `current` and `add`.

        Returns:
            Whether this call added it.
        """
        if self.add(path, _identified(table, identity)):
            return True
        if self.current(path, identity) is not None:
            return False
        self.define(path, table, identity)
        return True


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

    def paths(self) -> list[ObjectPath]:
        """See `TableStore`."""
        return list(self._tables)


def _identified(table: CatalogTable, identity: str) -> CatalogTable:
    options = {**table.options, _IDENTITY: identity} if identity else table.options
    return replace(table, options=options)
