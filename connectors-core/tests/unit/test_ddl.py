# SPDX-License-Identifier: Apache-2.0
"""Tests schemas as text or `StructType`. `tests/spark/test_ddl_as_spark.py` compares with Spark."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.errors import InvalidOptionError
from connectors_core.schema.ddl import SCHEMA, parse_schema, type_text


def test_a_schema_has_names_types_and_nullability() -> None:
    schema = parse_schema(
        "id BIGINT NOT NULL COMMENT 'a, b', `a``b c` DECIMAL(12, 3), date DATE, from: timestamp,\n"
        "v VARCHAR(10), i INTERVAL DAY TO SECOND, /* two */ "
        "l ARRAY<STRUCT<order: INT NOT NULL, y MAP<STRING, TIMESTAMP_NTZ>>> -- the end"
    )
    item = pa.struct(
        [
            pa.field("order", pa.int32(), nullable=False),
            ("y", pa.map_(pa.string(), pa.timestamp("us"))),
        ]
    )
    assert schema == pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("a`b c", pa.decimal128(12, 3)),
            ("date", pa.date32()),
            ("from", pa.timestamp("us", tz="UTC")),
            ("v", pa.string()),
            ("i", pa.duration("us")),
            ("l", pa.list_(item)),
        ]
    )


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("", "the end at character 1", "the name of a column"),
        ("a INT,", "the end at character 7", "the name of a column"),
        ("1 INT", "'1 INT' at character 1", "the name of a column"),
        ("a", "the end at character 2", "a Spark SQL type"),
        ("a FOO", "'FOO' at character 3", "a Spark SQL type"),
        ("a VARIANT", "'VARIANT' at character 3", "that Arrow supports"),
        ("a INT b INT", "'b INT' at character 7", "a comma"),
        ("a INT DEFAULT 5", "'DEFAULT 5' at character 7", "NOT NULL"),
        ("a ARRAY<INT", "the end at character 12", "'>'"),
        ("a MAP<INT>", "MAP<INT> for the column at character 1", "a Spark SQL type"),
        ("a DECIMAL(39)", "DECIMAL(39) for the column at character 1", "a Spark SQL type"),
        ("a INT COMMENT 'x", "the end at character 17", "quoted text"),
        ("a INT, A INT", "'A INT' at character 8", "a name other than 'A'"),
        ("a STRUCT<b INT, B INT>", "'B INT>' at character 17", "a name other than 'B'"),
    ],
)
def test_an_error_shows_its_position_and_the_expected_token(
    text: str, found: str, expected: str
) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        parse_schema(text)
    assert str(refused.value.found).endswith(found)
    assert expected in str(refused.value.expected)


NAMES = st.text("aB_` é1", min_size=1, max_size=4)
TYPES = st.recursive(
    st.sampled_from(
        [
            *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32()),
            *(pa.float64(), pa.string(), pa.binary(), pa.date32(), pa.decimal128(12, 3)),
            *(pa.duration("us"), pa.timestamp("us"), pa.timestamp("us", "UTC")),
        ]
    ),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(
            st.tuples(NAMES, inner, st.booleans()),
            min_size=1,
            max_size=3,
            unique_by=lambda each: each[0].lower(),
        ).map(lambda fields: pa.struct([pa.field(*each) for each in fields])),
    ),
    max_leaves=5,
)


@given(TYPES)
def test_the_text_of_a_type_is_read_as_the_same_type(kind: pa.DataType) -> None:
    assert parse_schema(f"c {type_text(kind, nullability=True)}") == pa.schema([("c", kind)])
    assert "NOT NULL" not in type_text(kind)


@given(st.text(max_size=20) | st.text("ab int,<>()`'\"-/*;:1", max_size=30))
def test_arbitrary_text_is_a_schema_or_is_refused(text: str) -> None:
    with suppress(InvalidOptionError):
        assert len(parse_schema(text))


def test_a_struct_type_is_a_schema() -> None:
    from pyspark.sql import types as T

    inner = T.StructType([T.StructField("x y", T.DecimalType(8, 2), False)])
    given = T.StructType(
        [
            T.StructField("a`b", T.ArrayType(inner)),
            T.StructField("m", T.MapType(T.StringType(), T.TimestampType()), False),
            T.StructField("i", T.DayTimeIntervalType()),
        ]
    )
    assert SCHEMA.parse(given) == parse_schema(
        "`a``b` ARRAY<STRUCT<`x y` DECIMAL(8, 2) NOT NULL>>, "
        "m MAP<STRING, TIMESTAMP> NOT NULL, i INTERVAL DAY TO SECOND"
    )


def test_a_struct_type_with_a_type_that_arrow_lacks_is_refused() -> None:
    from pyspark.sql import types as T

    with pytest.raises(ValueError, match=r"a Spark SQL type .* not 'void'"):
        SCHEMA.parse(T.StructType([T.StructField("n", T.NullType())]))


def test_sqlglot_and_pyspark_are_imported_only_when_needed() -> None:
    program = """
import sys
from connectors_core.schema.ddl import SCHEMA
import pyarrow as pa
SCHEMA.parse(pa.schema([("a", pa.int64())]))
assert not {"sqlglot", "pyspark"} & set(sys.modules)
SCHEMA.parse("a INT")
assert "pyspark" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
