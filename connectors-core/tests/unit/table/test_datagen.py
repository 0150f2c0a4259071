# SPDX-License-Identifier: Apache-2.0
"""Tests tables of generated rows, and of rows that are printed or discarded."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError, ConnectorError, UnknownOptionError
from connectors_core.schema import ROW_KIND_COLUMN, parse_schema
from connectors_core.source import Boundedness, RateLimiterStrategy
from connectors_core.table import (
    CatalogTable,
    DynamicTableContext,
    MetadataColumn,
    PhysicalColumn,
    TableSchema,
)
from connectors_core.table.datagen import DataGenTableFactory
from connectors_core.table.factory import factory_of
from connectors_core.testing.sink_unit import writer_context

SEQUENCE = {"kind": "sequence", "start": "120", "end": "130"}
ALL_TYPES = """
  bool BOOLEAN, tiny TINYINT, small SMALLINT, int INT, big BIGINT, single FLOAT, double DOUBLE,
  decimal DECIMAL(7, 2), long DECIMAL(38, 3), text STRING, bytes BINARY, day DATE, at TIMESTAMP,
  local TIMESTAMP_NTZ, list ARRAY<INT>, row STRUCT<name: STRING, sizes: ARRAY<STRUCT<n: INT>>>
"""


def context(columns: str, options: Mapping[str, str], connector: str = "datagen"):
    schema = TableSchema(
        tuple(PhysicalColumn(each.name, each.type, each.nullable) for each in parse_schema(columns))
    )
    table = CatalogTable(schema=schema, options={"connector": connector, **options})
    return DynamicTableContext.declared("things", table)


def source(columns: str, **options: str):
    made = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return source_of(columns, made)


def source_of(columns: str, options: Mapping[str, str]):
    factory = DataGenTableFactory()
    declared = context(columns, options)
    factory.validate(declared)
    return factory.create_scan_source(declared).source


def rows(columns: str, count: int = 200, **options: str) -> pa.RecordBatch:
    batch = source(columns, **options).make_batch(pa.array(range(count), pa.int64()))
    batch.validate(full=True)
    return batch


def values(batch: pa.RecordBatch) -> list[Any]:
    return batch.column(0).to_pylist()


def test_every_type_is_generated_and_a_row_depends_only_on_its_number() -> None:
    made = pickle.loads(pickle.dumps(source(ALL_TYPES, fields__text__null_rate="0.5")))
    batch = made.make_batch(pa.array(range(300), pa.int64()))
    batch.validate(full=True)
    assert batch.schema == made.schema() == parse_schema(ALL_TYPES)
    assert all(column.null_count == 0 for column in batch.drop_columns(["text"]).columns)
    again = made.make_batch(pa.array([299, 7], pa.int64()))
    assert again.to_pylist() == [batch.to_pylist()[299], batch.to_pylist()[7]]


def test_columns_and_seeds_have_values_of_their_own() -> None:
    batch = rows("a INT, b INT, c STRUCT<a: INT>")
    nested = batch.column("c").field("a")
    assert batch.column("a") != batch.column("b")
    assert batch.column("a") != nested
    assert rows("a INT", seed="1") != rows("a INT", seed="2")
    assert rows("a INT", seed="1") == rows("a INT", seed="1")


@given(
    bounds=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=2).map(sorted),
    numbers=st.lists(st.integers(0, 2**62), min_size=1, max_size=20),
)
def test_random_numbers_stay_within_their_bounds(bounds: list[int], numbers: list[int]) -> None:
    least, most = bounds
    made = source("n BIGINT", fields__n__min=str(least), fields__n__max=str(most))
    found = values(made.make_batch(pa.array(numbers, pa.int64())))
    assert all(least <= each <= most for each in found)


def test_random_numbers_are_spread_over_their_bounds() -> None:
    found = values(rows("n INT", 6000, fields__n__min="1", fields__n__max="6"))
    assert {each: 850 < found.count(each) < 1150 for each in range(1, 7)} == dict.fromkeys(
        range(1, 7), True
    )
    found = values(rows("x DOUBLE", 6000, fields__x__min="-1.5", fields__x__max="0.5"))
    assert -1.5 <= min(found) < -1.49
    assert 0.49 < max(found) <= 0.5
    found = values(rows("d DECIMAL(4, 2)", 6000, fields__d__min="-0.05", fields__d__max="1"))
    assert set(found) == {Decimal(each) / 100 for each in range(-5, 101)}


def test_times_lie_before_the_newest_one() -> None:
    newest = datetime(2020, 2, 3, 4, 5, tzinfo=UTC)
    options = {"fields__at__max": "2020-02-03 04:05:00", "fields__at__max_past": "1 h"}
    found = values(rows("at TIMESTAMP", **options))
    assert newest - timedelta(hours=1) <= min(found) < max(found) <= newest
    assert set(values(rows("d DATE", 500, fields__d__max_past="2 d"))) == {
        date(2024, 1, 1) - timedelta(days=each) for each in range(3)
    }


def test_texts_have_a_length_or_up_to_it() -> None:
    assert {len(each) for each in values(rows("t STRING"))} == {100}
    assert {len(each) for each in values(rows("t BINARY", fields__t__length="9"))} == {9}
    varying = rows("t STRING", fields__t__length="9", fields__t__var_len="true")
    assert {len(each) for each in values(varying)} == set(range(1, 10))


def test_lists_and_structs_have_options_of_their_parts() -> None:
    options = {
        "fields__l__length": "2",
        "fields__l__element__max": "1",
        "fields__l__element__min": "0",
        "fields__s__name__length": "4",
        "fields__s__null_rate": "0.5",
    }
    batch = rows("l ARRAY<INT>, s STRUCT<name: STRING>", **options)
    assert {tuple(each) for each in values(batch)} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    structs = batch.column("s")
    assert 60 < structs.null_count < 140
    assert {len(each["name"]) for each in structs.to_pylist() if each} == {4}


def test_a_rate_of_nulls_is_the_share_of_nulls() -> None:
    found = rows("n INT", 4000, fields__n__null_rate="0.25").column(0)
    assert 850 < found.null_count < 1150
    assert rows("n INT", fields__n__null_rate="1").column(0).null_count == 200


def test_a_sequence_has_the_type_of_its_column_and_ends_the_table() -> None:
    options = {}
    for name in "abcd":
        options |= {
            f"fields__{name}__kind": "sequence",
            f"fields__{name}__start": "5",
            f"fields__{name}__end": "60",
        }
    columns = "a INT, b STRING, c DECIMAL(5, 2), d FLOAT"
    batch = rows(columns, 2, **options)
    assert batch.to_pylist() == [
        {"a": 5, "b": "5", "c": Decimal(5), "d": 5.0},
        {"a": 6, "b": "6", "c": Decimal(6), "d": 6.0},
    ]
    made = source(columns, **options | {"fields__a__end": "14"})
    assert made.boundedness() is Boundedness.BOUNDED
    assert made._end == 9
    assert source(columns, **options, number_of_rows="3")._end == 2


def test_a_table_without_a_sequence_or_a_number_of_rows_has_no_end() -> None:
    made = source("n INT")
    assert made.boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    assert made.rate_limiter_strategy() == RateLimiterStrategy.per_second(10_000)
    made = source("n INT", rows_per_second="0.5")
    assert made.rate_limiter_strategy() == RateLimiterStrategy.per_second(0.5)


def test_names_in_options_ignore_case() -> None:
    made = source_of("userId INT", {"fields.userId.max": "3", "fields.USERID.min": "3"})
    assert values(made.make_batch(pa.array([1], pa.int64()))) == [3]


@pytest.mark.parametrize(
    ("columns", "options", "option"),
    [
        ("a INT", {"fields.a.start": "1"}, "fields.a.start"),
        ("a INT", {"fields.a.length": "1"}, "fields.a.length"),
        ("a STRING", {"fields.a.min": "1"}, "fields.a.min"),
        ("a INT", {"fields.a.kind": "sequence"}, "fields.a.start"),
        ("a DATE", {"fields.a.kind": "sequence"}, "fields.a.kind"),
        ("a INT", {"fields.a.min": "x"}, "fields.a.min"),
        ("a DECIMAL(3, 1)", {"fields.a.min": "0.25"}, "fields.a.min"),
        ("a TINYINT", {"fields.a.max": "128"}, "fields.a.max"),
        ("a INT", {"fields.a.min": "3", "fields.a.max": "2"}, "fields.a.max"),
        ("a TIMESTAMP", {"fields.a.max": "tomorrow"}, "fields.a.max"),
        ("a INT NOT NULL", {"fields.a.null-rate": "0.5"}, "fields.a.null-rate"),
        ("a INT", {"fields.a.null-rate": "2"}, "fields.a.null-rate"),
        ("a ARRAY<INT>", {"fields.a.element.null-rate": "2"}, "fields.a.element.null-rate"),
        (
            "a ARRAY<INT>",
            {f"fields.a.element.{key}": value for key, value in SEQUENCE.items()},
            "fields.a.element.kind",
        ),
        ("a INT", {"rows-per-second": "0"}, "rows-per-second"),
        ("a TIMESTAMP", {"fields.a.max-past": "800000 d"}, "fields.a.max-past"),
        (
            "a DATE",
            {"fields.a.max": "0001-01-02", "fields.a.max-past": "48 h"},
            "fields.a.max-past",
        ),
    ],
)
def test_an_invalid_option_is_named(columns: str, options: dict[str, str], option: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        source_of(columns, options)
    assert caught.value.option == option


def test_a_sequence_must_fit_its_type() -> None:
    given = {f"fields.a.{key}": value for key, value in SEQUENCE.items()}
    with pytest.raises(ConfigurationError) as caught:
        source_of("a TINYINT", given)
    assert caught.value.option == "fields.a.end"


@pytest.mark.parametrize("key", ["fields.b.min", "fields.a.minimum", "fields.a", "row"])
def test_an_unknown_option_is_named(key: str) -> None:
    with pytest.raises(UnknownOptionError) as caught:
        source_of("a INT", {key: "1"})
    assert caught.value.option == key


@pytest.mark.parametrize("columns", ["m MAP<STRING, INT>", "i INTERVAL DAY TO SECOND"])
def test_a_type_without_random_values_is_refused(columns: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be generated"):
        source_of(columns, {})


def test_a_table_needs_columns_that_can_be_generated() -> None:
    table = CatalogTable(schema=TableSchema(), options={"connector": "datagen"})
    with pytest.raises(ConfigurationError, match="needs columns"):
        DataGenTableFactory().validate(DynamicTableContext.declared("things", table))
    metadata = TableSchema((MetadataColumn("m", pa.int64(), "offset"),))
    table = CatalogTable(schema=metadata, options={"connector": "datagen"})
    with pytest.raises(ConfigurationError, match="metadata column"):
        DataGenTableFactory().validate(DynamicTableContext.declared("things", table))


def test_a_reference_is_checked_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = context("a INT", {"number-of-rows": "1${env:THINGS}"})
    DataGenTableFactory().validate(declared)
    monkeypatch.setenv("THINGS", "4")
    used = DynamicTableContext.of("things", declared.table)
    assert DataGenTableFactory().create_scan_source(used).source._end == 13


# --- print and blackhole --------------------------------------------------------------------------

CHANGES = pa.record_batch(
    {"id": [1, 2], "name": ["a", None], ROW_KIND_COLUMN: ["+U", "-D"]},
)


def written(connector: str, batch: pa.RecordBatch, **options: str) -> None:
    given = {key.replace("_", "-"): value for key, value in options.items()}
    declared, factory = context("id BIGINT", given, connector), factory_of(connector)
    factory.validate(declared)
    writer = factory.create_sink(declared).sink.create_writer(writer_context(schema=batch.schema))
    writer.write(batch)
    writer.flush()
    writer.close()


def test_a_printed_row_shows_its_kind_and_its_writer(capsys: pytest.CaptureFixture[str]) -> None:
    written("print", CHANGES)
    written("print", CHANGES.drop_columns([ROW_KIND_COLUMN]), print_identifier="late")
    assert capsys.readouterr().out.splitlines() == [
        "0> +U[1, a]",
        "0> -D[2, null]",
        "late:0> +I[1, a]",
        "late:0> +I[2, null]",
    ]
    written("print", CHANGES, standard_error="true")
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 2
    assert not captured.out


def test_a_black_hole_discards_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    written("blackhole", CHANGES)
    captured = capsys.readouterr()
    assert not captured.out + captured.err


def test_a_black_hole_has_no_options_and_no_rows() -> None:
    factory = factory_of("blackhole")
    with pytest.raises(UnknownOptionError):
        factory.validate(context("id BIGINT", {"print-identifier": "a"}, "blackhole"))
    with pytest.raises(ConnectorError, match="has no source"):
        factory.create_scan_source(context("id BIGINT", {}, "blackhole"))


def test_batches_of_large_rows_have_few_rows():
    assert source("n BIGINT, name STRING")._batch_rows == 20_000
    wide = source("a ARRAY<STRUCT<t: STRING>>", fields__a__length="5000")
    assert 1 < wide._batch_rows < 100
    batch = wide.make_batch(pa.array(range(wide._batch_rows), pa.int64()))
    assert batch.nbytes < 64 << 20
    huge = {"fields.a.length": "10000", "fields.a.element.length": "10000"}
    assert source_of("a ARRAY<BINARY>", huge)._batch_rows == 1
