# SPDX-License-Identifier: Apache-2.0
"""Broken catalogs in memory, each with the case of the suite that must detect it."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from pathlib import Path

from broken_names import folded, stripped, unescaped
from memory_tables import Memory, MemoryCatalogSuite

from connectors_core.catalog import GenericInMemoryCatalog, ObjectPath
from connectors_core.table import CatalogTable, CatalogView


class ListsInAnyOrder(GenericInMemoryCatalog):
    seen_by = "test_a_new_table_is_found_at_once"

    def list_tables(self, database):
        return super().list_tables(database)[::-1]


class AnswersFromAnOldListing(GenericInMemoryCatalog):
    seen_by = "test_a_new_table_is_found_at_once"

    def table_exists(self, path):
        known = self.__dict__.setdefault("known", {})
        return known.setdefault(path, super().table_exists(path))


class FailsWithAnyError(GenericInMemoryCatalog):
    seen_by = "test_absent_tables_and_databases_are_named"

    def get_table(self, path):
        return self._databases[path.database.lower()][path.name.lower()]


class ComparesCaseByTwoRules(GenericInMemoryCatalog):
    seen_by = "test_names_are_compared_by_one_rule"

    def table_exists(self, path):
        return path.name in self._databases.get(path.database, {})


class CutsPaths(GenericInMemoryCatalog):
    seen_by = "test_a_strange_name_is_no_other_table"

    def table_exists(self, path):
        name = posixpath.basename(path.name)
        return super().table_exists(ObjectPath(path.database, name))


class DropsDatabasesWithTables(GenericInMemoryCatalog):
    seen_by = "test_a_table_belongs_to_its_database"

    def drop_database(self, database, *, if_exists=False, cascade=False):
        super().drop_database(database, if_exists=if_exists, cascade=True)


class HasOneDatabase(GenericInMemoryCatalog):
    seen_by = "test_a_table_belongs_to_its_database"

    def create_table(self, path, table, *, replace=False):
        self.list_tables(path.database)
        super().create_table(ObjectPath("default", path.name), table, replace=replace)


class CreatesOverAnOlderTable(GenericInMemoryCatalog):
    seen_by = "test_tables_are_created"

    def create_table(self, path, table, *, replace=False):
        replace = replace or not isinstance(table, CatalogView)
        super().create_table(path, table, replace=replace)


class ForgetsTheKey(GenericInMemoryCatalog):
    seen_by = "test_tables_are_created"

    def get_table(self, path):
        found = super().get_table(path)
        if isinstance(found, CatalogView):
            return found
        return replace(found, schema=replace(found.schema, primary_key=()))


class KeepsFoldedNames(GenericInMemoryCatalog):
    seen_by = "test_columns_keep_strange_names"
    named = staticmethod(folded)

    def get_table(self, path):
        found = super().get_table(path)
        if isinstance(found, CatalogView):
            return found
        columns = [replace(each, name=self.named(each.name)) for each in found.schema.columns]
        return replace(found, schema=replace(found.schema, columns=tuple(columns)))


class KeepsUnescapedNames(KeepsFoldedNames):
    named = staticmethod(unescaped)


class KeepsStrippedNames(KeepsFoldedNames):
    named = staticmethod(stripped)


class AltersNothing(GenericInMemoryCatalog):
    seen_by = "test_tables_are_altered"

    def alter_table(self, path, table):
        self.get_table(path)


class RenamesOverAnotherTable(GenericInMemoryCatalog):
    seen_by = "test_tables_are_renamed"

    def rename_table(self, path, name):
        found = self.get_table(path)
        self.create_table(ObjectPath(path.database, name), found, replace=True)
        self.drop_table(path)


class DropsNothing(GenericInMemoryCatalog):
    seen_by = "test_tables_are_dropped"

    def drop_table(self, path):
        self.get_table(path)

    def rename_table(self, path, name):
        self.create_table(ObjectPath(path.database, name), self.get_table(path))
        super().drop_table(path)


class DropsDataWithTheDefinition(GenericInMemoryCatalog):
    seen_by = "test_a_catalog_deletes_data_only_if_an_option_allows_it"

    def drop_table(self, path):
        found = self.get_table(path)
        super().drop_table(path)
        if isinstance(found, CatalogTable):
            (Path(found.options["path"]) / path.name).unlink(missing_ok=True)


class ForgetsTheColumnsOfViews(GenericInMemoryCatalog):
    seen_by = "test_views_are_kept"

    def get_table(self, path):
        found = super().get_table(path)
        return replace(found, columns=()) if isinstance(found, CatalogView) else found


class LacksPartitionsWithoutAWord(GenericInMemoryCatalog):
    seen_by = "test_the_system_lacks_what_the_catalog_lacks"

    def list_partitions(self, path):
        return []


class NamesNoConnector(GenericInMemoryCatalog):
    seen_by = "test_a_connector_accepts_the_definition_of_a_table"

    def get_table(self, path):
        found = super().get_table(path)
        return replace(found, options={}) if path.name == "things" else found


class IgnoresIfNotExists(GenericInMemoryCatalog):
    seen_by = "test_databases_are_created_and_dropped"

    def create_database(self, database, *, if_not_exists=False):
        super().create_database(database)


BROKEN = {
    each.__name__: each
    for each in list(globals().values())
    if isinstance(each, type) and hasattr(each, "seen_by")
}


def broken_suite(name):
    """Create a suite for a broken catalog."""

    def external_context(self, folder):
        return Memory(folder, BROKEN[name]("memory"))

    return type(f"Test{name}", (MemoryCatalogSuite,), {"external_context": external_context})
