# SPDX-License-Identifier: Apache-2.0
"""Databases and tables of one system (Flink's FLIP-30)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from connectors_core.catalog.errors import (
    CatalogOperationUnsupportedError,
    DatabaseNotExistError,
)
from connectors_core.catalog.function_store import CatalogFunction
from connectors_core.catalog.table_store import MemoryTableStore, TableStore
from connectors_core.errors import InvalidOptionError
from connectors_core.table.catalog_table import CONNECTOR, CatalogTable, CatalogView

__all__ = ["Catalog", "CatalogTableStatistics", "ObjectPath"]


@dataclass(frozen=True)
class ObjectPath:
    """The place of a table, a view, or a function in a catalog.

    Attributes:
        database: Its database.
        name: Its name.
    """

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, kw_only=True)
class CatalogTableStatistics:
    """The size of a table.

    Attributes:
        row_count: The number of rows, or None if it is unknown.
        total_size: The size in bytes, or None if it is unknown.
    """

    row_count: int | None = None
    total_size: int | None = None


class Catalog(ABC):
    """The databases, tables, views, partitions, functions, and statistics of one system. Driver.

    A catalog implements what its system has. Everything else raises a
    `CatalogOperationUnsupportedError`. Names are passed as the user writes them, and a catalog
    decides whether case matters.

    Args:
        name: The name of the catalog.

    Attributes:
        definitions: Keeps the parts of a definition that the system cannot keep, such as columns.
            A catalog of a `CatalogStore` gets the one of the store before it is opened. The
            default one ends with the catalog.
    """

    default_database = "default"

    def __init__(self, name: str) -> None:
        self.name = name
        self.definitions: TableStore = MemoryTableStore()

    def normalized(self, name: str) -> str:
        """Return the form of a name that equal names share."""
        return name

    def open(self) -> None:
        """Connect to the system.

        Raises:
            ConnectorError: The system does not respond, or refuses the login.
        """

    def close(self) -> None:
        """Release connections."""

    # --- databases ---

    @abstractmethod
    def list_databases(self) -> Sequence[str]:
        """Return the names of all databases."""

    def database_exists(self, database: str) -> bool:
        """Return whether there is a database of this name."""
        return database in self.list_databases()

    def refuse_other_databases(self, database: str) -> None:
        """Refuse a database other than the default one, for a system without databases.

        Raises:
            DatabaseNotExistError: It is another one.
        """
        if database != self.default_database:
            raise DatabaseNotExistError(
                f"there is no database {database}", expected=self.default_database
            )

    def create_database(self, database: str, *, if_not_exists: bool = False) -> None:
        """Add a database.

        Raises:
            DatabaseAlreadyExistError: It exists.
        """
        raise self.unsupported("create a database")

    def drop_database(
        self, database: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Remove a database.

        Raises:
            DatabaseNotExistError: It does not exist.
            DatabaseNotEmptyError: It has tables or functions.
        """
        raise self.unsupported("drop a database")

    # --- tables and views ---

    @abstractmethod
    def list_tables(self, database: str) -> Sequence[str]:
        """Return the names of all tables and views of a database.

        Raises:
            DatabaseNotExistError: The database does not exist.
        """

    def list_views(self, database: str) -> Sequence[str]:
        """Return the names of the views of a database; most systems have none.

        Raises:
            DatabaseNotExistError: The database does not exist.
        """
        return ()

    @abstractmethod
    def get_table(self, path: ObjectPath) -> CatalogTable | CatalogView:
        """Return the definition of a table or view.

        Raises:
            TableNotExistError: There is none.
        """

    @abstractmethod
    def table_exists(self, path: ObjectPath) -> bool:
        """Return whether there is a table or view."""

    def completed(self, path: ObjectPath, table: CatalogTable) -> CatalogTable:
        """Return a table as `get_table` returns it after its creation, without creating it.

        A catalog adds the options that it knows, such as those of the connection.

        Raises:
            ConfigurationError: An option contradicts the catalog.
        """
        return table

    def create_table(
        self, path: ObjectPath, table: CatalogTable | CatalogView, *, replace: bool = False
    ) -> None:
        """Add a table or view.

        Raises:
            DatabaseNotExistError: The database does not exist.
            TableAlreadyExistError: One of this name exists.
        """
        kind = "view" if isinstance(table, CatalogView) else "table"
        raise self.unsupported(f"create a {kind}")

    def alter_table(self, path: ObjectPath, table: CatalogTable | CatalogView) -> None:
        """Replace the definition of a table or view.

        Raises:
            TableNotExistError: There is none.
        """
        raise self.unsupported("alter a table")

    def rename_table(self, path: ObjectPath, name: str) -> None:
        """Give a table or view another name in its database.

        Raises:
            TableNotExistError: There is none.
            TableAlreadyExistError: The name is taken.
        """
        raise self.unsupported("rename a table")

    def drop_table(self, path: ObjectPath) -> None:
        """Remove a table or view.

        Raises:
            TableNotExistError: There is none.
        """
        raise self.unsupported("drop a table")

    # --- functions ---

    def list_functions(self, database: str) -> Sequence[str]:
        """Return the names of the functions of a database.

        Raises:
            DatabaseNotExistError: The database does not exist.
        """
        raise self.unsupported("list functions")

    def function_exists(self, path: ObjectPath) -> bool:
        """Return whether there is a function."""
        raise self.unsupported("keep functions")

    def get_function(self, path: ObjectPath) -> CatalogFunction:
        """Return a function.

        Raises:
            FunctionNotExistError: There is none.
        """
        raise self.unsupported("keep functions")

    def create_function(self, path: ObjectPath, function: CatalogFunction) -> None:
        """Add a function.

        Raises:
            DatabaseNotExistError: The database does not exist.
            FunctionAlreadyExistError: One of this name exists.
        """
        raise self.unsupported("create a function")

    def alter_function(self, path: ObjectPath, function: CatalogFunction) -> None:
        """Replace a function.

        Raises:
            FunctionNotExistError: There is none.
        """
        raise self.unsupported("alter a function")

    def drop_function(self, path: ObjectPath) -> None:
        """Remove a function.

        Raises:
            FunctionNotExistError: There is none.
        """
        raise self.unsupported("drop a function")

    # --- partitions and statistics ---

    def list_partitions(self, path: ObjectPath) -> Sequence[Mapping[str, str]]:
        """Return the values of the partition columns of each partition."""
        raise self.unsupported("list partitions")

    def create_partition(self, path: ObjectPath, partition: Mapping[str, str]) -> None:
        """Add an empty partition."""
        raise self.unsupported("create a partition")

    def drop_partition(self, path: ObjectPath, partition: Mapping[str, str]) -> None:
        """Remove a partition with its data.

        Raises:
            PartitionNotExistError: It does not exist.
        """
        raise self.unsupported("drop a partition")

    def get_table_statistics(self, path: ObjectPath) -> CatalogTableStatistics:
        """Return the size of a table."""
        raise self.unsupported("count rows")

    def with_known(
        self,
        path: ObjectPath,
        table: CatalogTable,
        known: Mapping[str, str],
        *,
        fixed: Collection[str],
    ) -> CatalogTable:
        """Return a table with the options that the catalog knows of it, for `completed`.

        Args:
            path: The table.
            table: Its definition, whose options come before the known ones.
            known: The options of the catalog.
            fixed: Those that no table can replace, such as the address of the system.

        Raises:
            InvalidOptionError: The definition replaces one of them.
        """
        for key in fixed:
            given = table.options.get(key)
            if given is not None and given != known.get(key):
                raise InvalidOptionError(
                    f"the catalog {self.name} determines an option of the table {path}",
                    expected=known.get(key),
                    found=given,
                    option=key,
                    hint="remove it; after LIKE, set it to the expected value",
                )
        return replace(table, options={**known, **table.options})

    def without_known(self, table: CatalogTable, known: Mapping[str, str]) -> CatalogTable:
        """Return a table without the options that the catalog knows of it, for `definitions`."""
        own = {key: value for key, value in table.options.items() if known.get(key) != value}
        connector = table.options.get(CONNECTOR, known[CONNECTOR])
        return replace(table, options={CONNECTOR: connector, **own})

    def unsupported(self, operation: str) -> CatalogOperationUnsupportedError:
        """Return the error for an operation that the system lacks."""
        return CatalogOperationUnsupportedError(self.name, operation)
