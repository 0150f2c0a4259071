# SPDX-License-Identifier: Apache-2.0
"""Tests that statements become the values that they mean, with texts of queries unchanged."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from sqlglot import exp

from connectors_core.errors import ConfigurationError, InvalidOptionError, UnsupportedError
from connectors_core.table import (
    CatalogTable,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    TableSchema,
    WatermarkSpec,
)
from connectors_core.table.references import resolved
from connectors_core.table.sql import SqlError, parse_query, parse_script, parse_statement
from connectors_core.table.sql import statements as sql
from connectors_core.table.sql.parsing import is_complete, parse_create_table
from connectors_core.table.sql.writing import create_table_text

UTC = pa.timestamp("us", tz="UTC")


def test_a_table_has_the_columns_the_key_the_watermark_and_the_options_of_its_definition():
    statement = parse_statement(
        """
        CREATE TABLE IF NOT EXISTS shop.orders (
          id BIGINT NOT NULL COMMENT 'the id',
          `time` TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
          topic STRING METADATA,
          items ARRAY<STRUCT<name: STRING, price DECIMAL(10, 2)>>,
          cost AS price * quantity,
          seen AS PROCTIME(),
          WATERMARK FOR `time` AS `time` - INTERVAL '1.5' SECOND,
          PRIMARY KEY (id) NOT ENFORCED
        ) COMMENT 'Orders; all of them' PARTITIONED BY (id)
        WITH ('connector' = 'kafka', 'topic' = 'a;b')
        """
    )
    item = pa.struct([("name", pa.string()), ("price", pa.decimal128(10, 2))])
    assert statement == sql.CreateTable(
        name=("shop", "orders"),
        if_not_exists=True,
        table=CatalogTable(
            schema=TableSchema(
                columns=(
                    PhysicalColumn("id", pa.int64(), nullable=False, comment="the id"),
                    MetadataColumn("time", UTC, "timestamp", virtual=True),
                    MetadataColumn("topic", pa.string(), "topic"),
                    PhysicalColumn("items", pa.list_(item)),
                    ComputedColumn("cost", "price * quantity"),
                    ComputedColumn("seen", "current_timestamp()"),
                ),
                primary_key=("id",),
                watermark=WatermarkSpec("time", timedelta(seconds=1.5)),
            ),
            options={"connector": "kafka", "topic": "a;b"},
            partition_keys=("id",),
            comment="Orders; all of them",
        ),
    )


def test_a_definition_is_written_as_the_statement_that_it_is_read_from():
    inner = pa.struct([pa.field("a b", pa.int32(), nullable=False), ("t", pa.timestamp("us"))])
    table = CatalogTable(
        schema=TableSchema(
            columns=(
                PhysicalColumn("i`d", pa.int64(), nullable=False, comment="it's \\ a; key"),
                PhysicalColumn("items", pa.list_(inner)),
                MetadataColumn("at", UTC, "time stamp", virtual=True),
                MetadataColumn("p", pa.int32(), "partition", comment="c"),
                ComputedColumn("cost", "price * (1 + quantity)", comment="d"),
            ),
            primary_key=("i`d",),
            watermark=WatermarkSpec("at", timedelta(seconds=1.5)),
        ),
        options={"connector": "kafka", "topic": "a'b\\n\n", "x": "${env:X}"},
        partition_keys=("items",),
        comment="two\nlines",
    )
    text = create_table_text(("c", "d", "t t"), table)
    assert parse_statement(text) == sql.CreateTable(name=("c", "d", "t t"), table=table)
    bare = CatalogTable(schema=TableSchema(), options={"connector": "x"})
    assert parse_statement(create_table_text(("t",), bare)) == sql.CreateTable(
        name=("t",), table=bare
    )


@pytest.mark.parametrize(
    ("text", "creates"),
    [
        ("CREATE TABLE es.d.t (id BIGINT, PRIMARY KEY (id) NOT ENFORCED)", ("es", "d", "t")),
        ("CREATE TABLE IF NOT EXISTS t AS SELECT 1", ("t",)),
        ("CREATE TABLE es.d.t (id BIGINT) USING parquet", None),
        ("CREATE OR REPLACE TABLE t (id BIGINT)", None),
    ],
)
def test_a_table_without_options_is_one_of_spark_unless_a_catalog_has_it(text, creates):
    assert parse_statement(text) == sql.SparkStatement(text=text, creates=creates)
    if creates is not None:
        found = parse_create_table(text)
        assert (found.name, found.table.options) == (creates, {})


def test_options_can_have_the_form_of_spark():
    statement = parse_statement(
        "CREATE TABLE t (id INT PRIMARY KEY) USING connector_kafka "
        "OPTIONS (topic 'a', bootstrap.servers 'b:9092', 'scan.startup.mode' = 'c')"
    )
    assert isinstance(statement, sql.CreateTable)
    assert statement.table.options == {
        "connector": "kafka",
        "topic": "a",
        "bootstrap.servers": "b:9092",
        "scan.startup.mode": "c",
    }
    assert statement.table.schema.primary_key == ("id",)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (id BIGINT) USING parquet",
        "CREATE TEMPORARY FUNCTION f AS 'a.B'",
        "ALTER TABLE t ADD COLUMN x INT",
        "CACHE TABLE t",
        "SHOW FUNCTIONS LIKE 'a*'",
        "CREATE FUNCTION f AS 'a.B' USING JAR 'b.jar'",
        "SELEC 1",
    ],
)
def test_statements_of_spark_stay_as_they_are(text):
    assert parse_statement(f"  {text} ; ") == sql.SparkStatement(text=text)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("SHOW TABLES", sql.Show(kind="TABLES")),
        ("show views in d", sql.Show(kind="VIEWS", parent=("d",))),
        ("SHOW DATABASES FROM c", sql.Show(kind="DATABASES", parent=("c",))),
        ("SHOW CURRENT CATALOG", sql.Show(kind="CURRENT CATALOG")),
        ("show current database", sql.Show(kind="CURRENT DATABASE")),
        ("SHOW JOBS", sql.Show(kind="JOBS")),
        ("DESCRIBE JOB 'a-1'", sql.DescribeJob(job="a-1")),
        ("DESC job", sql.Describe(name=("job",))),
        ("STOP JOB 'a-1'", sql.StopJob(job="a-1")),
        ("SHOW CREATE TABLE d.t", sql.ShowCreate(name=("d", "t"))),
        ("DESC EXTENDED d.t", sql.Describe(name=("d", "t"))),
        ("DROP TABLE IF EXISTS d.t", sql.Drop(kind="TABLE", names=(("d", "t"),), if_exists=True)),
        ("DROP DATABASE d CASCADE", sql.Drop(kind="DATABASE", names=(("d",),), cascade=True)),
        ("USE d", sql.Use(name=("d",))),
        ("USE CATALOG c", sql.Use(name=("c",), is_catalog=True)),
        ("SHOW CATALOGS", sql.Show(kind="CATALOGS")),
        ("DROP CATALOG IF EXISTS c", sql.Drop(kind="CATALOG", names=(("c",),), if_exists=True)),
        (
            "CREATE CATALOG IF NOT EXISTS c COMMENT 'x' WITH ('type' = 'kafka', 'a' = 'b')",
            sql.CreateCatalog(
                name="c",
                options={"type": "kafka", "a": "b"},
                comment="x",
                if_not_exists=True,
            ),
        ),
        ("SET", sql.SetOption()),
        ("SET 'a.b' = 'c = d'", sql.SetOption(key="a.b", value="c = d")),
        ("SET a.b", sql.SetOption(key="a.b")),
        ("SET spark.x = 3", sql.SparkStatement(text="SET spark.x=3")),
        ("RESET 'a.b'", sql.Reset(key="a.b")),
        ("ALTER TABLE t SET ('a' = 'b')", sql.AlterTable(name=("t",), set_options={"a": "b"})),
        ("ALTER TABLE t RESET ('a', 'b')", sql.AlterTable(name=("t",), reset_options=("a", "b"))),
        ("ALTER TABLE d.t RENAME TO u", sql.AlterTable(name=("d", "t"), new_name=("u",))),
        ("EXPLAIN SELECT 1", sql.Explain(statement=sql.Query(text="SELECT 1"))),
    ],
)
def test_each_statement_has_its_parts(text, statement):
    assert parse_statement(text) == statement


@pytest.mark.parametrize(
    ("text", "query", "parts"),
    [
        ("INSERT INTO t SELECT  a /* b */ FROM x", "SELECT  a /* b */ FROM x", {}),
        ("INSERT INTO TABLE t (SELECT 1)", "(SELECT 1)", {}),
        ("INSERT INTO t (a, b) VALUES (1, ';')", "VALUES (1, ';')", {"columns": ("a", "b")}),
        ("INSERT OVERWRITE t SELECT 1", "SELECT 1", {"overwrite": True}),
        ("INSERT INTO t PARTITION (p = 1, q) SELECT 2", "SELECT 2", {"partition": {"p": "1"}}),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", None, {}),
    ],
)
def test_an_insert_has_the_text_of_its_query(text, query, parts):
    expected = query or "WITH a AS (SELECT 1) SELECT * FROM a"
    assert parse_statement(text) == sql.Insert(target=("t",), query=expected, **parts)


@pytest.mark.parametrize(
    ("text", "query", "assigned"),
    [
        ("DELETE FROM t", "SELECT * FROM t", ()),
        (
            "delete from d.t AS x -- some\n where x.a = ';' and b in (1, 2)",
            "SELECT * FROM d.t AS x WHERE x.a = ';' and b in (1, 2)",
            (),
        ),
        (
            "UPDATE t SET a = a + 1, `b` = coalesce(b, 'x, WHERE') WHERE c > 1",
            "SELECT *, (a + 1) AS `_connectors_value_0`, "
            "(coalesce(b, 'x, WHERE')) AS `_connectors_value_1` FROM t WHERE c > 1",
            ("a", "b"),
        ),
        ("UPDATE t x SET a = 1", "SELECT *, (1) AS `_connectors_value_0` FROM t x", ("a",)),
    ],
)
def test_a_change_of_rows_has_a_query_for_them_and_their_new_values(text, query, assigned):
    target = ("d", "t") if "d.t" in text else ("t",)
    expected = sql.ChangeRows(target=target, query=query, assigned=assigned)
    assert parse_statement(text) == expected
    assert expected.is_delete is text.lower().startswith("delete")
    assert parse_statement(f"EXPLAIN {text}") == sql.Explain(statement=expected)


def test_an_update_of_a_nested_field_is_left_to_spark():
    text = "UPDATE t SET a.b = 1"
    assert parse_statement(text) == sql.SparkStatement(text=text)


@pytest.mark.parametrize(
    "text",
    [
        "EXECUTE STATEMENT SET BEGIN {} END",
        "BEGIN STATEMENT SET; {} END;",
    ],
)
def test_a_statement_set_has_inserts_whose_cases_end_too(text):
    case = "SELECT CASE WHEN true THEN 1 END"
    script = text.format(f"INSERT INTO a {case}; INSERT INTO b SELECT 2;") + "; SELECT 3"
    found = parse_script(script)
    inserts = (
        sql.Insert(target=("a",), query=case),
        sql.Insert(target=("b",), query="SELECT 2"),
    )
    assert found == [sql.StatementSet(inserts=inserts), sql.Query(text="SELECT 3")]


@pytest.mark.parametrize(
    ("text", "options", "like_options"),
    [
        ("CREATE TABLE t LIKE s", {}, True),
        ("CREATE TABLE t LIKE s (INCLUDING ALL) WITH ('a' = 'b')", {"a": "b"}, True),
        ("CREATE TABLE t WITH ('a' = 'b') LIKE s", {"a": "b"}, True),
        ("CREATE TABLE t WITH ('a' = 'b') LIKE s (EXCLUDING OPTIONS)", {"a": "b"}, False),
    ],
)
def test_a_table_can_extend_another(text, options, like_options):
    statement = parse_statement(text)
    assert isinstance(statement, sql.CreateTable)
    assert (statement.like, statement.table.options) == (("s",), options)
    assert statement.like_options is like_options


def test_a_table_and_a_view_can_have_a_query():
    table = parse_statement("CREATE TABLE t WITH ('connector' = 'x') AS SELECT a AS b FROM c")
    view = parse_statement("CREATE OR REPLACE VIEW v (a) AS WITH x AS (SELECT 1) SELECT * FROM x")
    assert isinstance(table, sql.CreateTable)
    assert table.query == "SELECT a AS b FROM c"
    assert isinstance(view, sql.CreateView)
    assert (view.view.query, view.view.columns) == ("WITH x AS (SELECT 1) SELECT * FROM x", ("a",))
    assert view.replace


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("a ROW<x INT, y BYTES>", pa.struct([("x", pa.int32()), ("y", pa.binary())])),
        ("a TIMESTAMP_LTZ(3)", UTC),
        ("a TIMESTAMP_NTZ", pa.timestamp("us")),
        ("a ARRAY<ARRAY<INT>>", pa.list_(pa.list_(pa.int32()))),
        ("a MAP<STRING, DECIMAL(10, 2)> NOT NULL", pa.map_(pa.string(), pa.decimal128(10, 2))),
        ("watermark STRING", pa.string()),
        ("`primary` INT COMMENT 'like (x)'", pa.int32()),
    ],
)
def test_types_are_those_of_spark_and_some_of_flink(column, kind):
    options = "WITH ('connector' = 'x')"
    statement = parse_statement(f"CREATE TABLE t ({column}, b DECIMAL(9, 3)) {options}")
    assert isinstance(statement, sql.CreateTable)
    found = [(each.name, each.type) for each in statement.table.schema.columns]
    assert found == [(column.split()[0].strip("`"), kind), ("b", pa.decimal128(9, 3))]


@pytest.mark.parametrize(
    ("expression", "comment"),
    [
        ("',' || a", None),
        ("a || ')' || 'comment'", None),
        ("comment || 'x'", None),
        ("coalesce(a, ',') LIKE ('x%')", "the text, as it is"),
        ("CASE WHEN a > 1 THEN 'x' END", None),
    ],
)
def test_a_computed_column_has_the_text_of_its_expression(expression, comment):
    told = f" COMMENT '{comment}'" if comment else ""
    statement = parse_statement(
        f"CREATE TABLE t (comment STRING, w AS {expression}{told}) WITH ('connector' = 'x')"
    )
    assert isinstance(statement, sql.CreateTable)
    assert statement.table.schema.columns[1] == ComputedColumn("w", expression, comment)


def test_a_quote_in_an_option_is_written_twice():
    statement = parse_statement("ALTER TABLE t SET ('it''s' = 'a''b', 'c' = 'true')")
    assert statement == sql.AlterTable(name=("t",), set_options={"it's": "a'b", "c": "true"})


@pytest.mark.parametrize(
    ("text", "target", "query"),
    [
        ("INSERT INTO db.`table` SELECT 1", ("db", "table"), "SELECT 1"),
        ("INSERT INTO t (`select`, b) SELECT 1, 2", ("t",), "SELECT 1, 2"),
        ("INSERT INTO t SELECT a AS insert FROM s", ("t",), "SELECT a AS insert FROM s"),
        ("INSERT INTO t TABLE s", ("t",), "SELECT * FROM s"),
        ("INSERT INTO t FROM s SELECT a", ("t",), "FROM s SELECT a"),
    ],
)
def test_names_can_be_those_of_keywords(text, target, query):
    statement = parse_statement(text)
    assert isinstance(statement, sql.Insert)
    assert (statement.target, statement.query) == (target, query)


@pytest.mark.parametrize("query", ["SELECT `end` FROM s", "SELECT 'case'", "SELECT s.end FROM s"])
@pytest.mark.parametrize("explain", ["", "EXPLAIN ", "EXPLAIN PLAN FOR "])
def test_a_statement_set_ends_with_the_keyword(query, explain):
    inserts = f"BEGIN INSERT INTO t {query}; INSERT INTO u SELECT 1; END"
    first, second = parse_script(f"{explain}EXECUTE STATEMENT SET {inserts}; SELECT 2")
    found = first.statement if isinstance(first, sql.Explain) else first
    assert isinstance(found, sql.StatementSet)
    assert [each.query for each in found.inserts] == [query, "SELECT 1"]
    assert isinstance(first, sql.Explain) == bool(explain)
    assert second == sql.Query(text="SELECT 2")


@pytest.mark.parametrize(
    "text",
    [
        "SET TIME ZONE 'America/New_York'",
        "SET -v",
        "DESCRIBE FUNCTION EXTENDED abs",
        "DESCRIBE FUNCTION !",
        "SHOW TABLES LIKE 'x'",
        "SHOW TABLES IN d LIKE 'x'",
        "CREATE TEMPORARY VIEW v USING parquet",
        "CREATE TABLE t USING parquet AS SELECT 'a' LIKE 'b'",
        "MERGE INTO t USING s ON a = b WHEN NOT MATCHED THEN INSERT *",
        "DROP TABLE t PURGE",
        "EXPLAIN CACHE TABLE t",
    ],
)
def test_other_statements_are_those_of_spark(text):
    assert parse_statement(text) == sql.SparkStatement(text=text)
    assert text not in repr(parse_statement(text))


def test_reset_is_the_opposite_of_set():
    for key in ("'execution.runtime-mode'", "pipeline.name"):
        plain = key.strip("'")
        assert parse_statement(f"SET {key} = batch") == sql.SetOption(key=plain, value="batch")
        assert parse_statement(f"RESET {key}") == sql.Reset(key=plain)
    assert parse_statement("RESET 'spark.x'") == sql.SparkStatement(text="RESET spark.x")


def test_hints_with_options_are_refused():
    with pytest.raises(SqlError, match="hint"):
        parse_query("SELECT * FROM s /*+ OPTIONS('scan.startup.mode'='earliest-offset') */")


@pytest.mark.parametrize(
    ("query", "where"),
    [("SELECT 1 FROM", "line 1"), ("SELECT\n a b c", "line 2"), ("SELECT 1; SELECT 2", "not one")],
)
def test_a_wrong_query_has_a_place(query, where):
    with pytest.raises(SqlError, match=where):
        parse_query(query)


def test_values_of_options_can_be_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("p w\n")
    monkeypatch.setenv("USER_OF_TEST", "u")
    found = resolved({"a": "${env:USER_OF_TEST}-${file:%s}" % (tmp_path / "secret"), "b": "$c"})
    assert found == {"a": "u-p w", "b": "$c"}
    (tmp_path / "binary").write_bytes(b"\xff")
    for value in (
        "${env:MISSING_OF_TEST}",
        f"${{file:{tmp_path}/missing}}",
        f"${{file:{tmp_path}/binary}}",
    ):
        with pytest.raises(InvalidOptionError, match="cannot be read"):
            resolved({"a": value})


def test_an_interval_that_is_too_long_is_wrong():
    late = "WATERMARK FOR a AS a - INTERVAL '99999999999' DAY"
    with pytest.raises(SqlError, match="cannot be computed"):
        parse_statement(f"CREATE TABLE t (a TIMESTAMP, {late}) WITH ('connector' = 'x')")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INT) WITH ('password' 'canary-9')",
        "CREATE TABLE t WITH ('password' = 'canary-9' 'x' = 'y')",  # pragma: allowlist secret
        "CREATE CATALOG c WITH ('password' = 'canary-9', 'x')",  # pragma: allowlist secret
        "ALTER TABLE t SET ('x', 'password' = 'canary-9')",  # pragma: allowlist secret
        "CREATE TABLE t (a INT) WITH ('password' = 'canary-9",
    ],
)
def test_an_error_shows_no_value_of_an_option(text):
    with pytest.raises(SqlError) as error:
        parse_statement(text)
    shown = "".join(traceback.format_exception(error.value))
    assert "canary-9" not in shown.replace(text, "")


@pytest.mark.parametrize(
    ("text", "where", "kind"),
    [
        ("SELECT 'a", "line 1, column 10", SqlError),
        ("SELECT 1;\nINSERT INTO t", "line 2, column 14", SqlError),
        ("CREATE TABLE t (\n  a BIGINT,\n  b FOO) WITH ('connector' = 'x')", "line 3", SqlError),
        (
            "CREATE TABLE t (a INT,\n WATERMARK FOR a AS a + 1) WITH ('connector' = 'x')",
            "line 2, column 21",
            SqlError,
        ),
        ("BEGIN STATEMENT SET; SELECT 1; END", "line 1, column 22", SqlError),
        ("BEGIN STATEMENT SET; INSERT INTO a SELECT 1", "line 1, column 44", SqlError),
        ("CREATE TABLE t LIKE s (EXCLUDING ALL)", "line 1, column 23", SqlError),
        ("CREATE TABLE t (\n a JSON) WITH ('connector' = 'x')", "JSON' in line 2", SqlError),
        ("CREATE TABLE t (a INT, A INT) WITH ('connector' = 'x')", "column 24", SqlError),
        ("CREATE TABLE t (a INT) PARTITIONED BY (b) WITH ('c' = 'x')", "column 39", SqlError),
        ("CREATE TABLE t (a INT) CLUSTERED BY (a) WITH ('c' = 'x')", "column 24", SqlError),
        ("CREATE TABLE t (a TIME(3)) WITH ('connector' = 'x')", "'TIME'", SqlError),
        ("CREATE TABLE t (a INT DEFAULT 1) WITH ('connector' = 'x')", "'DEFAULT'", SqlError),
        ("CREATE OR REPLACE TABLE t WITH ('connector' = 'x')", "", UnsupportedError),
        ("ALTER TABLE t SET ('a' = 5)", "'5' in line 1", SqlError),
        ("ALTER TABLE t SET ('a')", "')' in line 1", SqlError),
        ("CREATE CATALOG c WITH ('a' = 'b', 'a' = 'c')", "line 1, column 35", SqlError),
        ("INSERT INTO t BY NAME SELECT 1", "'BY' in line 1", SqlError),
        ("INSERT INTO t (a, A) SELECT 1, 2", "line 1", SqlError),
        ("DELETE FROM t WHERE", "the end in line 1", SqlError),
        ("DELETE FROM t\nWHERE a >", "line 2", SqlError),
        ("DELETE FROM t WHERE a) b", "')' in line 1", SqlError),
        ("UPDATE t WHERE a = 1", "'WHERE' in line 1", SqlError),
        ("UPDATE t SET a = 1, A = 2", "line 1, column 21", SqlError),
        ("UPDATE t SET a =\n 1 +", "line 2", SqlError),
        ("INSERT OVERWRITE LOCAL DIRECTORY '/tmp/x' SELECT 1", "'LOCAL' in line 1", SqlError),
    ],
)
def test_an_error_names_the_place(text, where, kind):
    with pytest.raises(ConfigurationError) as error:
        parse_script(text)
    assert isinstance(error.value, kind)
    assert where in str(error.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT 1;\nSELECT a FROM t WHERE (", (2, 23)),
        ("INSERT INTO t\n  SELECT a b c FROM t", (2, 14)),
        ("WITH q AS (SELECT 1)\nINSERT INTO t\nSELECT a b c FROM q", (3, 12)),
        ("CREATE VIEW v AS\nSELECT a b c", (2, 12)),
        ("CREATE TABLE t WITH ('connector' = 'x')\nAS SELECT a b c", (2, 15)),
        ("EXPLAIN SELECT a b c", (1, 20)),
        ("STATEMENT SET BEGIN\nINSERT INTO a SELECT 1;\nINSERT INTO b SELECT a b c; END", (3, 26)),
        ("SELECT 1;\nSELECT * FROM t /*+ OPTIONS('a' = 'b') */", (2, 17)),
    ],
)  # fmt: skip
def test_a_wrong_query_has_its_place_in_the_script(text, place):
    with pytest.raises(SqlError) as caught:
        parse_script(text)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.line, error.column) == place
    assert error.position == sum(map(len, text.splitlines(keepends=True)[: place[0] - 1])) + (
        place[1] - 1
    )


def test_an_error_in_a_part_of_a_statement_is_moved_to_its_place():
    whole, part = "INSERT INTO t\nSELECT x FROM t", "SELECT x FROM t"
    error = SqlError.at(part, 7, "no such column", expected="y").within(whole, part)
    assert (error.line, error.column, error.position) == (2, 8, 21)
    assert "'x' in line 2, column 8" in str(error)
    assert "expected: y" in str(error)
    of_a_view = SqlError.at(part, 7, "no such column").within(whole, "SELECT z")
    assert of_a_view.position is None


@pytest.mark.parametrize(
    "text", ["", "SELECT 1;", "SELECT ';'; -- done", "EXECUTE STATEMENT SET BEGIN SELECT 1; END;"]
)
def test_a_semicolon_completes_statements(text):
    assert is_complete(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT ';",
        "SELECT 1 -- ;",
        "SELECT 1; /* ;",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1;",
        "BEGIN STATEMENT SET;",
    ],
)
def test_a_semicolon_within_a_part_completes_nothing(text):
    assert not is_complete(text)


def test_a_job_cannot_be_drained():
    with pytest.raises(SqlError, match="without a savepoint or a drain"):
        parse_statement("STOP JOB 'a' WITH DRAIN")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT window.start, count(*) FROM t GROUP BY window(time, '1 hour')",
        "SELECT window AS w FROM (SELECT window(time, '1 hour') FROM t) GROUP BY window",
        "SELECT sum(x) OVER w FROM t WINDOW w AS (PARTITION BY y)",
        "SELECT count(*) FROM t GROUP BY session_window(time, '5 minutes')",
    ],
)
def test_windows_of_spark_are_functions_and_clauses(query):
    assert [each.name for each in parse_query(query).find_all(exp.Table)] == ["t"]


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        (
            "STRUCT<bytes: BIGINT, bytes_sent: BYTES>",
            {"bytes": pa.int64(), "bytes_sent": pa.binary()},
        ),
        (
            "ROW<row ROW<a INT>, `row<` INT>",
            {"row": pa.struct([("a", pa.int32())]), "row<": pa.int32()},
        ),
        (
            "ROW<`timestamp (3)` TIMESTAMP(3), `varbinary (3)` VARBINARY(3), b ARRAY<BYTES>>",
            {
                "timestamp (3)": pa.timestamp("us", tz="UTC"),
                "varbinary (3)": pa.binary(),
                "b": pa.list_(pa.field("element", pa.binary())),
            },
        ),
        ("STRUCT<m: MAP<STRING, BYTES>, d: DECIMAL(10, 2)>", None),
    ],
)
def test_types_of_flink_do_not_rename_nested_fields(written, kind):
    statement = parse_statement(
        f"CREATE TABLE t (c {written}, bytes BYTES) WITH ('connector' = 'x')"
    )
    (column, last) = statement.table.schema.columns
    if kind is not None:
        assert {each.name: each.type for each in column.type} == kind
    else:
        assert column.type.field("d").type == pa.decimal128(10, 2)
        assert column.type.field("m").type.item_type == pa.binary()
    assert (last.name, last.type) == ("bytes", pa.binary())
    text = create_table_text(("t",), statement.table)
    assert parse_statement(text).table == statement.table


def test_options_of_the_session_need_no_quotes():
    assert parse_statement("SET execution.runtime-mode = streaming") == sql.SetOption(
        key="execution.runtime-mode", value="streaming"
    )
    assert parse_statement("RESET execution.runtime-mode") == sql.Reset(
        key="execution.runtime-mode"
    )
    assert parse_statement("SET TIME ZONE 'UTC'") == sql.SparkStatement(text="SET TIME ZONE 'UTC'")
    assert parse_statement("SET spark.x.y-z = a=b") == sql.SparkStatement(
        text="SET spark.x.y-z=a=b"
    )


def test_a_column_of_a_statement_set_can_have_the_name_end():
    text = """EXECUTE STATEMENT SET BEGIN
      INSERT INTO a SELECT window.start AS start, window.end AS end FROM t;
      INSERT INTO b SELECT CASE WHEN x THEN 1 END AS end FROM t;
    END; SELECT 1"""
    found = parse_script(text)
    assert [len(found[0].inserts), found[1]] == [2, sql.Query(text="SELECT 1")]


def test_a_function_of_python_is_temporary_and_has_a_module():
    created = parse_statement("CREATE TEMPORARY SYSTEM FUNCTION `f g` AS 'a.b' LANGUAGE PYTHON")
    assert created == sql.CreateFunction(name=("f g",), identifier="a.b", is_temporary=True)
    (first, second) = parse_script(
        "CREATE OR REPLACE TEMPORARY FUNCTION f AS 'a.b' LANGUAGE PYTHON;"
        "CREATE TEMPORARY FUNCTION IF NOT EXISTS f AS 'a.b' language python"
    )
    temporary = sql.CreateFunction(name=("f",), identifier="a.b", is_temporary=True)
    assert first == replace(temporary, replace=True)
    assert second == replace(temporary, if_not_exists=True)
    with pytest.raises(SqlError, match="one part"):
        parse_statement("CREATE TEMPORARY FUNCTION a.f AS 'a.b' LANGUAGE PYTHON")
    for text in (
        "CREATE TEMPORARY FUNCTION f AS 'a.B' USING JAR 'b.jar'",
        "DROP TEMPORARY FUNCTION f",
    ):
        assert parse_statement(text) == sql.SparkStatement(text=text)
    dropped = parse_statement("DROP TEMPORARY SYSTEM FUNCTION IF EXISTS f")
    assert dropped == sql.SparkStatement(text="DROP TEMPORARY FUNCTION IF EXISTS f")


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (
            "CREATE FUNCTION IF NOT EXISTS c.`d e`.f AS 'a.b' LANGUAGE PYTHON",
            sql.CreateFunction(name=("c", "d e", "f"), identifier="a.b", if_not_exists=True),
        ),
        (
            "ALTER FUNCTION IF EXISTS d.f AS 'a.c' LANGUAGE PYTHON",
            sql.AlterFunction(name=("d", "f"), identifier="a.c", if_exists=True),
        ),
        (
            "DROP FUNCTION IF EXISTS d.f",
            sql.Drop(kind="FUNCTION", names=(("d", "f"),), if_exists=True),
        ),
        ("DESC FUNCTION d.`f g`", sql.DescribeFunction(name=("d", "f g"))),
        ("SHOW FUNCTIONS", sql.Show(kind="FUNCTIONS")),
        ("SHOW USER FUNCTIONS IN c.d", sql.Show(kind="USER FUNCTIONS", parent=("c", "d"))),
    ],
)
def test_catalogs_keep_functions(text, statement):
    assert parse_statement(text) == statement


def test_a_function_of_a_catalog_is_altered_and_not_replaced():
    with pytest.raises(UnsupportedError) as refused:
        parse_statement("CREATE OR REPLACE FUNCTION f AS 'a.b' LANGUAGE PYTHON")
    assert "ALTER FUNCTION" in str(refused.value.hint)


def test_a_watermark_can_be_that_of_the_source():
    text = "CREATE TABLE t (a TIMESTAMP, WATERMARK FOR A AS SOURCE_WATERMARK()) WITH ('k' = 'v')"
    created = parse_statement(text)
    assert created.table.schema.watermark == WatermarkSpec("a", None)
    assert parse_statement(create_table_text(created.name, created.table)) == created
