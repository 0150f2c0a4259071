# SPDX-License-Identifier: Apache-2.0
"""Tests tables together with tables, plans, and functions of Spark."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from flight_tables import Tables
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from connector_filesystem.table_factory import FileTableFactory
from connectors_core import ConfigurationError, TableEnvironment, UnsupportedError
from connectors_core.catalog import CatalogError, FileCatalogStore
from connectors_core.table import DynamicTableContext, ScanTableSource, SqlError


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    return Tables(spark, tmp_path)


def test_tables_of_spark_stay_in_reach(tables: Tables, spark: SparkSession) -> None:
    spark.sql("DROP TABLE IF EXISTS of_spark")
    tables.env.execute_script(
        "CREATE TABLE of_spark (x INT) USING parquet; INSERT INTO of_spark VALUES (1)"
    )
    assert tables.rows("DESCRIBE of_spark")[0][:2] == ("x", "int")
    assert tables.rows("SELECT x FROM of_spark JOIN flights ON x = id") == [(1,)]
    tables.env.execute_sql("DROP TABLE IF EXISTS of_spark")
    assert not spark.catalog.tableExists("of_spark")


def test_a_batch_inserts_into_a_table_of_spark(tables: Tables, spark: SparkSession) -> None:
    spark.sql("DROP TABLE IF EXISTS of_spark")
    spark.sql(
        "CREATE TABLE of_spark (x BIGINT, y STRING, day INT) USING parquet PARTITIONED BY (day)"
    )
    insert = "INSERT INTO of_spark PARTITION (day = 1) (x) SELECT max(id) FROM flights"
    assert "Aggregate" in tables.env.explain_sql(insert)
    assert tables.rows("SELECT * FROM of_spark") == []
    tables.env.execute_sql(insert)
    query = "SELECT q.*, carrier, 2 FROM q, flights WHERE id = 2"
    tables.env.execute_sql(f"WITH q AS (SELECT 5) INSERT INTO of_spark {query}")
    with pytest.raises(SqlError, match="rejects") as wrong:
        tables.env.execute_sql("INSERT INTO of_spark SELECT * FROM flights")
    assert wrong.value.line is None
    assert sorted(tables.rows("SELECT * FROM of_spark")) == [(3, None, 1), (5, "UA", 2)]
    tables.env.execute_sql(
        "INSERT OVERWRITE of_spark SELECT id, carrier, 3 FROM flights WHERE id = 1"
    )
    assert tables.rows("SELECT * FROM of_spark") == [(1, "AA", 3)]
    tables.create("endless", "id BIGINT", "in", "csv", **{"source.monitor-interval": "1 s"})
    tables.env.execute_sql("SET 'execution.runtime-mode' = 'streaming'")
    for table in ("flights", "endless"):
        with pytest.raises(UnsupportedError, match="only a batch inserts") as refused:
            tables.env.execute_sql(f"INSERT INTO of_spark SELECT id, 'a', 1 FROM {table}")
        assert "for_each_batch" in str(refused.value.hint)
        tables.env.execute_sql("RESET")
    for begin in ("EXECUTE", "EXPLAIN"):
        with pytest.raises(UnsupportedError, match="which no statement set writes") as refused:
            tables.env.execute_sql(
                f"{begin} STATEMENT SET BEGIN INSERT INTO late SELECT id, hours FROM flights; "
                "INSERT INTO of_spark SELECT id, carrier, 4 FROM flights; END"
            )
        assert "of_spark" in str(refused.value)
    join = "JOIN carriers FOR SYSTEM_TIME AS OF f.now AS c ON f.carrier = c.code"
    with pytest.raises(UnsupportedError, match="lookup join"):
        tables.env.execute_sql(f"INSERT INTO of_spark SELECT f.id, c.name, 1 FROM flights f {join}")
    spark.sql("DROP TABLE of_spark")


def test_a_statement_creates_the_source_of_a_table_once(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[str] = []
    create = FileTableFactory.create_scan_source

    def counted(factory: FileTableFactory, context: DynamicTableContext) -> ScanTableSource:
        created.append(context.name)
        return create(factory, context)

    monkeypatch.setattr(FileTableFactory, "create_scan_source", counted)
    tables.env.execute_sql("CREATE VIEW hours AS SELECT id, hours FROM flights")
    tables.env.execute_sql(
        "INSERT INTO late SELECT a.id, b.hours FROM flights a JOIN hours b ON a.id = b.id"
    )
    assert created == ["default.flights"]


@pytest.mark.parametrize(
    ("threshold", "join"), [("10MB", "BroadcastHashJoin"), ("100b", "SortMergeJoin")]
)
def test_a_join_broadcasts_files_below_the_threshold_of_spark(
    tables: Tables, threshold: str, join: str
) -> None:
    tables.put(2, *(f"{number},AA,30" for number in range(4, 20)))
    key = "spark.sql.autoBroadcastJoinThreshold"
    query = "SELECT a.id FROM flights a JOIN flights b ON a.id = b.id"
    tables.env.execute_sql(f"SET '{key}' = '{threshold}'")
    try:
        assert join in tables.rows(f"EXPLAIN {query}")[0][0]
        hinted = query.replace("SELECT", "SELECT /*+ BROADCAST(b) */")
        assert "BroadcastHashJoin" in tables.rows(f"EXPLAIN {hinted}")[0][0]
        assert len(tables.rows(query)) == 19
    finally:
        tables.env.execute_sql(f"RESET '{key}'")


FUNCTIONS = """
from __future__ import annotations

