# SPDX-License-Identifier: Apache-2.0
"""Functions of catalogs, and where a catalog keeps them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors_core.errors import InvalidOptionError

if TYPE_CHECKING:
    from connectors_core.catalog.catalog import ObjectPath

__all__ = ["CatalogFunction", "FunctionStore", "MemoryFunctionStore"]


@dataclass(frozen=True, kw_only=True)
class CatalogFunction:
    """A function of Python in a catalog (Flink's `CatalogFunction`).

    A catalog keeps its name alone. Python imports the module that it names wherever the function
    is used.

    Attributes:
        identifier: The name of a module, a dot, and the name of the function.

    Raises:
        InvalidOptionError: The identifier is no such name.
    """

    identifier: str

    def __post_init__(self) -> None:
        parts = self.identifier.split(".")
        if len(parts) < 2 or not all(map(str.isidentifier, parts)):
            raise InvalidOptionError(
                "a function has no name of Python",
                expected="the name of a module, a dot, and a function",
                found=self.identifier,
                option="AS",
            )


class FunctionStore(ABC):
    """Keeps the functions of one catalog. Driver."""

    @abstractmethod
    def get(self, path: ObjectPath) -> CatalogFunction | None:
        """Return a function, or None if there is none."""

    @abstractmethod
    def add(self, path: ObjectPath, function: CatalogFunction) -> bool:
        """Add a function, and return whether this call added it.

        Of several concurrent additions of a function, one succeeds.
        """

    @abstractmethod
    def replace(self, path: ObjectPath, function: CatalogFunction) -> None:
        """Add or replace a function."""

    @abstractmethod
    def remove(self, path: ObjectPath) -> None:
        """Remove a function if there is one."""

    @abstractmethod
    def paths(self) -> list[ObjectPath]:
        """Return the places of all functions, in no order."""


class MemoryFunctionStore(FunctionStore):
    """Functions that end with the process."""

    def __init__(self) -> None:
        self._functions: dict[ObjectPath, CatalogFunction] = {}

    def get(self, path: ObjectPath) -> CatalogFunction | None:
        """See `FunctionStore`."""
        return self._functions.get(path)

    def add(self, path: ObjectPath, function: CatalogFunction) -> bool:
        """See `FunctionStore`."""
        if path in self._functions:
            return False
        self._functions[path] = function
        return True

    def replace(self, path: ObjectPath, function: CatalogFunction) -> None:
        """See `FunctionStore`."""
        self._functions[path] = function

    def remove(self, path: ObjectPath) -> None:
        """See `FunctionStore`."""
        self._functions.pop(path, None)

    def paths(self) -> list[ObjectPath]:
        """See `FunctionStore`."""
        return list(self._functions)
