# SPDX-License-Identifier: Apache-2.0
"""Errors of catalogs, with Flink's names."""

from __future__ import annotations

from connectors_core.errors import ConfigurationError, UnsupportedError

__all__ = [
    "CatalogAlreadyExistError",
    "CatalogError",
    "CatalogNotExistError",
    "CatalogOperationUnsupportedError",
    "DatabaseAlreadyExistError",
    "DatabaseNotEmptyError",
    "DatabaseNotExistError",
    "FunctionAlreadyExistError",
    "FunctionNotExistError",
    "PartitionNotExistError",
    "SchemaInferenceError",
    "TableAlreadyExistError",
    "TableNotExistError",
]


class CatalogError(ConfigurationError):
    """A statement does not fit what a catalog contains."""

    code = "CATALOG"


class CatalogAlreadyExistError(CatalogError):
    """A catalog of this name exists."""


class CatalogNotExistError(CatalogError):
    """There is no catalog of this name."""


class DatabaseNotExistError(CatalogError):
    """There is no database of this name."""


class DatabaseAlreadyExistError(CatalogError):
    """A database of this name exists."""


class DatabaseNotEmptyError(CatalogError):
    """The database has tables or functions."""


class TableNotExistError(CatalogError):
    """There is no table or view of this name."""


class TableAlreadyExistError(CatalogError):
    """A table or view of this name exists."""


class PartitionNotExistError(CatalogError):
    """The table has no partition of these values."""


class FunctionNotExistError(CatalogError):
    """There is no function of this name."""


class FunctionAlreadyExistError(CatalogError):
    """A function of this name exists."""


class SchemaInferenceError(CatalogError):
    """The data of a table does not show its columns."""


class CatalogOperationUnsupportedError(CatalogError, UnsupportedError):
    """The system behind a catalog lacks an operation.

    Args:
        catalog: The name of the catalog.
        operation: The operation, such as `create a database`.
    """

    code = UnsupportedError.code

    def __init__(self, catalog: str, operation: str) -> None:
        self.catalog = catalog
        self.operation = operation
        super().__init__(f"the catalog {catalog} cannot {operation}")