import pandas as pd
from pyspark.sql.functions import pandas_udf, udtf

number = 7


def initials(names: list[str] | None) -> str | None:
    return "".join(each[0] for each in names or ["-"])


@pandas_udf("bigint")
def twice(values: pd.Series) -> pd.Series:
    return values * 2


@udtf(returnType="n int")
class Countdown:
    def eval(self, start: int):
        for each in range(start, 0, -1):
            yield (each,)


def untyped(value):
    return value
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "functions_of_a_test.py").write_text(FUNCTIONS)
    (tmp_path / "broken_functions.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("functions_of_a_test")
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)
    del sys.modules["functions_of_a_test"]


@pytest.mark.usefixtures("functions")
def test_functions_of_python_are_used_by_their_names(tables: Tables) -> None:
    create = "CREATE TEMPORARY {} AS 'functions_of_a_test.{}' LANGUAGE PYTHON"
    for name, attribute in (
        ("SYSTEM FUNCTION initials", "initials"),
        ("FUNCTION twice", "twice"),
        ("FUNCTION countdown", "Countdown"),
    ):
        tables.env.execute_sql(create.format(name, attribute))
    found = tables.rows("SELECT twice(id), initials(array(carrier, 'x')) FROM flights WHERE id = 2")
    assert found == [(4, "Ux")]
    tables.env.execute_sql("INSERT INTO late SELECT twice(id), hours FROM flights")
    assert tables.rows("SELECT max(id) FROM late") == [(6,)]
    assert tables.rows("SELECT n FROM countdown(2)") == [(2,), (1,)]
    assert ("twice",) in {row[:1] for row in tables.rows("SHOW USER FUNCTIONS")}
    tables.env.execute_sql(create.format("FUNCTION IF NOT EXISTS twice", "initials"))
    for name, attribute, shown in (
        ("FUNCTION twice", "twice", "twice exists"),
        ("FUNCTION other", "untyped", "does not state the type"),
        ("FUNCTION other", "number", "is no function"),
        ("FUNCTION other", "missing", "there is no function"),
    ):
        with pytest.raises(ConfigurationError, match=shown):
            tables.env.execute_sql(create.format(name, attribute))
    with pytest.raises(ConfigurationError, match=r"there is no function broken_functions\.f"):
        tables.env.execute_sql(
            "CREATE TEMPORARY FUNCTION f AS 'broken_functions.f' LANGUAGE PYTHON"
        )
    tables.env.execute_script(
        "DROP TEMPORARY SYSTEM FUNCTION initials; DROP TEMPORARY FUNCTION twice; "
        "DROP TEMPORARY SYSTEM FUNCTION IF EXISTS initials; DROP TEMPORARY FUNCTION countdown"
    )
    with pytest.raises(SqlError, match="initials"):
        tables.rows("SELECT initials(array('a'))")


