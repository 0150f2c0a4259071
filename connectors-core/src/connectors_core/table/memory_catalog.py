# SPDX-License-Identifier: Apache-2.0
"""The databases and tables of one table environment, in memory."""

from __future__ import annotations

from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.options.suggestions import suggested
from connectors_core.table.catalog_table import CatalogTable, CatalogView
from connectors_core.table.sql.statements import Name

__all__ = ["DEFAULT_DATABASE", "MemoryCatalog"]

DEFAULT_DATABASE = "default"


class MemoryCatalog:
    """Databases with tables and views. Names are compared without case, as in Spark."""

    def __init__(self) -> None:
        self._databases: dict[str, dict[str, CatalogTable | CatalogView]] = {DEFAULT_DATABASE: {}}
        self.current_database = DEFAULT_DATABASE

    # --- databases ---

    def databases(self) -> list[str]:
        """Return the names of all databases."""
        return sorted(self._databases)

    def create_database(self, name: Name, *, if_not_exists: bool = False) -> None:
        """Add a database.

        Raises:
            ConfigurationError: It exists.
        """
        database = _single(name)
        if database in self._databases and not if_not_exists:
            raise ConfigurationError(f"the database {database} exists")
        self._databases.setdefault(database, {})

    def drop_database(self, name: Name, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Remove a database.

        Raises:
            ConfigurationError: It does not exist, is the default one, or has tables.
        """
        database = _single(name)
        if database == DEFAULT_DATABASE:
            raise ConfigurationError(f"the database {database} cannot be dropped")
        if if_exists and database not in self._databases:
            return
        if self._tables(database) and not cascade:
            raise ConfigurationError(
                f"the database {database} has tables",
                found=", ".join(sorted(self._tables(database))),
                hint="drop them first, or use DROP DATABASE ... CASCADE",
            )
        del self._databases[database]
        if self.current_database == database:
            self.current_database = DEFAULT_DATABASE

    def use(self, name: Name) -> None:
        """Make a database the current one.

        Raises:
            ConfigurationError: It does not exist.
        """
        database = _single(name)
        self._tables(database)
        self.current_database = database

    # --- tables and views ---

    def full_name(self, name: Name) -> tuple[str, str]:
        """Return the database and the table of a name."""
        *database, table = (part.lower() for part in name)
        if len(database) > 1:
            raise UnsupportedError(
                f"there is no catalog {database[0]}", expected="a table, or database.table"
            )
        return (database[0] if database else self.current_database), table

    def names(self, database: Name | None = None) -> list[str]:
        """Return the names of the tables and views of a database."""
        return sorted(self._tables(_single(database) if database else self.current_database))

    def find(self, name: Name) -> CatalogTable | CatalogView | None:
        """Return a table or view, or None if there is none."""
        if len(name) > 2:
            return None
        database, table = self.full_name(name)
        return self._databases.get(database, {}).get(table)

    def get(self, name: Name) -> CatalogTable | CatalogView:
        """Return a table or view.

        Raises:
            ConfigurationError: There is none.
        """
        found = self.find(name)
        if found is None:
            known = {f"{d}.{t}": t for d, tables in self._databases.items() for t in tables}
            similar = suggested(".".join(name), {**known, **{t: t for t in known.values()}})
            raise ConfigurationError(
                f"there is no table {'.'.join(name)}",
                expected=f"a table of {', '.join(self.databases())}",
                hint=f"did you mean {similar[0]}?" if similar else "create it with CREATE TABLE",
            )
        return found

    def put(
        self,
        name: Name,
        table: CatalogTable | CatalogView,
        *,
        if_not_exists: bool = False,
        replace: bool = False,
    ) -> bool:
        """Add a table or view, and return whether it was added.

        Raises:
            ConfigurationError: One of this name exists.
        """
        database, own = self.full_name(name)
        tables = self._tables(database)
        if own in tables and not replace:
            if if_not_exists:
                return False
            raise ConfigurationError(
                f"the table {database}.{own} exists", hint="drop it, or use IF NOT EXISTS"
            )
        tables[own] = table
        return True

    def drop(self, name: Name, *, view: bool, if_exists: bool = False) -> None:
        """Remove a table or view.

        Raises:
            ConfigurationError: There is none, or it is of the other kind.
        """
        found = self.find(name)
        if found is None and if_exists:
            return
        if isinstance(found, CatalogView) != view:
            self.get(name)
            kind, other = ("VIEW", "TABLE") if view else ("TABLE", "VIEW")
            raise ConfigurationError(f"{'.'.join(name)} is no {kind.lower()}", hint=f"DROP {other}")
        database, own = self.full_name(name)
        del self._tables(database)[own]

    def rename(self, name: Name, new_name: Name) -> None:
        """Give a table another name.

        Raises:
            ConfigurationError: There is none, or the name is taken.
        """
        found = self.get(name)
        database, own = self.full_name(name)
        self.put(new_name if len(new_name) > 1 else (database, *new_name), found)
        del self._tables(database)[own]

    def _tables(self, database: str) -> dict[str, CatalogTable | CatalogView]:
        found = self._databases.get(database.lower())
        if found is None:
            raise ConfigurationError(
                f"there is no database {database}", expected=", ".join(self.databases())
            )
        return found


def _single(name: Name) -> str:
    if len(name) != 1:
        raise UnsupportedError(f"there is no catalog {name[0]}", expected="the name of a database")
    return name[0].lower()
