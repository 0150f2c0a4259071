# SPDX-License-Identifier: Apache-2.0
"""Functions of catalogs in documents, each as its name in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connectors_core.catalog.catalog import ObjectPath
from connectors_core.catalog.function_store import CatalogFunction, FunctionStore
from connectors_core.catalog.stored_documents import Documents, check_layout

__all__ = ["StoredFunctions"]

_LAYOUT: Final = 1


class StoredFunctions(FunctionStore):
    """Functions that survive a restart.

    Args:
        documents: Keeps them.
    """

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def get(self, path: ObjectPath) -> CatalogFunction | None:
        """See `FunctionStore`."""
        document = self._documents.get(path)
        if document is None:
            return None
        check_layout(document, _LAYOUT, "function")
        return CatalogFunction(identifier=document["identifier"])

    def add(self, path: ObjectPath, function: CatalogFunction) -> bool:
        """See `FunctionStore`."""
        return self._documents.add(path, _document(path, function))

    def replace(self, path: ObjectPath, function: CatalogFunction) -> None:
        """See `FunctionStore`."""
        self._documents.replace(path, _document(path, function))

    def remove(self, path: ObjectPath) -> None:
        """See `FunctionStore`."""
        self._documents.remove(path)

    def paths(self) -> list[ObjectPath]:
        """See `FunctionStore`."""
        return self._documents.paths(_place)


def _document(path: ObjectPath, function: CatalogFunction) -> dict[str, Any]:
    return {
        "layout": _LAYOUT,
        "database": path.database,
        "name": path.name,
        "identifier": function.identifier,
    }


def _place(document: Mapping[str, Any]) -> ObjectPath:
    check_layout(document, _LAYOUT, "function")
    return ObjectPath(document["database"], document["name"])
