# SPDX-License-Identifier: Apache-2.0
"""Tests conditions that are pushed down: they never exclude a row that SQL keeps."""

from __future__ import annotations

import operator
import pickle

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.source import And, Comparison, IsIn, IsNull, Not, Or, StartsWith, ValueRange

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("s", pa.string()),
        ("nested", pa.struct([("n", pa.int64()), ("s", pa.string())])),
    ]
)
OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

numbers = st.integers(-2, 2)
texts = st.sampled_from(["", "a", "ab", "b", "é", "\U0001f600"])
values = {"n": numbers, "s": texts}
fields = st.sampled_from([("n",), ("s",), ("nested", "n"), ("nested", "s")])


def value_for(field):
    return values[field[-1]]


leaves = fields.flatmap(
    lambda field: st.one_of(
        st.builds(Comparison, st.just(field), st.sampled_from([*OPERATORS]), value_for(field)),
        st.builds(IsIn, st.just(field), st.lists(value_for(field), min_size=1).map(tuple)),
        st.just(IsNull(field)),
        *([st.builds(StartsWith, st.just(field), texts)] if field[-1] == "s" else []),
    )
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
structs = st.none() | st.fixed_dictionaries({"n": st.none() | numbers, "s": st.none() | texts})
rows = st.lists(
    st.fixed_dictionaries({"n": st.none() | numbers, "s": st.none() | texts, "nested": structs}),
    max_size=8,
)


def value_in(row, field):
    for name in field:
        row = None if row is None else row[name]
    return row


def in_sql(predicate, row):
    """Evaluate a condition with the three values of SQL."""
    match predicate:
        case Not():
            inner = in_sql(predicate.condition, row)
            return None if inner is None else not inner
        case And():
            found = [in_sql(each, row) for each in predicate.conditions]
            return False if False in found else None if None in found else True
        case Or():
            found = [in_sql(each, row) for each in predicate.conditions]
            return True if True in found else None if None in found else False
    value = value_in(row, predicate.field)
    if isinstance(predicate, IsNull):
        return value is None
    if value is None:
        return None
    match predicate:
        case Comparison():
            return OPERATORS[predicate.operator](value, predicate.value)
        case IsIn():
            return value in predicate.values
        case StartsWith():
            return value.startswith(predicate.prefix)
    raise AssertionError(predicate)


def ranges_of(some_rows):
    found = {}
    for field in [("n",), ("s",), ("nested", "n"), ("nested", "s")]:
        present = [value_in(row, field) for row in some_rows]
        known = [value for value in present if value is not None]
        found[field] = ValueRange(
            low=min(known, default=None),
            high=max(known, default=None),
            has_nulls=None in present,
            has_values=bool(known),
        )
    return found


@given(predicates, rows)
def test_a_condition_on_columns_is_that_of_sql(predicate, some_rows):
    batch = pa.RecordBatch.from_pylist(some_rows, schema=SCHEMA)
    assert predicate.mask(batch).to_pylist() == [in_sql(predicate, row) for row in some_rows]


@given(predicates, rows.filter(bool))
def test_a_range_with_a_matching_row_may_match(predicate, some_rows):
    if any(in_sql(predicate, row) for row in some_rows):
        assert predicate.may_match(ranges_of(some_rows))
        assert predicate.may_match({})


@given(leaves, rows.filter(bool))
def test_the_range_of_a_constant_decides_exactly(predicate, some_rows):
    row = some_rows[0]
    constants = {predicate.field: ValueRange.of(value_in(row, predicate.field))}
    assert predicate.may_match(constants) == bool(in_sql(predicate, row))


@given(predicates)
def test_a_condition_travels_to_executors(predicate):
    assert pickle.loads(pickle.dumps(predicate)) == predicate


def test_a_condition_reads_like_sql():
    shown = And(
        (
            Not(IsNull(("a", "b"))),
            Or((Comparison(("n",), ">=", 3), IsIn(("s",), ("x", "it's")))),
            Not(StartsWith(("s.t", "u"), "y")),
        )
    )
    assert str(shown) == (
        "(a.b IS NOT NULL AND (n >= 3 OR s IN ('x', 'it''s')) AND NOT `s.t`.u STARTS WITH 'y')"
    )
    assert shown.fields() == {("a", "b"), ("n",), ("s",), ("s.t", "u")}
