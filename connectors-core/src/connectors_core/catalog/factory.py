# SPDX-License-Identifier: Apache-2.0
"""Creates catalogs from their options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import ClassVar, Final

from connectors_core.catalog.catalog import Catalog
from connectors_core.catalog.memory_catalog import GenericInMemoryCatalog
from connectors_core.errors import InvalidOptionError, MissingOptionError, UnknownOptionError
from connectors_core.options.suggestions import suggested

__all__ = ["CatalogFactory", "catalog_factory"]

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


@cache
def _registered() -> Mapping[str, metadata.EntryPoint]:
    return {each.name: each for each in metadata.entry_points(group=ENTRY_POINTS)}


def catalog_factory(name: str, options: Mapping[str, str]) -> CatalogFactory:
    """Return the factory of a catalog.

    Raises:
        MissingOptionError: The options name no type.
        InvalidOptionError: No installed package has this type.
    """
    identifier = options.get(TYPE)
    if identifier is None:
        raise MissingOptionError(TYPE, doc="Type of the catalog.", scope=f"catalog {name}")
    if identifier == _MemoryCatalogFactory.identifier:
        return _MemoryCatalogFactory()
    found = _registered().get(identifier)
    if found is None:
        known = [_MemoryCatalogFactory.identifier, *_registered()]
        similar = suggested(identifier, {each: each for each in known})
        raise InvalidOptionError(
            f"the catalog {name} has an unknown type",
            expected=", ".join(sorted(known)),
            found=identifier,
            option=TYPE,
            hint=f"did you mean {similar[0]}?" if similar else "install the package of this type",
        )
    factory: CatalogFactory = found.load()()
    return factory
