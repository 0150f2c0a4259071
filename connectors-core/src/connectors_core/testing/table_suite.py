# SPDX-License-Identifier: Apache-2.0
"""The suite for a connector's tables. Subclass it and supply an external context."""

from __future__ import annotations

import pickle
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import pytest

from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    UnknownOptionError,
    UnsupportedError,
)
from connectors_core.schema import ROW_KIND_COLUMN, RowKind
from connectors_core.sink import SupportsOverwrite
from connectors_core.table import (
    CatalogTable,
    DynamicTableContext,
    DynamicTableFactory,
    MetadataColumn,
    PhysicalColumn,
    TableAbility,
    TableSchema,
)
from connectors_core.table.factory import factory_named
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.data_types import column_names
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.traces import assert_unseen, error_texts
from connectors_core.testing.trial import PipelineSuite, open_contexts

if TYPE_CHECKING:
    from connectors_core import TableEnvironment

_SINCE: Final = "1.4"
_NAME: Final = "shop.things"
_STRANGER: Final = "zzz.no-such-option"
_SHORTEST: Final = 4

TABLE_ROWS: Final = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
    ]
)
"""Columns of the tables in the cases."""

_VALUES: Final = (
    "(1, 'one', 1.5D, TIMESTAMP '2024-01-01 00:00:01'),"
    " (2, 'it''s \"two\", ä漢', -0.25D, TIMESTAMP '2024-02-29 23:59:59.999999'),"
    " (3, CAST(NULL AS STRING), CAST(NULL AS DOUBLE), TIMESTAMP '1970-01-01 00:00:00'),"
    " (4, '', 0D, TIMESTAMP '2024-01-01 00:00:04')"
)


def table_schema(*, key: bool = False) -> TableSchema:
    """Return the columns of :data:`TABLE_ROWS`.

    Args:
        key: Whether ``id`` is the primary key.
    """
    columns = tuple(PhysicalColumn(each.name, each.type) for each in TABLE_ROWS)
    return TableSchema(columns, primary_key=("id",) if key else ())


def schema_of_names(names: Sequence[str], *, key: Sequence[str] = ()) -> TableSchema:
    """Return the column ``id``, and columns of texts with these names."""
    texts = (PhysicalColumn(name, pa.string()) for name in names)
    return TableSchema((PhysicalColumn("id", pa.int64()), *texts), primary_key=tuple(key))


class TableExternalContext(ABC):
    """The external system of a table in one case, initially empty and not shared."""

    @abstractmethod
    def definition(self) -> CatalogTable:
        """Return the definition of a table with the columns of `table_schema`.

        Its system exists when the method returns, such as a topic. The same definition is read,
        written, and looked up, as far as the connector can. Reads have an end.
        """

    def definition_of(self, schema: TableSchema) -> CatalogTable:
        """Return the definition of a table with other columns than those of `table_schema`.

        A system that does not learn the columns from the rows gets a table with these columns.
        """
        return replace(self.definition(), schema=schema)

    def metadata(self) -> Sequence[MetadataColumn]:
        """Return columns with metadata that the connector reads.

        Raises:
            NotImplementedError: The connector lacks the capability `METADATA_COLUMNS`.
        """
        raise NotImplementedError

    def secret_options(self) -> Mapping[str, str]:
        """Return options with secrets, and those that a login needs beside them.

        Raises:
            NotImplementedError: The connector lacks the capability `SECRETS`.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Remove the remaining data of the case from the external system."""


@dataclass
class TableTrial:
    """A case in progress: the definition of a table, and its factory."""

    context: TableExternalContext
    factory: DynamicTableFactory
    table: CatalogTable
    environment: TestEnvironment
    root: Path

    def with_options(self, options: Mapping[str, str]) -> DynamicTableContext:
        """Return the table with more options."""
        table = replace(self.table, options={**self.table.options, **options})
        return DynamicTableContext.declared(_NAME, table)

    def with_columns(self, columns: Sequence[MetadataColumn]) -> DynamicTableContext:
        """Return the table with more columns."""
        schema = self.table.schema
        table = replace(self.table, schema=replace(schema, columns=(*schema.columns, *columns)))
        return DynamicTableContext.of(_NAME, table)

    @property
    def declared(self) -> DynamicTableContext:
        """The table as it is."""
        return DynamicTableContext.of(_NAME, self.table)

    def statements(self) -> TableEnvironment:
        """Return an environment with the table, whose name is ``things``."""
        from connectors_core import TableEnvironment

        environment: Any = self.environment
        made = TableEnvironment(environment.spark, checkpoint_location=self.root / "checkpoints")
        made.create_table("things", self.table)
        return made


