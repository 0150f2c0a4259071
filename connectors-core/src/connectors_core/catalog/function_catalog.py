# SPDX-License-Identifier: Apache-2.0
"""Catalogs whose system knows no functions of Python."""

from __future__ import annotations

from connectors_core.catalog.catalog import Catalog, ObjectPath
from connectors_core.catalog.errors import (
    DatabaseNotExistError,
    FunctionAlreadyExistError,
    FunctionNotExistError,
)
from connectors_core.catalog.function_store import (
    CatalogFunction,
    FunctionStore,
    MemoryFunctionStore,
)

__all__ = ["FunctionCatalog"]


class FunctionCatalog(Catalog):
    """A catalog that keeps functions beside its system. Driver.

    The case of the name of a function does not matter, as in Spark and in Flink.

    Args:
        name: The name of the catalog.

    Attributes:
        functions: Keeps the functions. A catalog of a `CatalogStore` gets the one of the store
            before it is opened. The default one ends with the catalog.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.functions: FunctionStore = MemoryFunctionStore()

    def list_functions(self, database: str) -> list[str]:
        """See `Catalog`."""
        if not self.database_exists(database):
            raise DatabaseNotExistError(
                f"there is no database {database}", expected=", ".join(self.list_databases())
            )
        own = self.normalized(database)
        return sorted(path.name for path in self.functions.paths() if path.database == own)

    def function_exists(self, path: ObjectPath) -> bool:
        """See `Catalog`."""
        return self.functions.get(self._key(path)) is not None

    def get_function(self, path: ObjectPath) -> CatalogFunction:
        """See `Catalog`."""
        found = self.functions.get(self._key(path))
        if found is None:
            raise FunctionNotExistError(
                f"there is no function {path}", hint="SHOW USER FUNCTIONS lists those that exist"
            )
        return found

    def create_function(self, path: ObjectPath, function: CatalogFunction) -> None:
        """See `Catalog`."""
        self.list_functions(path.database)
        if not self.functions.add(self._key(path), function):
            raise FunctionAlreadyExistError(
                f"the function {path} exists", hint="use IF NOT EXISTS, or ALTER FUNCTION"
            )

    def alter_function(self, path: ObjectPath, function: CatalogFunction) -> None:
        """See `Catalog`."""
        self.get_function(path)
        self.functions.replace(self._key(path), function)

    def drop_function(self, path: ObjectPath) -> None:
        """See `Catalog`."""
        self.get_function(path)
        self.functions.remove(self._key(path))

    def _key(self, path: ObjectPath) -> ObjectPath:
        return ObjectPath(self.normalized(path.database), path.name.lower())
