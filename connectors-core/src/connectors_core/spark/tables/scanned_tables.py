# SPDX-License-Identifier: Apache-2.0
"""The tables that one statement reads."""

from __future__ import annotations

from connectors_core.catalog.catalog_manager import CatalogManager
from connectors_core.errors import UnsupportedError
from connectors_core.source import Boundedness
from connectors_core.spark.tables.temporal_joins import is_temporal
from connectors_core.spark.tables.text_edits import name_of, tables_of
from connectors_core.table import (
    CatalogTable,
    CatalogView,
    DynamicTableContext,
    ScanTableSource,
)
from connectors_core.table.factory import factory_named
from connectors_core.table.sql import parse_query

__all__ = ["ScannedTables", "no_end"]


class ScannedTables:
    """The sources of the tables that one statement reads. Each is created once. Driver.

    Args:
        catalog: The tables.
    """

    def __init__(self, catalog: CatalogManager) -> None:
        self._catalog = catalog
        self._sources: dict[str, ScanTableSource] = {}

    def source(self, name: str, table: CatalogTable) -> ScanTableSource:
        """Return the source of a table.

        Args:
            name: The full name of the table.
            table: Its definition.

        Raises:
            ConfigurationError: The connector cannot read the table.
        """
        if name not in self._sources:
            context = DynamicTableContext.of(name, table)
            self._sources[name] = factory_named(table, name).create_scan_source(context)
        return self._sources[name]

    def endless(self, query: str) -> list[str]:
        """Return the tables of a query that have no end.

        Raises:
            UnsupportedError: A view contains itself.
        """
        return self._endless(query, ())

    def refuse_endless(self, query: str) -> None:
        """Refuse a query that has no end.

        Raises:
            UnsupportedError: A table has none.
        """
        for name in self.endless(query):
            raise no_end(name)

    def _endless(self, query: str, inside: tuple[str, ...]) -> list[str]:
        found = []
        for each in tables_of(parse_query(query)):
            name = name_of(each)
            table = self._catalog.find(name)
            if table is None or is_temporal(each, query):
                continue
            shown = str(self._catalog.full_name(name))
            if isinstance(table, CatalogView):
                if shown in inside:
                    raise UnsupportedError(f"the view {shown} contains itself")
                with self._catalog.within(table.catalog, table.database):
                    found += self._endless(table.query, (*inside, shown))
            elif self.source(shown, table).source.boundedness() is not Boundedness.BOUNDED:
                found.append(shown)
        return found


def no_end(name: str) -> UnsupportedError:
    """Return the error for a table that should have an end."""
    return UnsupportedError(
        f"the table {name} has no end",
        expected="a bounded table, such as one with 'scan.bounded.mode'",
        hint="insert its rows into a table, or give it an end: "
        "CREATE TABLE ... WITH ('scan.bounded.mode' = 'latest-offset') LIKE " + name,
    )
