# SPDX-License-Identifier: Apache-2.0
"""Creates catalogs from their options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from connectors_core.catalog.catalog import Catalog
from connectors_core.catalog.memory_catalog import GenericInMemoryCatalog
from connectors_core.errors import UnknownOptionError
from connectors_core.options import Option
from connectors_core.table.registry import registered, registered_names

__all__ = ["CatalogFactory", "catalog_factory", "catalog_types"]

TYPE: Final = "type"
"The option with the identifier of a catalog's factory."

ENTRY_POINTS: Final = "connectors.catalogs"
"The group of entry points under which a package registers its factories."


class CatalogFactory(ABC):
    """Creates the catalogs of one kind. Driver, without I/O.

    Attributes:
        identifier: The value of the option ``type``.
    """

    identifier: ClassVar[str]

    def is_secret(self, key: str) -> bool:
        """Return whether an option has a secret."""
        return False

    def options(self) -> Sequence[Option[Any]]:
        """Return the options that a definition may have, such as for completion."""
        return ()

    @abstractmethod
    def create_catalog(self, name: str, options: Mapping[str, str]) -> Catalog:
        """Return a catalog.

        Args:
            name: Its name.
            options: Its options, without the one that names its type.

        Raises:
            ConfigurationError: An option is unknown, missing, or invalid.
        """


class _MemoryCatalogFactory(CatalogFactory):
    identifier = "generic_in_memory"

    def create_catalog(self, name: str, options: Mapping[str, str]) -> Catalog:
        """See `CatalogFactory`."""
        for key in options:
            raise UnknownOptionError(key, scope=f"catalog {name}", hint="remove it")
        return GenericInMemoryCatalog(name)


def catalog_types() -> tuple[str, ...]:
    """Return the identifiers of the types of catalogs."""
    return (_MemoryCatalogFactory.identifier, *registered_names(ENTRY_POINTS))


def catalog_factory(name: str, options: Mapping[str, str]) -> CatalogFactory:
    """Return the factory of a catalog.

    Raises:
        MissingOptionError: The options name no type.
        InvalidOptionError: No installed package has this type.
    """
    own = {_MemoryCatalogFactory.identifier: _MemoryCatalogFactory}
    found: CatalogFactory = registered(
        ENTRY_POINTS, options, TYPE, owner=f"catalog {name}", own=own
    )
    return found