class TableTestSuite(PipelineSuite):
    """Cases for the tables of a connector.

    Derive from this class, name the factory, declare the capabilities, and supply a context. The
    cases that need no statement run without Spark. With ``on_spark``, all of them run.

    Attributes:
        factory: The class of the factory.
    """

    factory: ClassVar[type[DynamicTableFactory]]
    judged_by = frozenset({Capability.SCAN, Capability.INSERT, Capability.LOOKUP})

    @abstractmethod
    def external_context(self, folder: Path) -> TableExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    @pytest.fixture
    def trial(self, environment: TestEnvironment, tmp_path: Path) -> Iterator[TableTrial]:
        """Return the external system and the table of a case."""
        with open_contexts(self.external_context, tmp_path) as new_context:
            context = new_context("external")
            yield TableTrial(context, self.factory(), context.definition(), environment, tmp_path)

    # --- Definitions ----------------------------------------------------------------------------

    @case(since=_SINCE)
    def test_the_factory_is_found_by_its_identifier(self, trial: TableTrial) -> None:
        """It is an entry point of its package."""
        assert type(factory_named(trial.table, _NAME)) is self.factory
        assert trial.table.options["connector"] == self.factory.identifier

    @case(since=_SINCE)
    def test_a_definition_is_accepted(self, trial: TableTrial) -> None:
        trial.factory.validate(trial.declared)

    @case(since=_SINCE, after="test_a_definition_is_accepted")
    def test_definitions_are_used_without_their_system(
        self, trial: TableTrial, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A statement such as CREATE TABLE or EXPLAIN works while the system is away."""

        def refuse(*_: object) -> None:
            raise AssertionError("a factory connects to the external system")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket.socket, "connect_ex", refuse)
        trial.factory.validate(trial.declared)
        for make in self._parts(trial).values():
            make(trial.declared)

    @case(since=_SINCE, after="test_a_definition_is_accepted")
    def test_an_unknown_option_is_named_with_its_table(self, trial: TableTrial) -> None:
        with pytest.raises(UnknownOptionError) as refused:
            trial.factory.validate(trial.with_options({_STRANGER: "1"}))
        assert _STRANGER in str(refused.value)
        assert _NAME in str(refused.value), "the error does not name the table"

    @case(since=_SINCE, after="test_an_unknown_option_is_named_with_its_table")
    def test_a_mistyped_option_is_recognised(self, trial: TableTrial) -> None:
        for key in trial.declared.options:
            middle = len(key) // 2
            mistyped = key[:middle] + key[middle + 1 :]
            if len(key) < _SHORTEST or mistyped in trial.declared.options:
                continue
            hint = _hint_at_unknown(trial, mistyped)
            assert hint is None or key in hint, f"{mistyped!r} is not recognized as {key!r}"

    @case(since=_SINCE, after="test_a_definition_is_accepted")
    def test_a_reference_is_accepted_for_any_value(self, trial: TableTrial) -> None:
        """The value of a reference is known where it is used, not where it is declared."""
        for key in trial.declared.options:
            trial.factory.validate(trial.with_options({key: "${env:CONNECTORS_TEST_ABSENT}"}))

    @case(Capability.SECRETS, since=_SINCE, after="test_an_unknown_option_is_named_with_its_table")
    def test_a_secret_is_seen_nowhere(
        self, trial: TableTrial, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        given = trial.context.secret_options()
        secret = {key: value for key, value in given.items() if trial.factory.is_secret(key)}
        assert secret, "the factory knows none of the options as secret"
        references = {}
        for number, (key, value) in enumerate(secret.items()):
            monkeypatch.setenv(f"CONNECTORS_TEST_SECRET_{number}", value)
            references[key] = f"${{env:CONNECTORS_TEST_SECRET_{number}}}"
        context = DynamicTableContext.of(_NAME, trial.with_options({**given, **references}).table)
        seen = [repr(context), repr(trial.factory)]
        seen += [repr(make(context)) for make in self._parts(trial).values()]
        with pytest.raises(UnknownOptionError) as refused:
            trial.factory.validate(trial.with_options({**given, _STRANGER: "1"}))
        assert_unseen(list(secret.values()), [*seen, *error_texts(refused.value)], tmp_path)

    @case(since=_SINCE, after="test_a_definition_is_accepted")
    def test_a_part_that_the_connector_lacks_is_named(self, trial: TableTrial) -> None:
        parts = self._all_parts(trial)
        for capability, make in parts.items():
            if capability in self.capabilities.can:
                continue
            with pytest.raises(ConfigurationError) as refused:
                make(trial.declared)
            assert _NAME in str(refused.value), "the error does not name the table"

    # --- Parts ----------------------------------------------------------------------------------

    @case(Capability.SCAN, since=_SINCE, after="test_a_definition_is_accepted")
    def test_the_source_has_the_declared_columns(self, trial: TableTrial) -> None:
        found = trial.factory.create_scan_source(trial.declared).source.schema()
        for field in TABLE_ROWS:
            assert field.name in found.names, f"the source lacks {field.name}"
            assert found.field(field.name).type == field.type, f"{field.name} has another type"

    @case(Capability.SCAN, since=_SINCE, after="test_the_source_has_the_declared_columns")
    def test_a_changelog_names_the_kind_of_each_row(self, trial: TableTrial) -> None:
        made = trial.factory.create_scan_source(trial.declared)
        has_kinds = ROW_KIND_COLUMN in {*made.source.schema().names, *made.computed}
        inserts = made.changelog_mode.contains_only(RowKind.INSERT)
        assert has_kinds is not inserts, (
            f"the changes are {made.changelog_mode}, and the rows have"
            f" {'a' if has_kinds else 'no'} column {ROW_KIND_COLUMN}"
        )

    @case(
        Capability.SCAN,
        Capability.METADATA_COLUMNS,
        since=_SINCE,
        after="test_the_source_has_the_declared_columns",
    )
    def test_metadata_columns_are_read_by_name(self, trial: TableTrial) -> None:
        columns = trial.context.metadata()
        assert columns, "the context names no metadata"
        renamed = [replace(each, name=f"of_{number}") for number, each in enumerate(columns)]
        found = trial.factory.create_scan_source(trial.with_columns(renamed)).source.schema()
        for each in renamed:
            assert each.name in found.names, f"the metadata {each.key} is not read as {each.name}"

    @case(Capability.SCAN, since=_SINCE, after="test_the_source_has_the_declared_columns")
    def test_unknown_metadata_is_refused(self, trial: TableTrial) -> None:
        unknown = MetadataColumn("unknown", pa.string(), _STRANGER, virtual=True)
        with pytest.raises(ConfigurationError, match=_STRANGER):
            trial.factory.create_scan_source(trial.with_columns([unknown]))

    @case(Capability.INSERT, since=_SINCE, after="test_a_definition_is_accepted")
    def test_the_sink_accepts_the_declared_columns(self, trial: TableTrial) -> None:
        made = trial.factory.create_sink(trial.declared)
        assert made.changelog_mode.contains(RowKind.INSERT), "the sink accepts no insertions"
        made.sink.validate(TABLE_ROWS)

    @case(Capability.INSERT, since=_SINCE, after="test_the_sink_accepts_the_declared_columns")
    def test_metadata_that_cannot_be_written_is_refused(self, trial: TableTrial) -> None:
        unknown = MetadataColumn("unknown", pa.string(), _STRANGER)
        with pytest.raises(ConfigurationError) as refused:
            trial.factory.create_sink(trial.with_columns([unknown]))
        assert "unknown" in str(refused.value), "the error does not name the column"

    @case(Capability.INSERT, since=_SINCE, after="test_the_sink_accepts_the_declared_columns")
    def test_the_abilities_of_the_sink_fit_the_definition(self, trial: TableTrial) -> None:
        """They decide which statements are planned, before anything is written."""
        made = trial.factory.create_sink(trial.declared)
        if made.key:
            declared = trial.table.schema.primary_key
            assert made.key == declared, f"the key is {made.key}, and the table has {declared}"
            kinds = pa.field(ROW_KIND_COLUMN, pa.string())
            made.sink.validate(TABLE_ROWS.append(kinds))
        if isinstance(made.sink, SupportsOverwrite):
            made.sink.apply_overwrite({}).validate(TABLE_ROWS)

    @case(Capability.LOOKUP, since=_SINCE, after="test_a_definition_is_accepted")
    def test_a_lookup_finds_the_declared_columns(self, trial: TableTrial) -> None:
        found = trial.factory.create_lookup_source(trial.declared).schema()
        assert [(each.name, each.type) for each in found if each.name in TABLE_ROWS.names] == [
            (each.name, each.type) for each in TABLE_ROWS
        ]

    @case(
        since="1.5",
        after=(
            "test_the_source_has_the_declared_columns",
            "test_the_sink_accepts_the_declared_columns",
            "test_a_lookup_finds_the_declared_columns",
        ),
    )
    def test_columns_have_any_name(self, trial: TableTrial) -> None:
        """Source, sink, and lookup use each name as it is declared."""
        context = DynamicTableContext.of(_NAME, self._with_any_names(trial))
        rows = context.table.schema.physical
        trial.factory.validate(context)
        able, factory = self.capabilities.can, trial.factory
        found = {}
        if Capability.SCAN in able:
            found["source"] = factory.create_scan_source(context).source.schema().names
        if Capability.INSERT in able:
            factory.create_sink(context).sink.validate(rows)
        if Capability.LOOKUP in able:
            found["lookup"] = factory.create_lookup_source(context).schema().names
        for part, given in found.items():
            lost = [name for name in rows.names if name not in given]
            assert not lost, f"the {part} lacks the columns {lost}"

    @case(since=_SINCE, after="test_a_definition_is_accepted")
    def test_what_a_factory_makes_survives_pickling(self, trial: TableTrial) -> None:
        """Spark ships it to executors."""
        from pyspark import cloudpickle

        pickling: Any = cloudpickle
        for make in self._parts(trial).values():
            made = make(trial.declared)
            assert type(pickle.loads(pickling.dumps(made))) is type(made)

    def _with_any_names(self, trial: TableTrial) -> CatalogTable:
        """Return a table with the column ``id``, and one for each kind of name."""
        names = column_names(self.capabilities.cannot_carry)
        schema = schema_of_names(names, key=trial.table.schema.primary_key)
        return trial.context.definition_of(schema)

    def _all_parts(
        self, trial: TableTrial
    ) -> dict[Capability, Callable[[DynamicTableContext], object]]:
        return {
            Capability.SCAN: trial.factory.create_scan_source,
            Capability.INSERT: trial.factory.create_sink,
            Capability.LOOKUP: trial.factory.create_lookup_source,
        }

    def _parts(self, trial: TableTrial) -> dict[Capability, Callable[[DynamicTableContext], Any]]:
        """Return how the parts of the connector are made."""
        able = self.capabilities.can
        return {key: make for key, make in self._all_parts(trial).items() if key in able}

    # --- Statements -----------------------------------------------------------------------------

    @case(
        Capability.STATEMENTS,
        Capability.SCAN,
        Capability.INSERT,
        since=_SINCE,
        after=(
            "test_the_sink_accepts_the_declared_columns",
            "test_the_source_has_the_declared_columns",
        ),
    )
    def test_a_query_reads_what_an_insert_wrote(self, trial: TableTrial) -> None:
        with closing(trial.statements()) as tables:
            rows = f"SELECT * FROM VALUES {_VALUES} AS t(id, text, amount, at)"  # noqa: S608
            tables.execute_sql(f"INSERT INTO things {rows}")
            expected = _sorted(tables.execute_sql(rows).collect())
            assert _sorted(_read(tables, "id, text, amount, at")) == expected
            assert _sorted(_read(tables, "amount, id")) == _sorted(
                (amount, number) for number, _, amount, _ in expected
            ), "a query of some columns in another order reads other values"
            for condition in ("id > 2", "text IS NULL", "amount < 0", "text = ''"):
                kept = [row[:1] for row in _read(tables, f"* FROM ({rows}) WHERE {condition}")]
                found = _read(tables, f"id FROM things WHERE {condition}")
                assert _sorted(found) == _sorted(kept), f"wrong rows where {condition}"

    @case(
        Capability.STATEMENTS,
        Capability.SCAN,
        Capability.INSERT,
        since=_SINCE,
        after="test_a_query_reads_what_an_insert_wrote",
    )
    def test_columns_that_an_insert_omits_are_null(self, trial: TableTrial) -> None:
        with closing(trial.statements()) as tables:
            tables.execute_sql("INSERT INTO things (text, id) SELECT 'seven', 7L")
            assert _read(tables, "id, text, amount, at") == [(7, "seven", None, None)]

    @case(
        Capability.STATEMENTS,
        Capability.SCAN,
        Capability.INSERT,
        since="1.5",
        after=("test_a_query_reads_what_an_insert_wrote", "test_columns_have_any_name"),
    )
    def test_statements_use_columns_of_any_name(self, trial: TableTrial) -> None:
        """A name is data: it is neither part of a statement nor changed."""
        table = self._with_any_names(trial)
        names = table.schema.physical.names[1:]
        quoted = ["`" + name.replace("`", "``") + "`" for name in names]
        row = tuple(f"text {number}" for number in range(len(names)))
        fits = [f"{name} = '{text}'" for name, text in zip(quoted, row, strict=True)]
        columns = ", ".join(quoted)
        with closing(trial.statements()) as tables:
            tables.create_table("named", table)
            values = f"SELECT 1L, {str(row)[1:-1]}"
            tables.execute_sql(f"INSERT INTO named (id, {columns}) {values}")
            assert _read(tables, f"{columns} FROM named") == [row]
            assert _read(tables, f"id FROM named WHERE {' AND '.join(fits)}") == [(1,)]

    @case(
        Capability.STATEMENTS,
        Capability.SCAN,
        Capability.INSERT,
        since=_SINCE,
        after="test_a_query_reads_what_an_insert_wrote",
    )
    def test_an_overwrite_replaces_the_rows_or_is_refused(self, trial: TableTrial) -> None:
        abilities = trial.factory.create_sink(trial.declared).abilities
        with closing(trial.statements()) as tables:
            tables.execute_sql("INSERT INTO things (id) VALUES (1), (2)")
            overwrite = "INSERT OVERWRITE things (id) SELECT id + 10 FROM things WHERE id > 1"
            if TableAbility.OVERWRITE in abilities:
                tables.execute_sql(overwrite)
                assert _read(tables, "id") == [(12,)]
            else:
                _assert_refused(tables, overwrite, TableAbility.OVERWRITE)

    @case(
        Capability.STATEMENTS,
        Capability.SCAN,
        Capability.INSERT,
        since=_SINCE,
        after="test_a_query_reads_what_an_insert_wrote",
    )
    def test_rows_are_updated_and_deleted_by_key_or_this_is_refused(
        self, trial: TableTrial
    ) -> None:
        abilities = trial.factory.create_sink(trial.declared).abilities
        with closing(trial.statements()) as tables:
            tables.execute_sql("INSERT INTO things (id, text) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
            update = "UPDATE things SET text = upper(text) WHERE id > 1"
            delete = "DELETE FROM things WHERE id < 3"
            if TableAbility.ROW_LEVEL_UPDATE not in abilities:
                _assert_refused(tables, update, TableAbility.ROW_LEVEL_UPDATE)
                _assert_refused(tables, delete, TableAbility.ROW_LEVEL_DELETE)
                return
            tables.execute_sql(update)
            assert _sorted(_read(tables, "id, text")) == [(1, "a"), (2, "B"), (3, "C")]
            tables.execute_sql(delete)
            assert _read(tables, "id, text") == [(3, "C")]

    @case(Capability.STATEMENTS, since=_SINCE, after="test_a_definition_is_accepted")
    def test_the_statement_of_a_table_creates_it_again(self, trial: TableTrial) -> None:
        with closing(trial.statements()) as tables:
            ((statement,),) = tables.execute_sql("SHOW CREATE TABLE things").collect()
            tables.execute_sql("DROP TABLE things")
            tables.execute_sql(statement)
            assert tables.execute_sql("SHOW CREATE TABLE things").collect() == [(statement,)]

    @case(
        Capability.STATEMENTS,
        Capability.INSERT,
        since=_SINCE,
        after="test_the_sink_accepts_the_declared_columns",
    )
    def test_an_insert_that_does_not_fit_writes_nothing(self, trial: TableTrial) -> None:
        with closing(trial.statements()) as tables:
            for wrong in ("'a', 'b', 1D, current_timestamp()", "1L, 'b'"):
                with pytest.raises(ConnectorError):
                    tables.execute_sql(f"INSERT INTO things SELECT {wrong}")
            if Capability.SCAN in self.capabilities.can:
                assert _read(tables, "id") == []


def _hint_at_unknown(trial: TableTrial, key: str) -> str | None:
    """Return the hint of the error about an option; None if a prefix makes the option known."""
    try:
        trial.factory.validate(trial.with_options({key: "1"}))
    except UnknownOptionError as error:
        return error.hint or ""
    return None


def _read(tables: TableEnvironment, what: str) -> list[tuple[Any, ...]]:
    query = what if " FROM " in what else f"{what} FROM things"
    return tables.execute_sql(f"SELECT {query}").collect()


def _assert_refused(tables: TableEnvironment, statement: str, ability: TableAbility) -> None:
    with pytest.raises(UnsupportedError, match=ability) as refused:
        tables.execute_sql(statement)
    assert "things" in str(refused.value), "the error does not name the table"


def _sorted(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows), key=repr)
