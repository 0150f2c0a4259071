# SPDX-License-Identifier: Apache-2.0
"""A catalog in memory (Flink's `GenericInMemoryCatalog`)."""

from __future__ import annotations

from connectors_core.catalog.catalog import ObjectPath
from connectors_core.catalog.errors import (
    CatalogError,
    DatabaseAlreadyExistError,
    DatabaseNotEmptyError,
    DatabaseNotExistError,
    TableAlreadyExistError,
    TableNotExistError,
)
from connectors_core.catalog.function_catalog import FunctionCatalog
from connectors_core.catalog.function_store import MemoryFunctionStore
from connectors_core.options.suggestions import suggested
from connectors_core.table.catalog_table import CatalogTable, CatalogView

__all__ = ["GenericInMemoryCatalog"]


class GenericInMemoryCatalog(FunctionCatalog):
    """Databases with functions, and with tables and views of any connector.

    Case does not matter, as in Spark. Everything is gone when the process ends.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._databases: dict[str, dict[str, CatalogTable | CatalogView]] = {
            self.default_database: {}
        }

    def open(self) -> None:
        """See `Catalog`. A catalog of a store begins without functions too."""
        self.functions = MemoryFunctionStore()

    def normalized(self, name: str) -> str:
        """See `Catalog`."""
        return name.lower()

    def list_databases(self) -> list[str]:
        """See `Catalog`."""
        return sorted(self._databases)

    def database_exists(self, database: str) -> bool:
        """See `Catalog`."""
        return database.lower() in self._databases

    def create_database(self, database: str, *, if_not_exists: bool = False) -> None:
        """See `Catalog`."""
        if self.database_exists(database) and not if_not_exists:
            raise DatabaseAlreadyExistError(
                f"the database {database} exists", hint="use IF NOT EXISTS"
            )
        self._databases.setdefault(database.lower(), {})

    def drop_database(
        self, database: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """See `Catalog`. The default database stays."""
        if database.lower() == self.default_database:
            raise CatalogError(f"the database {database} cannot be dropped")
        if if_exists and not self.database_exists(database):
            return
        functions = self.list_functions(database)
        kept = [*sorted(self._tables(database)), *functions]
        if kept and not cascade:
            raise DatabaseNotEmptyError(
                f"the database {database} has tables or functions",
                found=", ".join(kept),
                hint="drop them first, or use DROP DATABASE ... CASCADE",
            )
        for name in functions:
            self.drop_function(ObjectPath(database, name))
        del self._databases[database.lower()]

    def list_tables(self, database: str) -> list[str]:
        """See `Catalog`."""
        return sorted(self._tables(database))

    def list_views(self, database: str) -> list[str]:
        """See `Catalog`."""
        tables = self._tables(database)
        return sorted(name for name, each in tables.items() if isinstance(each, CatalogView))

    def table_exists(self, path: ObjectPath) -> bool:
        """See `Catalog`."""
        return path.name.lower() in self._databases.get(path.database.lower(), {})

    def get_table(self, path: ObjectPath) -> CatalogTable | CatalogView:
        """See `Catalog`."""
        found = self._tables(path.database).get(path.name.lower())
        if found is None:
            similar = suggested(path.name, {name: name for name in self.list_tables(path.database)})
            raise TableNotExistError(
                f"there is no table {path}",
                hint=f"did you mean {similar[0]}?" if similar else "create it with CREATE TABLE",
            )
        return found

    def create_table(
        self, path: ObjectPath, table: CatalogTable | CatalogView, *, replace: bool = False
    ) -> None:
        """See `Catalog`."""
        tables = self._tables(path.database)
        if path.name.lower() in tables and not replace:
            raise TableAlreadyExistError(
                f"the table {path} exists", hint="drop it, or use IF NOT EXISTS"
            )
        tables[path.name.lower()] = table

    def alter_table(self, path: ObjectPath, table: CatalogTable | CatalogView) -> None:
        """See `Catalog`."""
        self.get_table(path)
        self.create_table(path, table, replace=True)

    def rename_table(self, path: ObjectPath, name: str) -> None:
        """See `Catalog`."""
        self.create_table(ObjectPath(path.database, name), self.get_table(path))
        self.drop_table(path)

    def drop_table(self, path: ObjectPath) -> None:
        """See `Catalog`."""
        self.get_table(path)
        del self._tables(path.database)[path.name.lower()]

    def _tables(self, database: str) -> dict[str, CatalogTable | CatalogView]:
        found = self._databases.get(database.lower())
        if found is None:
            raise DatabaseNotExistError(
                f"there is no database {database}", expected=", ".join(self.list_databases())
            )
        return found
