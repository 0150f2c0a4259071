# SPDX-License-Identifier: Apache-2.0
"""Catalogs: the databases and tables of systems, and where their definitions are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors_core._lazy import lazily

if TYPE_CHECKING:
    from connectors_core.catalog.catalog import Catalog, CatalogTableStatistics, ObjectPath
    from connectors_core.catalog.errors import (
        CatalogAlreadyExistError,
        CatalogError,
        CatalogNotExistError,
        CatalogOperationUnsupportedError,
        DatabaseAlreadyExistError,
        DatabaseNotEmptyError,
        DatabaseNotExistError,
        FunctionAlreadyExistError,
        FunctionNotExistError,
        PartitionNotExistError,
        SchemaInferenceError,
        TableAlreadyExistError,
        TableNotExistError,
    )
    from connectors_core.catalog.factory import CatalogFactory
    from connectors_core.catalog.function_catalog import FunctionCatalog
    from connectors_core.catalog.function_store import CatalogFunction, FunctionStore
    from connectors_core.catalog.memory_catalog import GenericInMemoryCatalog
    from connectors_core.catalog.modifications import (
        CatalogModificationEvent,
        CatalogModificationListener,
        Modification,
        ModificationPhase,
    )
    from connectors_core.catalog.store import (
        CatalogDescriptor,
        CatalogStore,
        FileCatalogStore,
        SqliteCatalogStore,
    )
    from connectors_core.catalog.table_store import TableStore
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "connectors_core.catalog.catalog": ("Catalog", "CatalogTableStatistics", "ObjectPath"),
            "connectors_core.catalog.errors": (
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
            ),
            "connectors_core.catalog.factory": ("CatalogFactory",),
            "connectors_core.catalog.function_catalog": ("FunctionCatalog",),
            "connectors_core.catalog.function_store": ("CatalogFunction", "FunctionStore"),
            "connectors_core.catalog.memory_catalog": ("GenericInMemoryCatalog",),
            "connectors_core.catalog.modifications": (
                "CatalogModificationEvent",
                "CatalogModificationListener",
                "Modification",
                "ModificationPhase",
            ),
            "connectors_core.catalog.store": (
                "CatalogDescriptor",
                "CatalogStore",
                "FileCatalogStore",
                "SqliteCatalogStore",
            ),
            "connectors_core.catalog.table_store": ("TableStore",),
        },
    )

__all__ = [
    "Catalog",
    "CatalogAlreadyExistError",
    "CatalogDescriptor",
    "CatalogError",
    "CatalogFactory",
    "CatalogFunction",
    "CatalogModificationEvent",
    "CatalogModificationListener",
    "CatalogNotExistError",
    "CatalogOperationUnsupportedError",
    "CatalogStore",
    "CatalogTableStatistics",
    "DatabaseAlreadyExistError",
    "DatabaseNotEmptyError",
    "DatabaseNotExistError",
    "FileCatalogStore",
    "FunctionAlreadyExistError",
    "FunctionCatalog",
    "FunctionNotExistError",
    "FunctionStore",
    "GenericInMemoryCatalog",
    "Modification",
    "ModificationPhase",
    "ObjectPath",
    "PartitionNotExistError",
    "SchemaInferenceError",
    "SqliteCatalogStore",
    "TableAlreadyExistError",
    "TableNotExistError",
    "TableStore",
]