@pytest.mark.usefixtures("functions")
def test_functions_of_catalogs_are_called_in_each_kind_of_insert(
    tables: Tables, spark: SparkSession
) -> None:
    spark.sql("DROP TABLE IF EXISTS of_spark")
    tables.env.execute_script(
        """
        CREATE FUNCTION doubled AS 'functions_of_a_test.twice' LANGUAGE PYTHON;
        CREATE TABLE of_spark (x BIGINT) USING parquet;
        INSERT INTO of_spark SELECT doubled(4);
        INSERT INTO late SELECT default.doubled(r.id), r.hours
        FROM (SELECT doubled(id) AS id, carrier, hours FROM flights) AS r
        LEFT JOIN carriers FOR SYSTEM_TIME AS OF PROCTIME() AS c ON r.carrier = c.code;
        """
    )
    assert tables.rows("SELECT * FROM of_spark") == [(8,)]
    assert sorted(row[0] for row in tables.rows("SELECT id FROM late")) == [4, 8, 12]
    tables.env.execute_sql("DROP TABLE of_spark")


@pytest.mark.usefixtures("functions")
def test_functions_of_catalogs_are_used_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    store = FileCatalogStore(tmp_path / "catalogs")
    lake = f"CREATE CATALOG lake WITH ('type' = 'filesystem', 'path' = '{tmp_path / 'lake'}')"
    create = "CREATE FUNCTION {} AS 'functions_of_a_test.{}' LANGUAGE PYTHON"
    with TableEnvironment(spark, checkpoint_location=tmp_path / "a", catalog_store=store) as env:
        env.execute_sql(lake)
        for name, attribute in (
            ("lake.default.twice", "twice"),
            ("IF NOT EXISTS Twice", "twice"),
            ("countdown", "Countdown"),
            ("abs", "initials"),
        ):
            env.execute_sql(create.format(name, attribute))
        for name, attribute, shown in (
            ("twice", "twice", "default.twice exists"),
            ("other", "untyped", "does not state the type"),
            ("other", "missing", "there is no function"),
            ("d.other", "twice", "there is no database d"),
        ):
            with pytest.raises(ConfigurationError, match=shown):
                env.execute_sql(create.format(name, attribute))
        assert [tuple(row) for row in env.execute_sql("DESCRIBE FUNCTION twice").collect()] == [
            ("language", "PYTHON"),
            ("identifier", "functions_of_a_test.twice"),
        ]
        query = (
            "SELECT twice(n) FROM countdown(2) WHERE lake.default.twice(n) + abs(-n) > 0 "
            "UNION ALL SELECT count(*) FROM default.countdown(abs(-3))"
        )
        frame = env.sql_query(query)
        assert frame.columns == ["twice(n)"]
        assert sorted(row[0] for row in frame.collect()) == [2, 3, 4]
        assert env.sql_query("SELECT default.abs(array('x'))").collect()[0][0] == "x"
        env.execute_sql("CREATE VIEW v AS SELECT twice(3) AS six")
        shown = {row[0] for row in env.execute_sql("SHOW USER FUNCTIONS").collect()}
        assert {"abs", "countdown", "twice"} <= shown
        assert not any(each.startswith("connectors_") for each in shown)
        env.execute_script(
            "CREATE TEMPORARY FUNCTION twice AS 'functions_of_a_test.initials' LANGUAGE PYTHON; "
            "USE CATALOG lake"
        )
        assert env.sql_query("SELECT twice(array('a', 'b')), default.twice(1)").collect() == [
            ("ab", 2)
        ]
        env.execute_script("DROP TEMPORARY FUNCTION twice; DROP FUNCTION IF EXISTS countdown")
        assert env.sql_query("SELECT * FROM default_catalog.default.v").collect() == [(6,)]
        with pytest.raises(SqlError, match="countdown"):
            env.sql_query("SELECT * FROM countdown(1)")
        with pytest.raises(CatalogError, match="no function"):
            env.execute_sql("DROP FUNCTION countdown")
    with TableEnvironment(spark, checkpoint_location=tmp_path / "b", catalog_store=store) as env:
        env.use_catalog("lake")
        alter = "ALTER FUNCTION twice AS 'functions_of_a_test.initials' LANGUAGE PYTHON"
        env.execute_sql(alter)
        assert env.sql_query("SELECT TWICE(array('a'))").collect() == [("a",)]
