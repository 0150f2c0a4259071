# SPDX-License-Identifier: Apache-2.0
"""Broken tables and catalogs of files, each with the case of the suites that must detect it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from file_table_suites import FileCatalogSuite, FileTableSuite, Folders

from connector_filesystem import FileSink
from connector_filesystem.catalog import FileCatalog
from connector_filesystem.sink.overwrite import FileOverwrite
from connector_filesystem.table_factory import FileTableFactory
from connectors_core.catalog import CatalogError, CatalogTableStatistics, PartitionNotExistError
from connectors_core.errors import ConfigurationError, UnknownOptionError
from connectors_core.schema import RowKind
from connectors_core.table import (
    ChangelogMode,
    DynamicTableSink,
    PhysicalColumn,
    ScanTableSource,
)

# --- Tables --------------------------------------------------------------------------------------


class IsNotRegistered(FileTableFactory):
    seen_by = "test_the_factory_is_found_by_its_identifier"


class ConnectsWhenDeclared(FileTableFactory):
    seen_by = "test_definitions_are_used_without_their_system"

    def validate(self, context):
        super().validate(context)
        with socket.socket() as connection:
            connection.connect_ex(("127.0.0.1", 9))


class AcceptsAnyOption(FileTableFactory):
    seen_by = "test_an_unknown_option_is_named_with_its_table"

    def validate(self, context):
        pass


class NamesNoTable(FileTableFactory):
    seen_by = "test_an_unknown_option_is_named_with_its_table"

    def validate(self, context):
        super().validate(replace(context, name="?"))


class RecognizesNoTypingError(FileTableFactory):
    seen_by = "test_a_mistyped_option_is_recognised"

    def validate(self, context):
        try:
            super().validate(context)
        except UnknownOptionError as error:
            raise UnknownOptionError(error.option or "", scope=f"table {context.name}") from None


class ReadsValuesAtOnce(FileTableFactory):
    seen_by = "test_a_reference_is_accepted_for_any_value"

    def validate(self, context):
        super().validate(context)
        for value in context.options.values():
            assert "${" not in value


class KnowsNoSecrets(FileTableFactory):
    seen_by = "test_a_secret_is_seen_nowhere"  # pragma: allowlist secret

    def is_secret(self, key):
        return False


@dataclass(frozen=True, kw_only=True)
class ShownSource(ScanTableSource):
    options: Mapping[str, str] = field(default_factory=dict)


class ShowsItsOptions(FileTableFactory):
    seen_by = "test_a_secret_is_seen_nowhere"  # pragma: allowlist secret

    def create_scan_source(self, context):
        made = super().create_scan_source(context)
        return ShownSource(source=made.source, options=context.options)


class LosesAColumn(FileTableFactory):
    seen_by = "test_the_source_has_the_declared_columns"

    def create_scan_source(self, context):
        return super().create_scan_source(_with_columns(context, context.table.schema.columns[1:]))


class FoldsNames(FileTableFactory):
    seen_by = "test_columns_have_any_name"

    def create_scan_source(self, context):
        return super().create_scan_source(self.renamed(context))

    def renamed(self, context):
        columns = context.table.schema.columns
        folded = [replace(each, name=each.name.lower()) for each in columns]
        return _with_columns(context, folded)


class FoldsNamesOfLookups(FoldsNames):
    create_scan_source = FileTableFactory.create_scan_source

    def create_lookup_source(self, context):
        return super().create_lookup_source(self.renamed(context))


class RefusesQuotes(FileTableFactory):
    seen_by = "test_columns_have_any_name"

    def validate(self, context):
        super().validate(context)
        if any("'" in each.name for each in context.table.schema.columns):
            raise ConfigurationError("a name has a quotation mark")


class ReadsAnotherType(FileTableFactory):
    seen_by = "test_the_source_has_the_declared_columns"

    def create_scan_source(self, context):
        import pyarrow as pa

        first, *others = context.table.schema.columns
        columns = (PhysicalColumn(first.name, pa.int32()), *others)
        return super().create_scan_source(_with_columns(context, columns))


class NamesNoKinds(FileTableFactory):
    seen_by = "test_a_changelog_names_the_kind_of_each_row"

    def create_scan_source(self, context):
        return replace(super().create_scan_source(context), changelog_mode=ChangelogMode.all())


class IgnoresUnknownMetadata(FileTableFactory):
    seen_by = "test_unknown_metadata_is_refused"

    def create_scan_source(self, context):
        known = [
            each
            for each in context.table.schema.columns
            if getattr(each, "key", "").startswith("file.") or isinstance(each, PhysicalColumn)
        ]
        return super().create_scan_source(_with_columns(context, known))


class ReadsMetadataUnderItsOwnName(FileTableFactory):
    seen_by = "test_metadata_columns_are_read_by_name"

    def create_scan_source(self, context):
        columns = [
            replace(each, name=each.key.replace(".", "_")) if hasattr(each, "key") else each
            for each in context.table.schema.columns
        ]
        return super().create_scan_source(_with_columns(context, columns))


class DropsWrittenMetadata(FileTableFactory):
    seen_by = "test_metadata_that_cannot_be_written_is_refused"

    def create_sink(self, context):
        physical = [e for e in context.table.schema.columns if isinstance(e, PhysicalColumn)]
        return super().create_sink(_with_columns(context, physical))


class AcceptsDeletionsAlone(FileTableFactory):
    seen_by = "test_the_sink_accepts_the_declared_columns"

    def create_sink(self, context):
        deletions = ChangelogMode(frozenset({RowKind.DELETE}))
        return replace(super().create_sink(context), changelog_mode=deletions)


class NamesAnotherKey(FileTableFactory):
    seen_by = "test_the_abilities_of_the_sink_fit_the_definition"

    def create_sink(self, context):
        made = super().create_sink(context)
        return replace(made, key=("text",), changelog_mode=ChangelogMode.upsert())


class RefusingOverwrite(FileOverwrite):
    def validate(self, schema):
        raise ConfigurationError("the columns do not fit")


class OverwritesOtherColumns(FileTableFactory):
    seen_by = "test_the_abilities_of_the_sink_fit_the_definition"

    def create_sink(self, context):
        made = super().create_sink(context)
        return replace(made, sink=OverwritingOthers(made.sink.path))


class OverwritingOthers(FileSink):
    def apply_overwrite(self, partition):
        return RefusingOverwrite(sink=self, existing=(), partition=partition)


@dataclass(frozen=True, kw_only=True)
class LockedSink(DynamicTableSink):
    lock: Any = field(default_factory=threading.Lock, repr=False)


class CannotTravel(FileTableFactory):
    seen_by = "test_what_a_factory_makes_survives_pickling"

    def create_sink(self, context):
        return LockedSink(sink=super().create_sink(context).sink)


def _with_columns(context, columns):
    schema = replace(context.table.schema, columns=tuple(columns))
    return replace(context, table=replace(context.table, schema=schema))


# --- Catalogs ------------------------------------------------------------------------------------


class ShowsEscapedValues(FileCatalog):
    seen_by = "test_partitions_keep_strange_values"

    def list_partitions(self, path):
        from connector_filesystem.sink.buckets import escape_path_name

        found = super().list_partitions(path)
        return [{key: escape_path_name(each) for key, each in one.items()} for one in found]


class IgnoresOtherColumns(FileCatalog):
    seen_by = "test_a_partition_with_other_columns_is_refused"

    def create_partition(self, path, partition):
        keys = self.get_table(path).partition_keys
        super().create_partition(path, {key: partition.get(key, "?") for key in keys})


class KeepsPartitions(FileCatalog):
    seen_by = "test_partitions_are_listed_created_and_dropped"

    def drop_partition(self, path, partition):
        self._folders_of(path, partition)


class DropsAbsentPartitions(FileCatalog):
    seen_by = "test_partitions_are_listed_created_and_dropped"

    def drop_partition(self, path, partition):
        with suppress(PartitionNotExistError):
            super().drop_partition(path, partition)


class DropsFilesOfTables(FileCatalog):
    seen_by = "test_a_catalog_deletes_data_only_if_an_option_allows_it"

    def drop_table(self, path):
        self._drops_files = True
        super().drop_table(path)


class DropsFilesOfPartitions(FileCatalog):
    seen_by = "test_a_catalog_deletes_data_only_if_an_option_allows_it"

    def drop_partition(self, path, partition):
        self._drops_files = True
        super().drop_partition(path, partition)


class DropsFilesWithTheDatabase(FileCatalog):
    seen_by = "test_a_catalog_deletes_data_only_if_an_option_allows_it"

    def drop_database(self, database, *, if_exists=False, cascade=False):
        self._drops_files = True
        super().drop_database(database, if_exists=if_exists, cascade=cascade)


class KeepsFilesWithoutAnOption(FileCatalog):
    seen_by = "test_a_catalog_deletes_data_only_if_an_option_allows_it"

    def _files_stay(self, whose):
        return CatalogError(f"the files {whose} stay")


class CountsNothing(FileCatalog):
    seen_by = "test_statistics_count_what_the_table_has"

    def get_table_statistics(self, path):
        return CatalogTableStatistics()


class KeepsDatabasesInMemory(FileCatalog):
    seen_by = "test_another_instance_finds_the_same"

    def list_databases(self):
        return sorted({*super().list_databases(), *self.__dict__.get("more", set())})

    def create_database(self, database, *, if_not_exists=False):
        from connectors_core.catalog import DatabaseAlreadyExistError

        if self.database_exists(database) and not if_not_exists:
            raise DatabaseAlreadyExistError(f"the database {database} exists")
        self.__dict__.setdefault("more", set()).add(database)

    def drop_database(self, database, *, if_exists=False, cascade=False):
        super().drop_database(database, if_exists=if_exists, cascade=cascade)
        self.__dict__.get("more", set()).discard(database)


BROKEN = {
    each.__name__: each
    for each in list(globals().values())
    if isinstance(each, type) and hasattr(each, "seen_by")
}


def broken_suite(name):
    """Create a suite for a broken table or catalog."""
    broken = BROKEN[name]
    if issubclass(broken, FileTableFactory):
        return type(f"Test{name}", (FileTableSuite,), {"factory": broken})

    class BrokenFolders(Folders):
        catalog_class = broken

    def external_context(self, folder):
        return BrokenFolders(folder)

    return type(f"Test{name}", (FileCatalogSuite,), {"external_context": external_context})
