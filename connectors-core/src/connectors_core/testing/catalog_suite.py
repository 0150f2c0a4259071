# SPDX-License-Identifier: Apache-2.0
"""The suite for catalogs. Subclass it and supply an external context."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from connectors_core.catalog import (
    Catalog,
    CatalogError,
    CatalogOperationUnsupportedError,
    DatabaseAlreadyExistError,
    DatabaseNotEmptyError,
    DatabaseNotExistError,
    ObjectPath,
    PartitionNotExistError,
    TableAlreadyExistError,
    TableNotExistError,
)
from connectors_core.errors import ConfigurationError
from connectors_core.table import CatalogTable, CatalogView, DynamicTableContext
from connectors_core.table.factory import factory_named
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.data_types import column_names
from connectors_core.testing.table_suite import schema_of_names
from connectors_core.testing.traces import assert_unseen, error_texts
from connectors_core.testing.trial import SystemSuite, open_contexts

_SINCE: Final = "1.4"
_ABSENT: Final = "absent-7f3a9c"
_VIEW: Final = CatalogView(query="SELECT 1 AS one", columns=("one",), comment="a number")
# Names that mean something else to a file system, a URL, or a query.
_STRANGE_NAMES: Final = ("", ".", "..", "../things", "a/b", "*", "%2e%2e", "things?", "_all", "\n")
_STRANGE_VALUES: Final = ("a/b", "..", "", " ", "ü", "x=1", "100%", "%2F")


class CatalogExternalContext(ABC):
    """The external system of a catalog in one case. Its default database can have other tables."""

    @abstractmethod
    def create_catalog(self, name: str) -> Catalog:
        """Return a catalog of the system.

        A catalog that is not `PERSISTENT` is the same object at each call.
        """

    def create_default_catalog(self, name: str) -> Catalog:
        """Return a catalog of the system without an option that allows it to delete data."""
        return self.create_catalog(name)

    @abstractmethod
    def add_table(self, name: str) -> None:
        """Add a table with two rows to the default database, as users of the system do."""

    def definition(self) -> CatalogTable:
        """Return the definition of a table that the catalog can create.

        Raises:
            NotImplementedError: The catalog lacks the capability `CREATE_TABLES`.
        """
        raise NotImplementedError

    def add_partitioned_table(self, name: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Add a table with partitions to the default database, and return two partitions.

        The table has only the first one.

        Raises:
            NotImplementedError: The catalog lacks the capability `PARTITIONS`.
        """
        raise NotImplementedError

    def stored(self, name: str) -> object:
        """Return what the system stores for a table of the default database, or its size.

        It asks the system, not the catalog: names and sizes of files, documents, or the offsets of
        a topic. Values are compared with ``==``.
        """
        raise NotImplementedError

    def secrets(self) -> Sequence[str]:
        """Return the secrets given to all catalogs of this context. No output may show them."""
        return ()

    def close(self) -> None:
        """Remove the remaining data of the case from the external system."""


@dataclass
class CatalogTrial:
    """A case in progress: the external system, and a catalog of it."""

    context: CatalogExternalContext
    catalog: Catalog
    _others: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._others = frozenset(self.catalog.list_tables(self.catalog.default_database))

    def path(self, name: str) -> ObjectPath:
        """Return the path of a table in the default database."""
        return ObjectPath(self.catalog.default_database, name)

    def added(self, name: str) -> ObjectPath:
        """Add a table to the system, and return its path."""
        self.context.add_table(name)
        return self.path(name)

    def tables(self) -> list[str]:
        """Return the names of the case's tables in the default database, as they are listed."""
        listed = self.catalog.list_tables(self.catalog.default_database)
        return [name for name in listed if name not in self._others]


