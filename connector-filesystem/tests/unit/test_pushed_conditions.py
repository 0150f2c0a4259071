# SPDX-License-Identifier: Apache-2.0
"""Tests that conditions and projections never change the rows of a query."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_files import rows_of, table_of

from connector_filesystem import FileSource
from connectors_core.errors import FatalError
from connectors_core.source import And, Comparison, IsIn, IsNull, Not, Or, StartsWith, ValueRange

INSTANT = pa.timestamp("us", tz="UTC")
# Numbers as Arrow stores them, because Python has no dates after the year 9999.
VALUES = {
    pa.int64(): st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1]),
    pa.string(): st.sampled_from(["", "a", "ab", "b", "é", "\U0001f600", "z" * 80]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.sampled_from([-719_163, -141_428, 0, 1, 2_932_897, -(2**31), 2**31 - 1]),
    pa.timestamp("us"): st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), -62_135_596_800_000_000]),
    INSTANT: st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), -62_135_596_800_000_000]),
    pa.decimal128(4, 2): st.sampled_from([Decimal("-99.99"), Decimal(0), Decimal("0.01")]),
    pa.float64(): st.sampled_from([math.nan, -math.inf, -0.0, 0.0, 1.5, math.inf]),
}
LITERALS = {
    pa.date32(): st.sampled_from([date(1, 1, 1), date(1582, 10, 4), date(1970, 1, 1), date.max]),
    pa.timestamp("us"): st.sampled_from([datetime(1970, 1, 1), datetime.max]),
    INSTANT: st.sampled_from([datetime(1970, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]),
}
NAMES = ["a", "b", "a.b", "a.b.c", "l", "l.list.element", "l.element", "m.key_value.key", ".", " "]
FLAT = [*VALUES]
names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True)
flat = st.sampled_from(FLAT)


@st.composite
def types(draw, depth=2):
    kind = draw(st.sampled_from(["flat", "flat", "struct", "list", "map"]))
    if kind == "flat" or not depth:
        return draw(flat if depth == 2 else flat.filter(lambda each: each != pa.float64()))
    inner = types(depth - 1)
    if kind == "struct":
        chosen = draw(st.lists(st.sampled_from(["b", "b.c", "c"]), min_size=1, unique=True))
        return pa.struct([pa.field(name, draw(inner)) for name in chosen])
    return pa.list_(draw(inner)) if kind == "list" else pa.map_(pa.string(), draw(inner))


def values(kind):
    if pa.types.is_struct(kind):
        fields = st.fixed_dictionaries({each.name: values(each.type) for each in kind})
    elif pa.types.is_map(kind):
        fields = st.lists(st.tuples(st.sampled_from("xy"), values(kind.item_type)), max_size=2)
    elif pa.types.is_list(kind):
        fields = st.lists(values(kind.value_type), max_size=2)
    else:
        fields = VALUES[kind]
    return st.none() | fields


@st.composite
def tables(draw):
    schema = pa.schema([pa.field(name, draw(types())) for name in draw(names)])
    rows = draw(st.integers(1, 8))
    columns = [
        pa.array(draw(st.lists(values(each.type), min_size=rows, max_size=rows)), each.type)
        for each in schema
    ]
    return pa.table(columns, schema=schema)


def leaves(schema):
    usable = [each for each in schema if each.type in VALUES]

    def of_field(field):
        path = st.just((field.name,))
        literals = LITERALS.get(field.type, VALUES[field.type])
        kinds = [
            st.builds(IsNull, path),
            st.builds(lambda at: Not(IsNull(at)), path),
            st.builds(
                Comparison, path, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), literals
            ),
            st.builds(lambda at, value: Not(Comparison(at, "=", value)), path, literals),
            st.builds(IsIn, path, st.lists(literals, min_size=1, max_size=3).map(tuple)),
        ]
        if pa.types.is_string(field.type):
            kinds.append(st.builds(StartsWith, path, st.sampled_from(["", "a", "é", "zz"])))
        return st.one_of(kinds)

    return st.sampled_from(usable).flatmap(of_field) if usable else st.nothing()


def conditions(schema):
    several = st.lists(leaves(schema), min_size=1, max_size=3).map(tuple)
    return leaves(schema) | st.builds(And, several) | st.builds(Or, several)


def matching(table, condition):
    batch = table.combine_chunks().to_batches()[0] if table.num_rows else None
    if batch is None:
        return table
    return pa.Table.from_batches([batch.filter(condition.mask(batch))])


def plain(table):
    """Return a table whose equality holds for NaN too, which occurs in flat columns only."""
    columns = [column.combine_chunks() for column in table.columns]
    return pa.table(
        [each.view(pa.int64()) if pa.types.is_floating(each.type) else each for each in columns],
        names=table.schema.names,
    )


def written(table, folder):
    path = folder / "rows.parquet"
    pq.write_table(table, path, row_group_size=2)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@settings(max_examples=100)
@given(st.data())
def test_a_condition_returns_the_rows_that_arrow_selects(folder, data):
    table = data.draw(tables())
    path = written(table, folder)
    source = FileSource(path, schema=table.schema)
    if any(each.type in VALUES for each in table.schema):
        condition = data.draw(conditions(table.schema))
        pushed, used = source.apply_filters([condition])
        assert list(used) == [condition]
        assert plain(matching(table_of(pushed), condition)) == plain(matching(table, condition))
    chosen = [name for name in table.schema.names if data.draw(st.booleans())]
    if chosen:
        projected = source.apply_projection([(name,) for name in chosen])
        assert plain(table_of(projected)) == plain(table.select(chosen))


@given(flat.filter(lambda kind: not pa.types.is_floating(kind)), st.data())
def test_the_range_of_a_constant_column_keeps_every_row_that_matches(kind, data):
    schema = pa.schema([("a.b", kind)])
    condition = data.draw(conditions(schema))
    value = data.draw(st.none() | LITERALS.get(kind, VALUES[kind]))
    batch = pa.record_batch([pa.array([value], kind)], schema=schema)
    if condition.mask(batch).to_pylist() == [True]:
        assert condition.may_match({("a.b",): ValueRange.of(value)})


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (pa.array([{"b": 9}] * 2, pa.struct([("b", pa.int64())])), "a.b"),
        (pa.array([[9]] * 2, pa.list_(pa.int64())), "a.list.element"),
        (pa.array([[("k", 9)]] * 2, pa.map_(pa.string(), pa.int64())), "a.key_value.value"),
    ],
)
def test_a_name_with_dots_is_not_the_field_of_another_column(tmp_path, other, name):
    for names in (["a", name], [name, "a"]):
        columns = {"a": other, name: pa.array([3, 4])}
        path = written(pa.table({each: columns[each] for each in names}), tmp_path)
        for operator, value, left in (("=", 3, 1), ("=", 9, 0)):
            condition = Comparison((name,), operator, value)
            source, _ = FileSource(path).apply_filters([condition])
            assert matching(table_of(source), condition).num_rows == left
        source, _ = FileSource(path).apply_filters([Comparison((name,), "=", 9)])
        assert table_of(source).num_rows == 0  # the statistics are those of this column


def test_a_column_that_the_file_has_twice_is_an_error(tmp_path):
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(FatalError, match=r"a \(twice\)"):
        rows_of(FileSource(written(table, tmp_path), schema="a BIGINT"))


def test_a_field_that_a_struct_has_twice_is_an_error(tmp_path):
    kind = pa.struct([("x", pa.int64()), ("x", pa.int64())])
    values = [pa.array([1]), pa.array([2])]
    column = pa.StructArray.from_arrays(values, fields=list(kind))
    source = FileSource(written(pa.table({"a": column}), tmp_path), schema="a STRUCT<x: BIGINT>")
    with pytest.raises(FatalError, match="other type a"):
        rows_of(source)


def test_nan_is_not_lost_by_statistics_that_lack_it(tmp_path):
    path = written(pa.table({"x": [1.0, math.nan]}), tmp_path)
    source, _ = FileSource(path).apply_filters([Comparison(("x",), ">", 2.0)])
    assert pc.is_nan(table_of(source).column("x")).to_pylist() == [False, True]
