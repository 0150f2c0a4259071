# SPDX-License-Identifier: Apache-2.0
"""Tests that `parse_schema` and Spark's own parser read the same schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import InvalidOptionError
from connectors_core.schema.ddl import parse_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Columns = list[dict[str, Any]]
Read = Callable[[str], Columns | None]

READ = """
A INT , b ARRAY < STRUCT < c : MAP < STRING , DECIMAL ( 10 , 2 ) > > >
a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h STRING, i BINARY, j DATE
a byte, b short, c integer, d long, e real, f dec, g numeric(5), h DECIMAL(38,38)
a TIMESTAMP, b TIMESTAMP_LTZ, c TIMESTAMP_NTZ
a VARCHAR(10), b CHAR(5) NOT NULL, c CHARACTER(5)
a INTERVAL DAY TO SECOND, b ARRAY<INTERVAL DAY TO SECOND>
a INT NOT NULL, b INT NOT NULL COMMENT 'x, y', c INT COMMENT "z", d INT COMMENT 'it\\'s'
a STRUCT<b: INT NOT NULL COMMENT 'x', c STRUCT<d: ARRAY<ARRAY<INT>>>>COMMENT 'y'
a: INT NOT NULL, b : STRUCT<c : INT>
`a b` INT, `c``d` INT, `é` INT, `` INT, 1a INT, _b INT
select INT, from INT, order INT, end INT, table INT, left INT, not INT, null INT, comment INT
date DATE, timestamp TIMESTAMP, array ARRAY<INT>, struct STRUCT<struct: INT>, interval INT
a INT -- x
a INT /* x */, b INT
""".strip().splitlines()

REFUSED = """

a
int
a FOO
a INT,
, a INT
a INT b INT
a INT; b INT
a INT DEFAULT 5
a INT NULL
a INT NOT NULL NOT NULL
a INT COMMENT 'x' NOT NULL
a INT COMMENT x
a INT COMMENT 'x
a INT /* x
a INT PRIMARY KEY
a INT UNSIGNED
a INT GENERATED ALWAYS AS (1)
a INT(5)
a INT[]
a INT4
a BOOL
a TEXT
a DOUBLE PRECISION
a CHARACTER VARYING(5)
a VARCHAR
a CHAR
a STRING(5)
a FLOAT(3)
a DECIMAL()
a DECIMAL(39)
a DECIMAL(5,6)
a DECIMAL(10,-2)
a DECIMAL(10 2)
a DECIMAL(1e1,2)
a DECIMAL(10L,2)
a DECIMAL(10,2,3)
a MAP<INT>
a ARRAY INT
a ARRAY<INT
a ARRAY<INT>>
a ARRAY<INT NOT NULL>
a INTERVAL SECOND TO DAY
a `INT`
a 'INT'
'a' INT
"a" INT
a.b INT
a-b INT
$a INT
é INT
1 INT
1e5 INT
5d INT
""".splitlines()[1:]

# Spark supports these types, at least in the newest line. Arrow or an older line does not.
SPARK_ALONE = """
a VARIANT
a VOID
a TIME(6)
a TIMESTAMP(6)
a TIMESTAMP WITHOUT TIME ZONE
a STRING COLLATE UTF8_LCASE
a STRUCT<>
a DECIMAL(0)
a INTERVAL
a INTERVAL DAY
a INTERVAL YEAR TO MONTH
a INT COMMENT 'x' 'y'
a INT, A INT
a STRUCT<b INT, B INT>
""".strip().splitlines()


def plain(kind: Any) -> Any:
    """Return a type in Spark's JSON, without comments and lengths of strings."""
    if isinstance(kind, str):
        return "string" if kind.startswith(("varchar", "char")) else kind
    if isinstance(kind, list):
        return [plain(each) for each in kind]
    if isinstance(kind, bool):
        return kind
    return {
        name: part if name == "name" else plain(part)
        for name, part in kind.items()
        if name != "metadata"
    }


@pytest.fixture(scope="module")
def read_by_spark(spark: SparkSession) -> Read:
    """Return Spark's parser. It reads `name: TYPE` only in a struct, which pyspark then builds."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    types: Any = spark._jvm.org.apache.spark.sql.types  # type: ignore[union-attr]

    def read(text: str) -> Columns | None:
        for parse, ddl in (
            (types.StructType.fromDDL, text),
            (types.DataType.fromDDL, f"struct<{text}>"),
        ):
            try:
                return plain(json.loads(parse(ddl).json())["fields"])
            except (Py4JJavaError, PySparkException):
                if ":" not in text:
                    break
        return None

    return read


def read_by_us(text: str) -> Columns | None:
    from connectors_core.spark.carriers.base import spark_schema

    try:
        return plain(spark_schema(parse_schema(text)).jsonValue()["fields"])
    except InvalidOptionError:
        return None


@pytest.mark.parametrize("text", READ)
def test_both_parsers_read_the_same_schema(read_by_spark: Read, text: str) -> None:
    columns = read_by_spark(text)
    assert columns is not None
    assert read_by_us(text) == columns


@pytest.mark.parametrize("text", REFUSED)
def test_both_parsers_refuse_the_text(read_by_spark: Read, text: str) -> None:
    assert read_by_spark(text) is None
    assert read_by_us(text) is None


@pytest.mark.parametrize("text", SPARK_ALONE)
def test_our_parser_refuses_the_text(text: str) -> None:
    assert read_by_us(text) is None


NAMES = st.sampled_from(["a", "B", "c1", "1x", "_", "`x y`", "`p``q`", "date", "from", "not"])
SIMPLE = st.sampled_from(
    [
        *(
            "boolean",
            "TinyInt",
            "short",
            "INT",
            "long",
            "float",
            "double",
            "string",
            "binary",
            "date",
        ),
        *("timestamp", "timestamp_ntz", "decimal", "decimal(12, 3)", "varchar(3)"),
        "interval day to second",
    ]
)


def columns_of(types: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    ends = st.sampled_from(["", " NOT NULL", " not null comment 'x > y'", ' COMMENT "z"'])
    column = st.tuples(NAMES, st.sampled_from([" ", ": ", "  :"]), types, ends)
    unique = st.lists(column, min_size=1, max_size=3, unique_by=lambda each: each[0].lower())
    return unique.map(lambda columns: ", ".join("".join(each) for each in columns))


TYPES = st.recursive(
    SIMPLE,
    lambda types: (
        types.map("array<{}>".format)
        | st.tuples(types, types).map(lambda pair: f"map<{pair[0]}, {pair[1]}>")
        | columns_of(types).map("struct< {}>".format)
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(text=columns_of(TYPES))
def test_both_parsers_read_any_valid_schema_the_same(read_by_spark: Read, text: str) -> None:
    assert read_by_us(text) == read_by_spark(text) is not None


NONSENSE = st.lists(
    st.sampled_from(
        [
            *("a", "b", "`c`", "int", "string", "decimal", "varchar", "array", "map", "struct"),
            *("interval", "day", "to", "second", "not", "null", "comment", "'x'", "default"),
            *("unsigned", "time zone", "10", "2", "<", ">", "(", ")", ",", ":", "-", ".", "[", "]"),
            *("::", "=", "int, ", "map<int, "),
        ]
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=150)
@given(words=NONSENSE)
def test_text_that_spark_refuses_is_refused(read_by_spark: Read, words: list[str]) -> None:
    text = "a " + " ".join(words)
    columns = read_by_us(text)
    assert columns is None or columns == read_by_spark(text)