class CatalogTestSuite(SystemSuite):
    """Cases for a catalog. Derive from this class, declare the capabilities, supply a context."""

    judged_by = frozenset({Capability.CREATE_DATABASES, Capability.STATISTICS})

    @abstractmethod
    def external_context(self, folder: Path) -> CatalogExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> Iterator[CatalogTrial]:
        """Return the external system and an open catalog of it."""
        with open_contexts(self.external_context, tmp_path) as new_context:
            context = new_context("external")
            with closing(context.create_catalog("things_catalog")) as catalog:
                catalog.open()
                yield CatalogTrial(context, catalog)

    # --- What the system has --------------------------------------------------------------------

    @case(since=_SINCE)
    def test_the_default_database_is_there(self, trial: CatalogTrial) -> None:
        database = trial.catalog.default_database
        assert database in trial.catalog.list_databases()
        assert trial.catalog.database_exists(database)

    @case(since=_SINCE)
    def test_a_table_of_the_system_is_found(self, trial: CatalogTrial) -> None:
        path = trial.added("things")
        assert trial.tables() == ["things"]
        assert trial.catalog.table_exists(path)
        assert isinstance(trial.catalog.get_table(path), CatalogTable)

    @case(since=_SINCE, after="test_a_table_of_the_system_is_found")
    def test_a_new_table_is_found_at_once(self, trial: CatalogTrial) -> None:
        """A catalog does not answer from an older listing."""
        for name in ("b", "a"):
            path = trial.path(name)
            assert not trial.catalog.table_exists(path)
            trial.added(name)
            assert trial.catalog.table_exists(path)
        assert trial.tables() == ["a", "b"], "names are sorted"

    @case(since=_SINCE, after="test_a_table_of_the_system_is_found")
    def test_a_connector_accepts_the_definition_of_a_table(self, trial: CatalogTrial) -> None:
        path = trial.added("things")
        table = trial.catalog.get_table(path)
        assert isinstance(table, CatalogTable)
        factory = factory_named(table, str(path))
        context = DynamicTableContext.of(str(path), table)
        factory.validate(context)
        source = factory.create_scan_source(context).source
        assert source.schema().names, "the table has no columns"

    @case(since=_SINCE)
    def test_absent_tables_and_databases_are_named(self, trial: CatalogTrial) -> None:
        catalog = trial.catalog
        absent = trial.path(_ABSENT)
        assert not catalog.table_exists(absent)
        assert not catalog.table_exists(ObjectPath(_ABSENT, "things"))
        assert not catalog.database_exists(_ABSENT)
        _refused(TableNotExistError, lambda: catalog.get_table(absent))
        _refused(DatabaseNotExistError, lambda: catalog.list_tables(_ABSENT))

    @case(since=_SINCE, after="test_a_table_of_the_system_is_found")
    def test_names_are_compared_by_one_rule(self, trial: CatalogTrial) -> None:
        """`normalized` tells whether case matters, and every method agrees."""
        trial.added("things")
        catalog = trial.catalog
        other = "THINGS"
        same = catalog.normalized(other) == catalog.normalized("things")
        assert catalog.normalized(catalog.normalized(other)) == catalog.normalized(other)
        path = trial.path(other)
        assert catalog.table_exists(path) is same, "table_exists has another rule"
        if same:
            catalog.get_table(path)
        else:
            _refused(TableNotExistError, lambda: catalog.get_table(path), name=other)

    @case(
        since=_SINCE,
        after=(
            "test_a_table_of_the_system_is_found",
            "test_absent_tables_and_databases_are_named",
        ),
    )
    def test_a_strange_name_is_no_other_table(self, trial: CatalogTrial) -> None:
        """Names come from statements. None may leave the system or select several tables."""
        trial.added("things")
        catalog = trial.catalog
        for name in _STRANGE_NAMES:
            for path in (trial.path(name), ObjectPath(name, "things")):
                try:
                    found = catalog.table_exists(path)
                except ConfigurationError:
                    continue  # a refusal is fine
                assert not found, f"{path!r} exists"
                with pytest.raises(ConfigurationError):
                    catalog.get_table(path)

    @case(Capability.STATISTICS, since=_SINCE, after="test_a_table_of_the_system_is_found")
    def test_statistics_count_what_the_table_has(self, trial: CatalogTrial) -> None:
        path = trial.added("things")
        found = trial.catalog.get_table_statistics(path)
        assert found.row_count in (None, 2), "the table has two rows"
        assert found.total_size is None or found.total_size > 0
        assert found != type(found)(), "the statistics are empty"

    @case(since=_SINCE, after="test_a_table_of_the_system_is_found")
    def test_the_system_lacks_what_the_catalog_lacks(self, trial: CatalogTrial) -> None:
        """Each operation that is not declared raises one typed error with the catalog's name."""
        path, catalog = trial.added("things"), trial.catalog
        definition = CatalogTable(schema=catalog_table(catalog, path).schema)
        operations: dict[Capability, Sequence[Callable[[], Any]]] = {
            Capability.CREATE_DATABASES: [lambda: catalog.create_database("further")],
            Capability.CREATE_TABLES: [
                lambda: catalog.create_table(trial.path("further"), definition),
            ],
            Capability.ALTER_TABLES: [lambda: catalog.alter_table(path, definition)],
            Capability.RENAME_TABLES: [lambda: catalog.rename_table(path, "further")],
            Capability.DROP_TABLES: [lambda: catalog.drop_table(path)],
            Capability.VIEWS: [lambda: catalog.create_table(trial.path("further"), _VIEW)],
            Capability.PARTITIONS: [
                lambda: catalog.list_partitions(path),
                lambda: catalog.create_partition(path, {"day": "1"}),
                lambda: catalog.drop_partition(path, {"day": "1"}),
            ],
            Capability.STATISTICS: [lambda: catalog.get_table_statistics(path)],
        }
        for capability, absent in operations.items():
            if capability in self.capabilities.can:
                continue
            for operation in absent:
                with pytest.raises(CatalogOperationUnsupportedError, match=catalog.name):
                    operation()
        assert trial.tables() == ["things"]

    # --- Databases ------------------------------------------------------------------------------

    @case(Capability.CREATE_DATABASES, since=_SINCE)
    def test_databases_are_created_and_dropped(self, trial: CatalogTrial) -> None:
        catalog = trial.catalog
        before = {*catalog.list_databases()}
        catalog.create_database("further")
        assert catalog.database_exists("further")
        assert list(catalog.list_tables("further")) == []
        _refused(
            DatabaseAlreadyExistError, lambda: catalog.create_database("further"), name="further"
        )
        catalog.create_database("further", if_not_exists=True)
        assert list(catalog.list_databases()) == sorted({*before, "further"})
        catalog.drop_database("further")
        assert not catalog.database_exists("further")
        _refused(DatabaseNotExistError, lambda: catalog.drop_database("further"), name="further")
        catalog.drop_database("further", if_exists=True)

    @case(Capability.CREATE_DATABASES, since=_SINCE, after="test_databases_are_created_and_dropped")
    def test_a_database_with_tables_is_kept(self, trial: CatalogTrial) -> None:
        path, catalog = trial.added("things"), trial.catalog
        with pytest.raises(CatalogError):
            catalog.drop_database(path.database)
        assert catalog.table_exists(path)

    @case(
        Capability.CREATE_DATABASES,
        Capability.CREATE_TABLES,
        since=_SINCE,
        after=(
            "test_a_new_table_is_found_at_once",
            "test_databases_are_created_and_dropped",
            "test_tables_are_created",
        ),
    )
    def test_a_table_belongs_to_its_database(self, trial: CatalogTrial) -> None:
        catalog = trial.catalog
        catalog.create_database("further")
        path = ObjectPath("further", "things")
        catalog.create_table(path, trial.context.definition())
        assert catalog.table_exists(path)
        assert not catalog.table_exists(trial.path("things"))
        _refused(DatabaseNotEmptyError, lambda: catalog.drop_database("further"), name="further")
        catalog.drop_database("further", cascade=True)
        assert not catalog.table_exists(path)

    # --- Tables and views -----------------------------------------------------------------------

    @case(
        Capability.CREATE_TABLES,
        since=_SINCE,
        after="test_absent_tables_and_databases_are_named",
    )
    def test_tables_are_created(self, trial: CatalogTrial) -> None:
        catalog, path = trial.catalog, trial.path("made")
        given = trial.context.definition()
        catalog.create_table(path, given)
        assert trial.tables() == ["made"]
        _same_definition(catalog_table(catalog, path), given)
        _refused(TableAlreadyExistError, lambda: catalog.create_table(path, given), name="made")
        elsewhere = ObjectPath(_ABSENT, "made")
        _refused(DatabaseNotExistError, lambda: catalog.create_table(elsewhere, given))

    @case(Capability.CREATE_TABLES, since="1.5", after="test_tables_are_created")
    def test_columns_keep_strange_names(self, trial: CatalogTrial) -> None:
        """A name is data: it is neither part of a statement nor changed."""
        catalog, path = trial.catalog, trial.path("made")
        names = column_names(self.capabilities.cannot_carry)
        given = replace(trial.context.definition(), schema=schema_of_names(names))
        catalog.create_table(path, given)
        table = catalog_table(catalog, path)
        found = [each.name for each in table.schema.columns]
        assert found == ["id", *names], f"the columns became {found}"
        context = DynamicTableContext.of(str(path), table)
        factory_named(table, str(path)).validate(context)

    @case(
        Capability.CREATE_TABLES,
        Capability.DROP_TABLES,
        since=_SINCE,
        after="test_tables_are_created",
    )
    def test_tables_are_dropped(self, trial: CatalogTrial) -> None:
        catalog, path = trial.catalog, trial.path("made")
        for _ in range(2):  # nothing of a dropped table is left
            catalog.create_table(path, trial.context.definition())
            catalog.drop_table(path)
            assert not catalog.table_exists(path)
            assert trial.tables() == []
        _refused(TableNotExistError, lambda: catalog.drop_table(path), name="made")

    @case(
        Capability.CREATE_TABLES,
        Capability.ALTER_TABLES,
        since=_SINCE,
        after="test_tables_are_created",
    )
    def test_tables_are_altered(self, trial: CatalogTrial) -> None:
        catalog, path = trial.catalog, trial.path("made")
        given = trial.context.definition()
        _refused(TableNotExistError, lambda: catalog.alter_table(path, given), name="made")
        catalog.create_table(path, given)
        changed = replace(given, comment="changed")
        catalog.alter_table(path, changed)
        _same_definition(catalog_table(catalog, path), changed)

    @case(
        Capability.CREATE_TABLES,
        Capability.RENAME_TABLES,
        since=_SINCE,
        after="test_tables_are_created",
    )
    def test_tables_are_renamed(self, trial: CatalogTrial) -> None:
        catalog, path, other = trial.catalog, trial.path("made"), trial.path("other")
        given = trial.context.definition()
        renamed = replace(given, comment="renamed")
        _refused(TableNotExistError, lambda: catalog.rename_table(path, "other"), name="made")
        catalog.create_table(path, renamed)
        catalog.rename_table(path, "other")
        assert trial.tables() == ["other"]
        catalog.create_table(path, given)
        _refused(TableAlreadyExistError, lambda: catalog.rename_table(path, "other"), name="other")
        assert sorted(trial.tables()) == ["made", "other"]
        _same_definition(catalog_table(catalog, other), renamed)

    @case(Capability.VIEWS, since=_SINCE)
    def test_views_are_kept(self, trial: CatalogTrial) -> None:
        catalog, path = trial.catalog, trial.path("seen")
        catalog.create_table(path, _VIEW)
        assert catalog.get_table(path) == _VIEW
        assert trial.tables() == ["seen"]
        _refused(TableAlreadyExistError, lambda: catalog.create_table(path, _VIEW), name="seen")

    # --- Partitions -----------------------------------------------------------------------------

    @case(Capability.PARTITIONS, since=_SINCE)
    def test_partitions_are_listed_created_and_dropped(self, trial: CatalogTrial) -> None:
        given, further = trial.context.add_partitioned_table("parted")
        catalog, path = trial.catalog, trial.path("parted")
        assert _sorted(catalog.list_partitions(path)) == [given]
        catalog.create_partition(path, further)
        assert _sorted(catalog.list_partitions(path)) == _sorted([given, further])
        catalog.drop_partition(path, further)
        assert _sorted(catalog.list_partitions(path)) == [given]
        _refused(
            PartitionNotExistError,
            lambda: catalog.drop_partition(path, further),
            name=next(iter(further.values())),
        )

    @case(
        Capability.PARTITIONS,
        since=_SINCE,
        after="test_partitions_are_listed_created_and_dropped",
    )
    def test_a_partition_with_other_columns_is_refused(self, trial: CatalogTrial) -> None:
        given, _ = trial.context.add_partitioned_table("parted")
        catalog, path = trial.catalog, trial.path("parted")
        for wrong in ({}, {**given, _ABSENT: "1"}, {_ABSENT: "1"}):
            for act in (catalog.create_partition, catalog.drop_partition):
                with pytest.raises(ConfigurationError):
                    act(path, wrong)
        assert _sorted(catalog.list_partitions(path)) == [given]

    @case(
        Capability.PARTITIONS,
        since=_SINCE,
        after="test_partitions_are_listed_created_and_dropped",
    )
    def test_partitions_keep_strange_values(self, trial: CatalogTrial) -> None:
        """A value is data: it cannot name another place, and comes back as it was."""
        given, _ = trial.context.add_partitioned_table("parted")
        catalog, path = trial.catalog, trial.path("parted")
        column = next(iter(given))
        for value in _STRANGE_VALUES:
            strange = {**given, column: value}
            try:
                catalog.create_partition(path, strange)
            except ConfigurationError:
                continue  # a refusal is fine
            assert _sorted(catalog.list_partitions(path)) == _sorted([given, strange])
            catalog.drop_partition(path, strange)
            assert _sorted(catalog.list_partitions(path)) == [given]

    # --- Deletion -------------------------------------------------------------------------------

    @case(since="1.5", after="test_a_table_of_the_system_is_found")
    def test_a_catalog_deletes_data_only_if_an_option_allows_it(self, trial: CatalogTrial) -> None:
        """By default, each command keeps the data, and a refusal names the option."""
        context, able = trial.context, self.capabilities.can
        path = trial.added("things")
        names = ["things"]
        with closing(context.create_default_catalog("careful")) as catalog:
            catalog.open()
            commands: dict[str, Callable[[], None]] = {}
            if Capability.PARTITIONS in able:
                given, _ = context.add_partitioned_table("parted")
                names.append("parted")
                parted = trial.path("parted")
                commands["drop_partition"] = lambda: catalog.drop_partition(parted, given)
            if Capability.CREATE_TABLES in able:
                made = context.definition()
                commands["create_table"] = lambda: catalog.create_table(path, made, replace=True)
                commands["alter_table"] = lambda: catalog.alter_table(path, made)
            commands["drop_table"] = lambda: catalog.drop_table(path)
            commands["drop_database"] = lambda: catalog.drop_database(path.database, cascade=True)
            before = [context.stored(name) for name in names]
            for name, command in commands.items():
                refused = _refusal(command)
                if refused is not None and name in ("drop_table", "drop_partition"):
                    assert refused.option, f"no option is named: {refused}"
                after = [context.stored(name) for name in names]
                assert after == before, f"{name} has deleted data"

    # --- Instances and secrets ------------------------------------------------------------------

    @case(Capability.PERSISTENT, since=_SINCE, after="test_a_table_of_the_system_is_found")
    def test_another_instance_finds_the_same(self, trial: CatalogTrial) -> None:
        path = trial.added("things")
        able = self.capabilities.can
        if Capability.CREATE_TABLES in able:
            trial.catalog.create_table(trial.path("made"), trial.context.definition())
        if Capability.CREATE_DATABASES in able:
            trial.catalog.create_database("further")
        with closing(trial.context.create_catalog("another")) as another:
            another.open()
            assert list(another.list_databases()) == list(trial.catalog.list_databases())
            tables = trial.catalog.list_tables(path.database)
            assert list(another.list_tables(path.database)) == list(tables)
            for name in trial.tables():
                found = catalog_table(another, trial.path(name))
                _same_definition(found, catalog_table(trial.catalog, trial.path(name)))

    @case(Capability.SECRETS, since=_SINCE, after="test_a_table_of_the_system_is_found")
    def test_a_secret_is_seen_nowhere(self, trial: CatalogTrial, tmp_path: Path) -> None:
        path = trial.added("things")
        table = catalog_table(trial.catalog, path)
        context = DynamicTableContext.of(str(path), table)
        source = factory_named(table, str(path)).create_scan_source(context)
        seen = [repr(each) for each in (trial.catalog, table, context, source)]
        for act in (
            lambda: trial.catalog.get_table(trial.path(_ABSENT)),
            lambda: trial.catalog.list_tables(_ABSENT),
        ):
            with pytest.raises(CatalogError) as refused:
                act()
            seen += error_texts(refused.value)
        assert_unseen(trial.context.secrets(), seen, tmp_path)


