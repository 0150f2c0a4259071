# SPDX-License-Identifier: Apache-2.0
"""The catalogs of one table environment, and the names in its statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from connectors_core.catalog.catalog import Catalog, ObjectPath
from connectors_core.catalog.errors import (
    CatalogAlreadyExistError,
    CatalogError,
    CatalogNotExistError,
    CatalogOperationUnsupportedError,
    DatabaseNotExistError,
    FunctionAlreadyExistError,
    FunctionNotExistError,
    TableAlreadyExistError,
    TableNotExistError,
)
from connectors_core.catalog.factory import TYPE, catalog_factory
from connectors_core.catalog.function_catalog import FunctionCatalog
from connectors_core.catalog.function_store import CatalogFunction
from connectors_core.catalog.memory_catalog import GenericInMemoryCatalog
from connectors_core.catalog.modifications import (
    CatalogModificationEvent,
    CatalogModificationListener,
    Modification,
    modification,
)
from connectors_core.catalog.secret_options import refuse_clear_secrets
from connectors_core.catalog.store import CatalogDescriptor, CatalogStore
from connectors_core.table.catalog_table import CatalogTable, CatalogView
from connectors_core.table.references import resolved
from connectors_core.table.sql.statements import Name

__all__ = ["DEFAULT_CATALOG", "CatalogManager", "FullName"]

DEFAULT_CATALOG: Final = "default_catalog"
_FULL: Final = 3


@dataclass(frozen=True)
class FullName:
    """The place of a table.

    Attributes:
        catalog: Its catalog.
        path: Its path there.
    """

    catalog: str
    path: ObjectPath

    @property
    def parts(self) -> Name:
        """The parts of the name, without the default catalog."""
        parts = (self.catalog, self.path.database, self.path.name)
        return parts[1:] if self.catalog == DEFAULT_CATALOG else parts

    def __str__(self) -> str:
        return ".".join(self.parts)


class CatalogManager:
    """The catalogs by name, and the current catalog and database.

    Args:
        store: Keeps the catalogs of `CREATE CATALOG`; None if they end with the environment.
        listeners: Learn of changed databases and tables.
    """

    def __init__(
        self,
        store: CatalogStore | None = None,
        listeners: Sequence[CatalogModificationListener] = (),
    ) -> None:
        self._store = store
        self._listeners = listeners
        self._open: dict[str, Catalog] = {DEFAULT_CATALOG: GenericInMemoryCatalog(DEFAULT_CATALOG)}
        self.current_catalog = DEFAULT_CATALOG
        self.current_database = GenericInMemoryCatalog.default_database

    # --- catalogs ---

    def catalogs(self) -> list[str]:
        """Return the names of all catalogs."""
        stored = [] if self._store is None else self._store.list_catalogs()
        return sorted({*self._open, *stored})

    def register(self, name: str, catalog: Catalog) -> None:
        """Open a catalog that is not stored.

        Raises:
            CatalogAlreadyExistError: There is one of this name.
        """
        if name in self.catalogs():
            raise CatalogAlreadyExistError(f"the catalog {name} exists")
        catalog.open()
        self._open[name] = catalog

    def create_catalog(self, descriptor: CatalogDescriptor, *, if_not_exists: bool = False) -> None:
        """Open a catalog, and store its definition.

        Raises:
            CatalogAlreadyExistError: There is one of this name.
            InvalidOptionError: A secret would be stored in clear text.
        """
        if descriptor.name in self.catalogs():
            if if_not_exists:
                return
            raise CatalogAlreadyExistError(
                f"the catalog {descriptor.name} exists", hint="use IF NOT EXISTS"
            )
        if self._store is not None:
            is_secret = catalog_factory(descriptor.name, descriptor.options).is_secret
            refuse_clear_secrets(f"catalog {descriptor.name}", descriptor.options, is_secret)
        with ExitStack() as opened:
            catalog = self._opened(descriptor)
            opened.callback(catalog.close)
            if self._store is not None:
                try:
                    self._store.store_catalog(descriptor)
                except CatalogAlreadyExistError:  # another process has created it since
                    if if_not_exists:
                        return
                    raise
            opened.pop_all()
        self._open[descriptor.name] = catalog

    def drop_catalog(self, name: str, *, if_exists: bool = False) -> None:
        """Close a catalog, and forget its definition. The system keeps its data.

        Raises:
            CatalogNotExistError: There is none of this name.
            CatalogError: It is the current or the default one.
        """
        if name in {DEFAULT_CATALOG, self.current_catalog}:
            raise CatalogError(
                f"the catalog {name} is in use", hint=f"USE CATALOG {DEFAULT_CATALOG} first"
            )
        if name not in self.catalogs():
            if if_exists:
                return
            raise self._no_catalog(name)
        if self._store is not None and self._store.get_catalog(name) is not None:
            self._store.remove_catalog(name)
        opened = self._open.pop(name, None)
        if opened is not None:
            opened.close()

    def catalog(self, name: str) -> Catalog:
        """Return a catalog, which is opened at its first use.

        Raises:
            CatalogNotExistError: There is none of this name.
        """
        found = self._open.get(name)
        if found is None:
            stored = None if self._store is None else self._store.get_catalog(name)
            if stored is None:
                raise self._no_catalog(name)
            found = self._open[name] = self._opened(stored)
        return found

    def close(self) -> None:
        """Close all catalogs, even if one of them fails."""
        with ExitStack() as stack:
            for each in self._open.values():
                stack.callback(each.close)

    # --- databases ---

    def use_catalog(self, name: str) -> None:
        """Make a catalog and its default database the current ones.

        Raises:
            CatalogNotExistError: There is none of this name.
        """
        self.current_database = self.catalog(name).default_database
        self.current_catalog = name

    def use(self, name: Name) -> None:
        """Make a database the current one.

        Raises:
            DatabaseNotExistError: It does not exist.
        """
        catalog, database = self._database(name)
        if not self.catalog(catalog).database_exists(database):
            raise DatabaseNotExistError(
                f"there is no database {database}",
                expected=", ".join(self.catalog(catalog).list_databases()),
            )
        self.current_catalog, self.current_database = catalog, database

    @contextmanager
    def within(self, catalog: str | None, database: str | None) -> Iterator[None]:
        """Find names in another catalog and database for a while; None for the current ones."""
        before = (self.current_catalog, self.current_database)
        self.current_catalog = catalog or self.current_catalog
        self.current_database = database or self.current_database
        try:
            yield
        finally:
            self.current_catalog, self.current_database = before

    def databases(self, catalog: str | None = None) -> list[str]:
        """Return the databases of a catalog, or of the current one."""
        return list(self.catalog(catalog or self.current_catalog).list_databases())

    def create_database(self, name: Name, *, if_not_exists: bool = False) -> None:
        """Add a database; see `Catalog`."""
        catalog, database = self._database(name)
        with self._changing(Modification.CREATE_DATABASE, catalog, database):
            self.catalog(catalog).create_database(database, if_not_exists=if_not_exists)

    def drop_database(self, name: Name, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Remove a database; see `Catalog`."""
        catalog, database = self._database(name)
        with self._changing(Modification.DROP_DATABASE, catalog, database):
            self.catalog(catalog).drop_database(database, if_exists=if_exists, cascade=cascade)
        if (self.current_catalog, self.current_database) == (catalog, database):
            self.current_database = self.catalog(catalog).default_database

    # --- tables and views ---

    def full_name(self, name: Name) -> FullName:
        """Return the place that a name means."""
        *before, own = name
        catalog, database = self._database(tuple(before))
        return FullName(catalog, ObjectPath(database, self._normalized(catalog, own)))

    def is_in_system(self, name: Name) -> bool:
        """Return whether a name is in a catalog other than the default one."""
        catalog = self.full_name(name).catalog
        return catalog != DEFAULT_CATALOG and catalog in self.catalogs()

    def names(self, database: Name | None = None) -> list[str]:
        """Return the tables and views of a database, or of the current one."""
        catalog, found = self._database(database or ())
        return list(self.catalog(catalog).list_tables(found))

    def views(self, database: Name | None = None) -> list[str]:
        """Return the views of a database, or of the current one."""
        catalog, found = self._database(database or ())
        return list(self.catalog(catalog).list_views(found))

    def find(self, name: Name) -> CatalogTable | CatalogView | None:
        """Return a table or view, or None if there is none."""
        if len(name) > _FULL:
            return None
        place = self.full_name(name)
        try:
            return self.catalog(place.catalog).get_table(place.path)
        except (CatalogNotExistError, DatabaseNotExistError, TableNotExistError):
            return None

    def exists(self, name: Name) -> bool:
        """Return whether there is a table or view, without its definition."""
        if len(name) > _FULL:
            return False
        place = self.full_name(name)
        try:
            return self.catalog(place.catalog).table_exists(place.path)
        except (CatalogNotExistError, DatabaseNotExistError):
            return False

    def get(self, name: Name) -> CatalogTable | CatalogView:
        """Return a table or view.

        Raises:
            TableNotExistError: There is none.
        """
        place = self.full_name(name)
        return self.catalog(place.catalog).get_table(place.path)

    def completed(self, name: Name, table: CatalogTable) -> CatalogTable:
        """Return a new table as its catalog will return it; see `Catalog`."""
        place = self.full_name(name)
        return self.catalog(place.catalog).completed(place.path, table)

    def put(
        self,
        name: Name,
        table: CatalogTable | CatalogView,
        *,
        if_not_exists: bool = False,
        replace: bool = False,
    ) -> bool:
        """Add a table or view, and return whether it was added; see `Catalog`."""
        place = self.full_name(name)
        catalog = self.catalog(place.catalog)
        if if_not_exists and catalog.table_exists(place.path):
            return False
        try:
            with self._changing_table(Modification.CREATE_TABLE, place, table):
                catalog.create_table(place.path, table, replace=replace)
        except TableAlreadyExistError:  # another process has created it since
            if if_not_exists:
                return False
            raise
        return True

    def alter(self, name: Name, table: CatalogTable) -> None:
        """Replace the definition of a table; see `Catalog`."""
        place = self.full_name(name)
        with self._changing_table(Modification.ALTER_TABLE, place, table):
            self.catalog(place.catalog).alter_table(place.path, table)

    def rename(self, name: Name, new_name: Name) -> None:
        """Give a table another name in its database; see `Catalog`."""
        place = self.full_name(name)
        target = new_name if len(new_name) > 1 else (*name[:-1], *new_name)
        new = self.full_name(target)
        if (new.catalog, new.path.database) != (place.catalog, place.path.database):
            raise CatalogError(f"the table {place} cannot move to another database", found=str(new))
        event = self._event(Modification.ALTER_TABLE, place, None, new.path.name)
        with modification(self._listeners, event):
            self.catalog(place.catalog).rename_table(place.path, new.path.name)

    def drop(self, name: Name, *, view: bool, if_exists: bool = False) -> None:
        """Remove a table or view; see `Catalog`.

        Raises:
            TableNotExistError: There is none, or it is of the other kind.
        """
        place = self.full_name(name)
        if not self.exists(name):
            if if_exists:
                return
            self.get(name)
        is_view = place.path.name in self.catalog(place.catalog).list_views(place.path.database)
        if is_view != view:
            kind, other = ("view", "TABLE") if view else ("table", "VIEW")
            raise TableNotExistError(f"{place} is no {kind}", hint=f"use DROP {other}")
        with self._changing_table(Modification.DROP_TABLE, place, None):
            self.catalog(place.catalog).drop_table(place.path)

    # --- functions ---

    def functions(self, database: Name | None = None) -> list[str]:
        """Return the functions of a database, or of the current one."""
        catalog, found = self._database(database or ())
        return list(self.catalog(catalog).list_functions(found))

    def find_function(self, name: Name) -> CatalogFunction | None:
        """Return a function, or None if there is none."""
        if len(name) > _FULL:
            return None
        try:
            return self.get_function(name)
        except (
            CatalogNotExistError,
            CatalogOperationUnsupportedError,
            DatabaseNotExistError,
            FunctionNotExistError,
        ):
            return None

    def get_function(self, name: Name) -> CatalogFunction:
        """Return a function.

        Raises:
            FunctionNotExistError: There is none.
        """
        place = self.full_name(name)
        return self.catalog(place.catalog).get_function(place.path)

    def create_function(
        self, name: Name, function: CatalogFunction, *, if_not_exists: bool = False
    ) -> None:
        """Add a function; see `Catalog`."""
        place = self.full_name(name)
        try:
            self.catalog(place.catalog).create_function(place.path, function)
        except FunctionAlreadyExistError:
            if not if_not_exists:
                raise

    def alter_function(
        self, name: Name, function: CatalogFunction, *, if_exists: bool = False
    ) -> None:
        """Replace a function; see `Catalog`."""
        place = self.full_name(name)
        try:
            self.catalog(place.catalog).alter_function(place.path, function)
        except FunctionNotExistError:
            if not if_exists:
                raise

    def drop_function(self, name: Name, *, if_exists: bool = False) -> None:
        """Remove a function; see `Catalog`."""
        place = self.full_name(name)
        try:
            self.catalog(place.catalog).drop_function(place.path)
        except FunctionNotExistError:
            if not if_exists:
                raise

    # --- events and names ---

    def _changing(
        self, kind: Modification, catalog: str, database: str
    ) -> AbstractContextManager[None]:
        event = CatalogModificationEvent(modification=kind, catalog=catalog, database=database)
        return modification(self._listeners, event)

    def _changing_table(
        self, kind: Modification, place: FullName, table: CatalogTable | CatalogView | None
    ) -> AbstractContextManager[None]:
        return modification(self._listeners, self._event(kind, place, table))

    def _event(
        self,
        kind: Modification,
        place: FullName,
        table: CatalogTable | CatalogView | None,
        new_name: str | None = None,
    ) -> CatalogModificationEvent:
        return CatalogModificationEvent(
            modification=kind,
            catalog=place.catalog,
            database=place.path.database,
            name=place.path.name,
            table=table,
            new_name=new_name,
        )

    def _database(self, name: Name) -> tuple[str, str]:
        """Return the catalog and the database of a name without its table."""
        match name:
            case ():
                return self.current_catalog, self.current_database
            case (catalog, database):
                pass
            case (database,):
                catalog = self.current_catalog
            case _:
                raise CatalogError(
                    f"the name {'.'.join(name)} has too many parts",
                    expected="at most catalog.database.table",
                )
        return catalog, self._normalized(catalog, database)

    def _normalized(self, catalog: str, name: str) -> str:
        opened = self._open.get(catalog)
        return name if opened is None else opened.normalized(name)

    def _opened(self, descriptor: CatalogDescriptor) -> Catalog:
        factory = catalog_factory(descriptor.name, descriptor.options)
        options = {key: value for key, value in descriptor.options.items() if key != TYPE}
        catalog = factory.create_catalog(descriptor.name, resolved(options))
        if self._store is not None:
            catalog.definitions = self._store.tables_of(descriptor.name)
            if isinstance(catalog, FunctionCatalog):
                catalog.functions = self._store.functions_of(descriptor.name)
        catalog.open()
        return catalog

    def _no_catalog(self, name: str) -> CatalogNotExistError:
        return CatalogNotExistError(
            f"there is no catalog {name}", expected=", ".join(self.catalogs())
        )