def catalog_table(catalog: Catalog, path: ObjectPath) -> CatalogTable:
    """Return the definition of a table that is no view."""
    found = catalog.get_table(path)
    assert isinstance(found, CatalogTable), f"{path} is a view"
    return found


def _same_definition(found: CatalogTable, expected: CatalogTable) -> None:
    """Compare what users state. A catalog can add options of the system."""
    assert found.schema == expected.schema
    assert found.comment == expected.comment
    assert found.partition_keys == expected.partition_keys
    lost = {key: each for key, each in expected.options.items() if found.options.get(key) != each}
    assert not lost, f"the options {', '.join(sorted(lost))} changed"


def _refused(kind: type[CatalogError], act: Callable[[], object], *, name: str = _ABSENT) -> None:
    with pytest.raises(CatalogError) as refused:
        act()
    assert type(refused.value) is kind, f"{type(refused.value).__name__} instead of {kind.__name__}"
    assert name in str(refused.value), f"the error does not name {name}: {refused.value}"


def _sorted(partitions: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    return sorted(map(dict, partitions), key=lambda each: sorted(each.items()))


def _refusal(command: Callable[[], None]) -> CatalogError | None:
    """Run a command, and return why the catalog refuses it, unless it lacks the command."""
    try:
        command()
    except CatalogOperationUnsupportedError:
        return None
    except CatalogError as error:
        return error
    return None
