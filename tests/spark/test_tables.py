# SPDX-License-Identifier: Apache-2.0
"""Tests tables and statements of all connectors on Spark."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flight_tables import FLIGHTS, Tables
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from connector_elasticsearch.testing import ElasticsearchServer
from connector_kafka.catalog import KafkaCatalog
from connector_kafka.testing import KafkaBroker
from connectors_core import ConfigurationError, TableEnvironment, UnsupportedError
from connectors_core.catalog import (
    CatalogError,
    CatalogOperationUnsupportedError,
    FileCatalogStore,
)
from connectors_core.errors import FatalError
from connectors_core.table import SqlError


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    return Tables(spark, tmp_path)


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def elasticsearch() -> Iterator[ElasticsearchServer]:
    with ElasticsearchServer() as server:
        yield server


@pytest.fixture
def server(elasticsearch: ElasticsearchServer) -> Iterator[ElasticsearchServer]:
    yield elasticsearch
    elasticsearch.request("DELETE", "/*")


def test_a_query_sees_the_declared_columns_in_their_order(tables: Tables) -> None:
    frame = tables.env.sql_query("SELECT * FROM flights WHERE delay > 60")
    assert frame.columns == ["id", "carrier", "delay", "at", "hours", "file", "now"]
    assert sorted((row.id, row.hours, row.file) for row in frame.collect()) == [
        (2, 1.5, "1.csv"),
        (3, 2.5, "1.csv"),
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) FROM default.flights", [(3,)]),
        ("WITH q AS (SELECT * FROM flights) SELECT max(q.id) FROM q", [(3,)]),
        ("SELECT a.id FROM flights a JOIN flights b ON a.id = b.id + 1 ORDER BY 1", [(2,), (3,)]),
        ("SELECT f.n FROM (SELECT count(*) AS n FROM flights) f", [(3,)]),
        (
            "SELECT name FROM carriers WHERE code IN (SELECT carrier FROM flights WHERE id = 2)",
            None,
        ),
        ("SELECT 1 UNION ALL SELECT id FROM flights WHERE flights.id = 3 ORDER BY 1", [(1,), (3,)]),
        ("SELECT n FROM totals WHERE carrier = 'AA'", [(2,)]),
        ("SELECT x FROM range_of_spark ORDER BY x", [(0,), (1,)]),
    ],
)
def test_queries_of_spark_work_on_tables(
    tables: Tables, spark: SparkSession, query: str, expected: list[Any] | None
) -> None:
    spark.range(2).toDF("x").createOrReplaceTempView("range_of_spark")
    tables.env.execute_sql(
        "CREATE VIEW totals (carrier, n) AS SELECT carrier, count(*) FROM flights GROUP BY carrier"
    )
    assert tables.rows(query) == (expected or [("United",)])


@pytest.mark.parametrize("name", ["#1 in 100%", "x" * 120])
def test_a_table_can_have_any_name(tables: Tables, name: str) -> None:
    tables.create(f"`{name}`", "id BIGINT", "named", "parquet")
    tables.env.execute_sql(f"INSERT INTO `{name}` SELECT id FROM flights")
    tables.env.execute_sql(f"INSERT INTO `{name}` SELECT id + 3 FROM `{name}`")
    assert sorted(tables.rows(f"SELECT id FROM `{name}`")) == [(n,) for n in range(1, 7)]


def test_a_statement_set_writes_several_tables_with_one_decision(tables: Tables) -> None:
    tables.create("carriers_seen", "carrier STRING, note STRING", "seen", "parquet")
    result = tables.env.execute_sql(
        """
        EXECUTE STATEMENT SET BEGIN
          INSERT INTO late SELECT id, CAST(hours AS DOUBLE) FROM flights WHERE delay > 60;
          INSERT INTO carriers_seen (carrier) SELECT carrier FROM flights;
        END
        """
    )
    (query,) = result.status().queries
    assert {sink.uid: (sink.commits, sink.rows) for sink in query.sinks} == {
        "into.default.late": (1, 2),
        "into.default.carriers_seen": (1, 3),
    }
    assert sorted(tables.rows("SELECT * FROM late")) == [(2, 1.5), (3, 2.5)]
    seen = Counter(tables.rows("SELECT * FROM carriers_seen"))
    assert seen == {("AA", None): 2, ("UA", None): 1}


def test_the_same_insert_in_another_format_resumes(tables: Tables) -> None:
    tables.create("arriving", FLIGHTS, "in", "csv", **{"source.monitor-interval": "50 ms"})
    tables.create("ids", "id BIGINT", "ids", "parquet")
    tables.env.execute_sql("SET 'execution.available-now' = 'true'")
    tables.env.execute_sql("INSERT INTO ids SELECT id FROM arriving")
    tables.put(2, "4,AA,10")
    tables.env.execute_sql("insert into ids\n  select id -- all\n  from arriving")
    assert sorted(tables.rows("SELECT id FROM ids")) == [(1,), (2,), (3,), (4,)]


def test_a_window_of_spark_closes_with_the_watermark_of_its_table(tables: Tables) -> None:
    tables.put(2, "4,AA,10")
    tables.create("by_minute", "start TIMESTAMP, carrier STRING, n BIGINT", "minutes", "parquet")
    tables.env.execute_sql("SET 'execution.runtime-mode' = 'streaming'")
    tables.env.execute_sql(
        "INSERT INTO by_minute SELECT window.start, carrier, count(*) FROM flights"
        " GROUP BY window(at, '1 minute'), carrier"
    )
    assert sorted(tables.rows("SELECT minute(start), carrier, n FROM by_minute")) == [
        (1, "AA", 2),
        (1, "UA", 1),
        (2, "AA", 1),
    ]


def test_an_insert_without_an_end_runs_until_it_is_stopped(tables: Tables) -> None:
    tables.create("arriving", FLIGHTS, "in", "csv", **{"source.monitor-interval": "50 ms"})
    with pytest.raises(UnsupportedError, match=r"default\.arriving has no end"):
        tables.rows("SELECT * FROM arriving")
    result = tables.env.execute_sql("INSERT INTO late (id) SELECT id FROM arriving")
    try:
        while sum(sink.rows for sink in result.status().sinks) < 3:
            assert not result.await_termination(0.2)
    finally:
        result.stop()
    assert sorted(tables.rows("SELECT id FROM late")) == [(1,), (2,), (3,)]


def test_a_lookup_join_finds_rows_by_key(tables: Tables) -> None:
    tables.create("named", "id BIGINT, name STRING, code STRING", "named", "parquet")
    lookup = "carriers FOR SYSTEM_TIME AS OF f.now AS c ON f.carrier = c.code"
    tables.put(2, "4,??,10")
    for kind in ("LEFT", "INNER"):
        tables.env.execute_sql(
            f"INSERT INTO named SELECT f.id, c.name, code FROM flights AS f {kind} JOIN {lookup} "
            "WHERE f.id <> 2"
        )
    assert Counter(tables.rows("SELECT * FROM named")) == {
        (1, "American", "AA"): 2,
        (3, "American", "AA"): 2,
        (4, None, None): 1,
    }


def test_a_lookup_joins_columns_of_any_name(tables: Tables) -> None:
    (tables.folder / "odd").mkdir()
    (tables.folder / "odd" / "1.csv").write_text("the.code,na`me,id\nAA,American,7\n")
    tables.create("odd", "`the.code` STRING, `na``me` STRING, id BIGINT", "odd", "csv")
    tables.create("named", "`f.id` BIGINT, `na``me` STRING, n BIGINT", "named", "parquet")
    tables.env.execute_sql(
        "INSERT INTO named SELECT `f``.`.`i``.d`, o.`na``me`, o.id "
        "FROM (SELECT id AS `i``.d`, carrier AS `c.c` FROM flights) AS `f``.` "
        "LEFT JOIN odd FOR SYSTEM_TIME AS OF PROCTIME() AS o ON `f``.`.`c.c` = o.`the.code`"
    )
    found = sorted(tables.rows("SELECT * FROM named"))
    assert found == [(1, "American", 7), (2, None, None), (3, "American", 7)]


def test_lookup_joins_keep_the_other_clauses_and_can_follow_each_other(tables: Tables) -> None:
    tables.create("countries", "label STRING, country STRING", "countries", "csv")
    (tables.folder / "countries").mkdir()
    (tables.folder / "countries" / "1.csv").write_text("label,country\nAmerican,US\n")
    tables.create("sums", "name STRING, country STRING, n BIGINT", "sums", "parquet")
    tables.env.execute_sql(
        """
        INSERT INTO sums SELECT c.name, country, count(*) AS n FROM flights f
        LEFT JOIN carriers FOR SYSTEM_TIME AS OF f.now AS c ON f.carrier = c.code
        LEFT JOIN countries FOR SYSTEM_TIME AS OF f.now AS d ON c.name = d.label
        GROUP BY c.name, country HAVING count(*) > 0 ORDER BY n DESC LIMIT 5
        """
    )
    found = sorted(tables.rows("SELECT * FROM sums"))
    assert found == [("American", "US", 2), ("United", None, 1)]


def test_lookup_joins_keep_all_columns_of_the_rows(tables: Tables) -> None:
    tables.create("rates", "id BIGINT, carrier STRING, name STRING", "rates", "csv")
    tables.create("named", "id BIGINT, name STRING, of_carrier STRING", "named", "parquet")
    tables.create("again", "id BIGINT, of_carrier STRING", "again", "parquet")
    lookup = "FOR SYSTEM_TIME AS OF PROCTIME() AS c ON r.carrier = c.code"
    tables.env.execute_sql(
        f"""
        EXECUTE STATEMENT SET BEGIN
          INSERT INTO named SELECT r.*, c.name
          FROM (SELECT id, carrier FROM flights) AS r LEFT JOIN carriers {lookup};
          INSERT INTO again SELECT r.id, c.name
          FROM (SELECT id, carrier FROM flights) AS r LEFT JOIN carriers {lookup};
        END
        """
    )
    assert sorted(tables.rows("SELECT * FROM named")) == [
        (1, "AA", "American"),
        (2, "UA", "United"),
        (3, "AA", "American"),
    ]
    assert sorted(tables.rows("SELECT of_carrier FROM again WHERE id < 3")) == [
        ("American",),
        ("United",),
    ]


def test_outputs_of_one_query_share_its_rows_and_a_drained_join_ends(tables: Tables) -> None:
    tables.create(
        "gates", "flight BIGINT, since TIMESTAMP, WATERMARK FOR since AS since", "gates", "csv"
    )
    (tables.folder / "gates").mkdir()
    (tables.folder / "gates" / "1.csv").write_text("flight,since\n2,2024-01-01T00:01:00Z\n")
    tables.create("arriving", FLIGHTS, "in", "csv", **{"source.monitor-interval": "50 ms"})
    for name in ("one", "two", "other"):
        tables.create(name, "id BIGINT, flight BIGINT", name, "parquet")
    tables.env.execute_script(
        """
        CREATE VIEW boarding AS
        SELECT id, flight FROM arriving LEFT JOIN gates ON id = flight AND at = since;
        SET 'execution.runtime-mode' = 'streaming';
        SET 'execution.available-now' = 'true';
        SET 'execution.drain' = 'true';
        """
    )
    result = tables.env.execute_sql(
        """
        EXECUTE STATEMENT SET BEGIN
          INSERT INTO one SELECT * FROM boarding;
          INSERT INTO two SELECT * FROM boarding;
          INSERT INTO other SELECT id + 10, flight FROM boarding;
        END
        """
    )
    assert result.pipeline is not None
    (query,) = result.status().queries
    assert {sink.uid: sink.rows for sink in query.sinks} == {
        "into.default.one": 3,
        "into.default.two": 3,
        "into.default.other": 3,
    }
    assert sorted(tables.rows("SELECT * FROM two")) == [(1, None), (2, 2), (3, None)]


def test_an_aggregate_without_a_window_replaces_documents_by_key(
    tables: Tables, server: ElasticsearchServer
) -> None:
    tables.create("arriving", FLIGHTS, "in", "csv", **{"source.monitor-interval": "50 ms"})
    tables.env.execute_script(
        f"""
        CREATE TABLE counts (carrier STRING, name STRING, n BIGINT,
          PRIMARY KEY (carrier) NOT ENFORCED)
        WITH ('connector' = 'elasticsearch', 'hosts' = '{server.url}', 'index' = 'counts');
        SET 'execution.available-now' = 'true';
        """
    )
    insert = """
        INSERT INTO counts SELECT t.carrier, c.name, t.n
        FROM (SELECT carrier, count(*) AS n FROM arriving GROUP BY carrier) AS t
        LEFT JOIN carriers FOR SYSTEM_TIME AS OF PROCTIME() AS c ON t.carrier = c.code
    """
    tables.env.execute_sql(insert)
    tables.put(2, "4,AA,10", "5,DL,20")
    tables.env.execute_sql(insert)
    server.request("POST", "/counts/_refresh")
    hits = server.request("POST", "/counts/_search")["hits"]["hits"]
    assert {(each["_id"], each["_source"]["name"], each["_source"]["n"]) for each in hits} == {
        ("AA", "American", 3),
        ("UA", "United", 1),
        ("DL", None, 1),
    }


def test_grouping_sets_and_distinct_rows_of_a_stream_replace_files_by_key(tables: Tables) -> None:
    columns = "minute INT, grouped BIGINT, n BIGINT, PRIMARY KEY (minute, grouped) NOT ENFORCED"
    tables.create("arriving", FLIGHTS, "in", "csv", **{"source.monitor-interval": "50 ms"})
    tables.create("totals", columns, "totals", "parquet")
    tables.create("seen", "carrier STRING, PRIMARY KEY (carrier) NOT ENFORCED", "seen", "parquet")
    tables.env.execute_sql("SET 'execution.available-now' = 'true'")
    statements = (
        "INSERT INTO totals SELECT coalesce(minute(at), -1), grouping_id(), count(*) "
        "FROM arriving GROUP BY ROLLUP (minute(at))",
        "INSERT INTO seen WITH f AS (SELECT DISTINCT carrier FROM arriving) SELECT carrier FROM f",
    )
    for each in statements:
        tables.env.execute_sql(each)
    tables.put(2, "4,AA,10", "5,DL,20")
    for each in statements:
        tables.env.execute_sql(each)
    assert sorted(tables.rows("SELECT * FROM totals")) == [(-1, 1, 5), (1, 0, 3), (2, 0, 2)]
    assert sorted(tables.rows("SELECT * FROM seen")) == [("AA",), ("DL",), ("UA",)]


GROUPS = "SELECT carrier, count(*) AS n FROM arriving GROUP BY carrier"
INDEX = "WITH ('connector' = 'elasticsearch', 'hosts' = 'http://localhost:9', 'index' = 'x')"


@pytest.mark.line("4.3")  # before Spark does anything
@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        (f"INSERT INTO files {GROUPS}", "files cannot replace their rows"),
        (f"INSERT INTO keyless {GROUPS}", "keyless cannot replace their rows"),
        (f"INSERT INTO keyed {GROUPS} HAVING count(*) > 1", "found: Filter"),
        (f"INSERT INTO keyed {GROUPS}, delay", "does not identify the groups"),
        (
            "INSERT INTO keyed (n, carrier) "
            "SELECT id, CAST(count(*) AS STRING) FROM arriving GROUP BY id",
            "does not identify the groups",
        ),
        (
            f"INSERT INTO keyed SELECT carrier, max(n) FROM ({GROUPS}, window(at, '1 minute')) "
            "GROUP BY carrier",
            "count the updates of another one",
        ),
        (
            f"INSERT INTO keyed SELECT t.carrier, t.n FROM ({GROUPS}) AS t JOIN carriers "
            "FOR SYSTEM_TIME AS OF PROCTIME() AS c ON t.carrier = c.code",
            "put the lookup before the aggregate",
        ),
    ],
)
def test_updates_that_a_table_cannot_take_are_refused(
    tables: Tables, statement: str, shown: str
) -> None:
    tables.create("arriving", FLIGHTS, "in", "csv", **{"source.monitor-interval": "50 ms"})
    tables.create("files", "carrier STRING, n BIGINT", "files", "parquet")
    tables.env.execute_script(
        f"""
        CREATE TABLE keyless (carrier STRING, n BIGINT) {INDEX};
        CREATE TABLE keyed (carrier STRING, n BIGINT, PRIMARY KEY (carrier) NOT ENFORCED) {INDEX};
        """
    )
    with pytest.raises(UnsupportedError, match=re.escape(shown)):
        tables.env.execute_sql(statement)


LOOKUP = "JOIN carriers FOR SYSTEM_TIME AS OF f.now AS c ON"


@pytest.mark.line("4.3")  # before Spark does anything
@pytest.mark.parametrize(
    ("query", "shown"),
    [
        (f"SELECT f.id FROM flights f {LOOKUP} f.carrier > c.code", "equal columns"),
        (
            f"SELECT f.id FROM flights f {LOOKUP} f.carrier = c.code AND f.carrier = c.name",
            "equal columns",
        ),
        (f"SELECT c.* FROM flights f {LOOKUP} f.carrier = c.code", "must be named"),
        (f"SELECT f.id FROM flights f RIGHT {LOOKUP} f.carrier = c.code", "keeps all rows"),
        (f"WITH f AS (SELECT * FROM flights) SELECT id FROM f {LOOKUP} f.carrier = code", "WITH"),
        ("SELECT id FROM flights VERSION AS OF 3", "no versions"),
        ("SELECT id FROM flights TABLESAMPLE (10 ROWS)", "needs an alias"),
    ],
)
def test_what_a_query_cannot_do_is_refused(tables: Tables, query: str, shown: str) -> None:
    with pytest.raises(UnsupportedError, match=shown):
        tables.env.execute_sql(f"INSERT INTO late (id) {query}")


def test_a_view_finds_names_where_it_was_created(tables: Tables) -> None:
    tables.env.execute_script(
        "CREATE VIEW v AS SELECT max(id) AS top FROM flights; CREATE DATABASE d; USE d"
    )
    assert tables.rows("SELECT v.top FROM default.v AS v") == [(3,)]
    assert tables.rows("SELECT default.flights.id FROM default.flights LIMIT 1") == [(1,)]
    tables.env.execute_script(
        "CREATE VIEW a AS SELECT * FROM b; CREATE VIEW c AS SELECT * FROM a; "
        "ALTER TABLE c RENAME TO b"
    )
    with pytest.raises(UnsupportedError, match="contains itself"):
        tables.rows("SELECT * FROM a")


def test_each_insert_has_a_pipeline_of_its_own(tables: Tables) -> None:
    tables.env.execute_sql(
        "CREATE TABLE again (a BIGINT, b BIGINT, d STRING) PARTITIONED BY (d)"
        f"WITH ('connector' = 'filesystem', 'path' = '{tables.folder}/again')"
    )
    for statement in (
        "INSERT INTO again (a, b) SELECT id, delay FROM flights",
        "INSERT INTO again (b, a) SELECT id, delay FROM flights",
        "INSERT INTO again PARTITION (d = '1') SELECT id, delay FROM flights",
        "INSERT INTO again PARTITION (d = '2') SELECT id, delay FROM flights",
        "insert into again partition (d='2') select id, delay  from flights -- the same",
    ):
        tables.env.execute_sql(statement)
    assert len(tables.env.pipelines) == 4
    assert len(tables.rows("SELECT * FROM again")) == 15


def test_partitions_are_folders_and_columns(tables: Tables) -> None:
    options = (
        f"WITH ('connector' = 'filesystem', 'path' = '{tables.folder}/by', 'format' = 'parquet')"
    )
    tables.env.execute_script(
        f"""
        CREATE TABLE by_carrier (id BIGINT, id_again BIGINT, carrier STRING)
        PARTITIONED BY (carrier) {options};
        INSERT INTO by_carrier SELECT id, id, carrier FROM flights;
        INSERT INTO by_carrier PARTITION (carrier = 'XX') (ID_AGAIN, id) SELECT 7, id FROM flights
        WHERE id = 1;
        """
    )
    assert {path.parent.name for path in (tables.folder / "by").rglob("[!._]*.parquet")} >= {
        "carrier=AA",
        "carrier=UA",
        "carrier=XX",
    }
    query = "SELECT * FROM by_carrier WHERE carrier <> 'AA' ORDER BY id"
    assert tables.rows(query) == [(1, 7, "XX"), (2, 2, "UA")]


@pytest.mark.line("4.3")
def test_rows_are_deleted_and_updated_by_key(
    tables: Tables, broker: KafkaBroker, server: ElasticsearchServer
) -> None:
    """In a search index, in a compacted topic, and in files, by the same statements."""
    broker.topics.create("accounts", partitions=2)
    columns = "(id BIGINT, owner STRING, amount BIGINT NOT NULL, PRIMARY KEY (id) NOT ENFORCED)"
    tables.env.execute_script(
        f"""
        CREATE TABLE documents {columns}
        WITH ('connector' = 'elasticsearch', 'hosts' = '{server.url}', 'index' = 'accounts',
          'sink.refresh' = 'wait-for');
        CREATE TABLE records {columns}
        WITH ('connector' = 'upsert-kafka', 'topic' = 'accounts', 'key.format' = 'json',
          'properties.bootstrap.servers' = '{broker.bootstrap_servers}', 'value.format' = 'json',
          'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
        CREATE TABLE files {columns}
        WITH ('connector' = 'filesystem', 'path' = '{tables.folder}/accounts');
        """
    )
    for name in ("documents", "records", "files"):
        tables.env.execute_script(
            f"""
            INSERT INTO {name} VALUES (1, 'ann', 10), (2, 'bob', 20), (3, 'cid', 30), (4, 'dan', 0);
            UPDATE {name} SET amount = amount * 2, owner = upper(owner) WHERE amount > 10;
            UPDATE {name} AS a SET amount = 1L WHERE a.owner = 'BOB';
            DELETE FROM {name} WHERE amount = 0 OR owner = 'CID';
            """
        )
    with pytest.raises(FatalError, match="null for the NOT NULL column amount"):
        tables.env.execute_sql("UPDATE files SET amount = NULL")
    expected = [(1, "ann", 10), (2, "BOB", 1)]
    assert sorted(tables.rows("SELECT * FROM documents")) == expected
    assert sorted(tables.rows("SELECT * FROM files")) == expected
    tables.env.execute_sql("DELETE FROM records WHERE id IN (SELECT id FROM files WHERE id = 1)")
    newest: dict[int, Any] = {}
    for *row, kind in tables.rows("SELECT * FROM records"):
        newest[row[0]] = None if kind == "-D" else tuple(row[1:])
    assert newest == {1: None, 2: ("BOB", 1), 3: None, 4: None}


@pytest.mark.line("3.5")
def test_an_overwrite_replaces_the_partitions_that_it_names_or_fills(tables: Tables) -> None:
    options = f"WITH ('connector' = 'filesystem', 'path' = '{tables.folder}/by')"
    tables.env.execute_script(
        f"""
        CREATE TABLE by_carrier (id BIGINT, carrier STRING) PARTITIONED BY (carrier) {options};
        INSERT INTO by_carrier SELECT id, carrier FROM flights;
        INSERT OVERWRITE by_carrier SELECT id + 10, carrier FROM by_carrier WHERE id = 3;
        """
    )
    everything = "SELECT id, carrier FROM by_carrier ORDER BY id"
    assert tables.rows(everything) == [(2, "UA"), (13, "AA")]
    fill = "INSERT OVERWRITE by_carrier PARTITION (carrier = 'UA') SELECT id FROM by_carrier"
    tables.env.execute_sql(f"{fill} WHERE carrier = 'AA'")
    assert tables.rows(everything) == [(13, "AA"), (13, "UA")]
    tables.env.execute_sql(f"{fill} WHERE false")
    assert tables.rows(everything) == [(13, "AA")]
    tables.env.execute_sql("INSERT OVERWRITE late SELECT 1L, 1D")
    tables.env.execute_sql("INSERT OVERWRITE late SELECT 2L, 2D")
    assert tables.rows("SELECT * FROM late") == [(2, 2.0)]


@pytest.mark.line("4.3")  # before Spark does anything
@pytest.mark.parametrize(
    ("statement", "kind", "shown"),
    [
        ("INSERT INTO lat SELECT 1", ConfigurationError, "did you mean late"),
        ("INSERT INTO late SELECT id, carrier FROM flights", ConfigurationError, r"CAST\(\.\.\."),
        ("INSERT INTO late SELECT id FROM flights", ConfigurationError, "2 columns: id, hours"),
        ("INSERT INTO late (nope) SELECT id FROM flights", ConfigurationError, "nope"),
        (
            "INSERT OVERWRITE topic SELECT 1",
            UnsupportedError,
            "topic of the connector 'kafka' lacks SupportsOverwrite",
        ),
        (
            "INSERT OVERWRITE keyed SELECT 1, 'AA'",
            UnsupportedError,
            "keyed of the connector 'filesystem' lacks SupportsOverwrite",
        ),
        ("INSERT OVERWRITE late SELECT id, hours FROM arriving", UnsupportedError, "batch mode"),
        ("INSERT INTO late PARTITION (id = 1) SELECT 2.0D", ConfigurationError, "no partition"),
        (
            "INSERT INTO topic PARTITION (id = 1) SELECT 1",
            UnsupportedError,
            "lacks SupportsPartitioning",
        ),
        ("INSERT INTO other_key SELECT 1, 'AA'", ConfigurationError, "PRIMARY KEY"),
        (
            "EXECUTE STATEMENT SET BEGIN INSERT INTO keyed SELECT 1L, 'AA';"
            " INSERT INTO keyed SELECT 2L, 'AA'; END",
            UnsupportedError,
            "two INSERTs of a statement set write the table default.keyed",
        ),
        ("DELETE FROM late", UnsupportedError, "'filesystem' lacks SupportsRowLevelDelete"),
        ("UPDATE topic SET id = 1", UnsupportedError, "'kafka' lacks SupportsRowLevelUpdate"),
        ("UPDATE keyed SET id = id + 1", ConfigurationError, "primary key"),
        ("UPDATE keyed SET nope = 1", ConfigurationError, "no column 'nope'"),
        ("DELETE FROM newest", UnsupportedError, "newest, which has no end"),
        (
            "CREATE TABLE late WITH ('connector' = 'filesystem')",
            ConfigurationError,
            "exists",
        ),
        ("CREATE TABLE x WITH ('connector' = 'kafak')", ConfigurationError, "did you mean kafka"),
        (
            "CREATE TABLE x WITH ('connector' = 'kafka', 'topik' = 'a')",
            ConfigurationError,
            "'topic'",
        ),
        ("ALTER TABLE late SET ('pth' = 'x')", ConfigurationError, "'path'"),
        (
            "CREATE TABLE x WITH ('connector' = 'kafka', 'scan.startup.mode' = 'soon')",
            ConfigurationError,
            "scan.startup.mode",
        ),
        ("SET 'execution.runtime-mod' = 'batch'", ConfigurationError, "execution.runtime-mode"),
        ("DESCRIBE nothing", ConfigurationError, "there is no table default.nothing"),
        ("INSERT INTO late", SqlError, "no query"),
    ],
)
def test_a_wrong_statement_is_refused_before_anything_runs(
    tables: Tables, statement: str, kind: type[Exception], shown: str
) -> None:
    files = f"WITH ('connector' = 'filesystem', 'path' = '{tables.folder}/late')"
    tables.env.execute_script(
        f"""
        CREATE TABLE topic (id BIGINT)
        WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:1',
          'value.format' = 'json', 'scan.bounded.mode' = 'latest-offset');
        CREATE TABLE keyed (id BIGINT, carrier STRING, PRIMARY KEY (id) NOT ENFORCED) {files};
        CREATE TABLE other_key (id BIGINT, carrier STRING, PRIMARY KEY (id) NOT ENFORCED)
        PARTITIONED BY (carrier) {files};
        CREATE TABLE newest (id BIGINT, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'upsert-kafka', 'topic' = 't', 'key.format' = 'json',
          'properties.bootstrap.servers' = 'localhost:1', 'value.format' = 'json');
        """
    )
    tables.create("arriving", FLIGHTS, "in", "csv", **{"source.monitor-interval": "50 ms"})
    with pytest.raises(kind, match=shown):
        tables.env.execute_sql(statement)
    assert not (tables.folder / "late").exists()


def test_definitions_can_be_shown_changed_and_used_again(tables: Tables) -> None:
    [(shown,)] = tables.rows("SHOW CREATE TABLE flights")
    tables.env.execute_script(
        "DROP TABLE flights; "
        + shown
        + "; CREATE DATABASE d; CREATE TABLE d.copied WITH ('connector' = 'filesystem', "
        f"'path' = '{tables.folder}/copied', 'format' = 'parquet') AS SELECT carrier, count(*) "
        "AS n FROM flights GROUP BY carrier; USE d; ALTER TABLE copied RENAME TO sums"
    )
    assert tables.rows("SHOW CREATE TABLE default.flights") == [(shown,)]
    assert sorted(tables.rows("SELECT * FROM sums")) == [("AA", 2), ("UA", 1)]
    assert tables.rows("SHOW TABLES") == [("sums",)]
    assert tables.rows("DESCRIBE sums") == [
        ("carrier", "string", "", "", ""),
        ("n", "bigint", "", "", ""),
    ]


def test_secrets_are_not_shown(tables: Tables) -> None:
    password = "canary-77"  # pragma: allowlist secret
    tables.env.execute_script(
        "CREATE TABLE secret (id BIGINT) WITH ('connector' = 'elasticsearch', 'index' = 'a', "
        f"'hosts' = 'http://127.0.0.1:1', 'username' = 'u', 'password' = '{password}');"
        "CREATE TABLE stored WITH ('connector' = 'filesystem', 'path' = 's3://a/b', "
        f"'storage-options.any' = '{password}', 'storage-options.secret' = '${{env:S3_SECRET}}');"
        "CREATE TABLE topic WITH ('connector' = 'kafka', 'topic' = 'a', "
        f"'properties.sasl.jaas.config' = 'x password={password}', "
        f"'properties.ssl.key.password' = '{password}', "
        f"'properties.ssl.keystore.key' = '{password}')"
    )
    names = ("secret", "stored", "topic")
    shown = str([tables.rows(f"SHOW CREATE TABLE {name}") for name in names])
    assert password not in shown
    assert "${env:S3_SECRET}" in shown


def test_tables_of_catalogs_need_no_columns(
    tables: Tables, spark: SparkSession, server: ElasticsearchServer, tmp_path: Path
) -> None:
    """A later environment finds the stored catalogs again."""
    (tmp_path / "lake" / "shop" / "flights").mkdir(parents=True)
    shutil.copy(tmp_path / "in" / "1.csv", tmp_path / "lake" / "shop" / "flights" / "1.csv")
    store = FileCatalogStore(tmp_path / "catalogs")
    properties = {"id": {"type": "long"}, "carrier": {"type": "keyword"}}
    for name in ("flights", "flights-2024.01", ".hidden"):
        server.request("PUT", f"/{name}", {"mappings": {"properties": properties}})

    def new() -> TableEnvironment:
        return TableEnvironment(spark, checkpoint_location=tmp_path / "c", catalog_store=store)

    with new() as env:
        env.execute_script(
            f"""
            CREATE CATALOG es WITH ('type' = 'elasticsearch', 'hosts' = '{server.url}');
            CREATE CATALOG lake WITH ('type' = 'filesystem', 'path' = '{tmp_path}/lake');
            INSERT INTO es.default.flights SELECT id, carrier FROM lake.shop.flights;
            """
        )
    server.request("POST", "/_refresh")
    with new() as later:
        assert later.execute_sql("SHOW CATALOGS").collect() == [
            ("default_catalog",),
            ("es",),
            ("lake",),
        ]
        later.execute_sql("USE CATALOG es")
        assert later.execute_sql("SHOW TABLES").collect() == [
            ("flights",),
            ("flights-2024.01",),
        ]
        found = later.execute_sql("SELECT carrier, id FROM flights ORDER BY id").collect()
        assert found == [("AA", 1), ("UA", 2), ("AA", 3)]
        assert later.from_path("es.default.`flights-2024.01`").count() == 0
        with pytest.raises(CatalogOperationUnsupportedError, match="es cannot drop a table"):
            later.execute_sql("DROP TABLE flights")


def test_a_folder_becomes_a_table_before_it_has_files(
    tables: Tables, spark: SparkSession, tmp_path: Path
) -> None:
    store = FileCatalogStore(tmp_path / "catalogs")

    def new() -> TableEnvironment:
        return TableEnvironment(spark, checkpoint_location=tmp_path / "c", catalog_store=store)

    with new() as env:
        env.execute_script(
            f"""
            CREATE CATALOG lake WITH ('type' = 'filesystem', 'path' = '{tmp_path}/lake');
            CREATE DATABASE lake.shop;
            CREATE TABLE lake.shop.late (id BIGINT, day STRING) PARTITIONED BY (day);
            """
        )
    with new() as env:
        assert env.execute_sql("SELECT * FROM lake.shop.late").collect() == []
        env.execute_sql("INSERT INTO lake.shop.late PARTITION (day = '1') VALUES (7)")
        assert env.execute_sql("SELECT id, day FROM lake.shop.late").collect() == [(7, "1")]
        with pytest.raises(CatalogError, match="does not delete the files"):
            env.execute_sql("DROP TABLE lake.shop.late")
    assert list((tmp_path / "lake/shop/late/day=1").glob("*.parquet"))


@pytest.mark.line("4.3")
def test_a_topic_is_a_table_without_declared_columns(
    spark: SparkSession, broker: KafkaBroker, server: ElasticsearchServer, tmp_path: Path
) -> None:
    """Catalogs also create topics and indices; a registered one is not stored."""
    servers, store = broker.bootstrap_servers, FileCatalogStore(tmp_path / "catalogs")
    broker.topics.create("late", partitions=2)
    producer = KafkaProducer(bootstrap_servers=servers)
    for number, carrier in enumerate(("AA", "UA", "AA"), 1):
        producer.send("late", json.dumps({"id": number, "carrier": carrier, "delay": 90}).encode())
    producer.close()
    properties = {"id": {"type": "long"}, "carrier": {"type": "keyword"}}
    server.request("PUT", "/flights", {"mappings": {"properties": properties}})

    def new() -> TableEnvironment:
        return TableEnvironment(spark, checkpoint_location=tmp_path / "c", catalog_store=store)

    with new() as env:
        env.execute_script(
            f"""
            CREATE CATALOG kafka WITH ('type' = 'kafka', 'scan.bounded.mode' = 'latest-offset',
              'properties.bootstrap.servers' = '{servers}', 'drop-topics' = 'true');
            CREATE CATALOG es WITH ('type' = 'elasticsearch', 'hosts' = '{server.url}');
            """
        )
        env.execute_sql("INSERT INTO es.default.flights SELECT id, carrier FROM kafka.default.late")
        env.execute_script(
            """
            CREATE TABLE kafka.default.made (id BIGINT NOT NULL, carrier STRING)
            WITH ('format' = 'json', 'partitions' = '3');
            INSERT INTO kafka.default.made SELECT id, carrier FROM kafka.default.late WHERE id > 1;
            CREATE TABLE es.default.newest
            (n BIGINT, carrier STRING, PRIMARY KEY (carrier) NOT ENFORCED);
            INSERT INTO es.default.newest
            SELECT max(id), carrier FROM kafka.default.late GROUP BY carrier;
            """
        )
    server.request("POST", "/_refresh")
    assert len(broker.topics.end_offsets("made")) == 3
    with new() as later:
        rows = later.execute_sql("SELECT id, carrier FROM es.default.flights ORDER BY id").collect()
        assert rows == [(1, "AA"), (2, "UA"), (3, "AA")]
        assert sorted(later.execute_sql("SELECT * FROM es.default.newest").collect()) == [
            (2, "UA"),
            (3, "AA"),
        ]
        assert sorted(later.execute_sql("SELECT * FROM kafka.default.made").collect()) == [
            (2, "UA"),
            (3, "AA"),
        ]
        described = later.execute_sql("DESCRIBE kafka.default.late").collect()
        assert [(row[0], row[1], row[3]) for row in described] == [
            ("id", "bigint", ""),
            ("carrier", "string", ""),
            ("delay", "bigint", ""),
            ("partition", "int", "METADATA FROM 'partition' VIRTUAL"),
            ("offset", "bigint", "METADATA FROM 'offset' VIRTUAL"),
            ("timestamp", "timestamp", "METADATA FROM 'timestamp' VIRTUAL"),
        ]
        assert later.execute_sql("SHOW VIEWS IN kafka.default").collect() == []
        options = {"properties.bootstrap.servers": servers, "scan.bounded.mode": "latest-offset"}
        later.register_catalog("mine", KafkaCatalog("mine", options))
        later.use_catalog("mine")
        assert later.list_catalogs() == ["default_catalog", "es", "kafka", "mine"]
        assert later.execute_sql("SELECT max(delay) FROM late").collect() == [(90,)]
        with pytest.raises(CatalogError, match="mine does not delete topics"):
            later.execute_sql("DROP TABLE made")
        later.execute_sql("DROP TABLE kafka.default.made")
        shown = later.execute_sql("SHOW TABLES").collect()
        assert (("late",) in shown, ("made",) in shown) == (True, False)
    with new() as last:
        assert "mine" not in last.list_catalogs()


def test_a_changelog_in_a_topic_becomes_documents(
    tables: Tables, broker: KafkaBroker, server: ElasticsearchServer
) -> None:
    """An update and a deletion reach the index by key; an aggregate of them is refused."""

    def change(kind: str, before: Any, after: Any) -> bytes:
        return json.dumps({"op": kind, "before": before, "after": after}).encode()

    first, second, other = ({"id": n, "delay": d} for n, d in ((1, 20), (1, 40), (2, 90)))
    broker.topics.create("changes", partitions=1)
    broker.topics.create("newest", partitions=1)
    broker.topics.create("written", partitions=1)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for message in (
        change("c", None, first),
        change("c", None, other),
        change("u", first, second),
        change("d", other, None),
    ):
        producer.send("changes", message)
    producer.close()
    servers = broker.bootstrap_servers
    tables.env.execute_script(
        f"""
        CREATE TABLE changes (id BIGINT, delay BIGINT, at BIGINT METADATA FROM 'offset' VIRTUAL)
        WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = '{servers}',
          'topic' = 'changes', 'value.format' = 'debezium-json',
          'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
        CREATE TABLE documents (id BIGINT, hours DOUBLE, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'elasticsearch', 'hosts' = '{server.url}', 'index' = 'flights');
        INSERT INTO documents SELECT id, delay / 60 FROM changes WHERE delay > 10;
        """
    )
    server.request("POST", "/flights/_refresh")
    hits = server.request("GET", "/flights/_search")["hits"]["hits"]
    assert [(hit["_id"], round(hit["_source"]["hours"], 2)) for hit in hits] == [("1", 0.67)]
    assert tables.rows("SELECT id, round(hours, 2) FROM documents") == [(1, 0.67)]
    kinds = [row[-1] for row in tables.rows("SELECT id FROM changes")]
    assert kinds == ["+I", "+I", "-U", "+U", "-D"]
    tables.env.execute_script(
        f"""
        CREATE TABLE newest (id BIGINT, delay BIGINT NOT NULL, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'upsert-kafka', 'properties.bootstrap.servers' = '{servers}',
          'topic' = 'newest', 'key.format' = 'json', 'value.format' = 'json',
          'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
        INSERT INTO newest SELECT id, delay FROM changes;
        CREATE TABLE copies LIKE documents WITH ('index' = 'copies');
        INSERT INTO copies SELECT id, delay / 60 FROM newest;
        """
    )
    assert sorted(tables.rows("SELECT * FROM newest"), key=str) == [
        (1, 20, "+U"),
        (1, 40, "+U"),
        (2, 90, "+U"),
        (2, None, "-D"),
    ]
    server.request("POST", "/copies/_refresh")
    hits = server.request("GET", "/copies/_search")["hits"]["hits"]
    assert [hit["_id"] for hit in hits] == ["1"]
    tables.env.execute_script(
        f"""
        CREATE TABLE written (id BIGINT, delay BIGINT)
        WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = '{servers}',
          'topic' = 'written', 'key.format' = 'json', 'key.fields' = 'id',
          'value.format' = 'maxwell-json',
          'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
        INSERT INTO written SELECT id, delay FROM changes;
        """
    )
    assert tables.rows("SELECT * FROM written") == [
        (1, 20, "+I"),
        (2, 90, "+I"),
        (1, 20, "-D"),
        (1, 40, "+I"),
        (2, 90, "-D"),
    ]
    starred = tables.rows("SELECT c.*, 'from' AS word FROM changes c WHERE delay > 80")
    assert [(row[0], row[-2], row[-1]) for row in starred] == [
        (2, "+I", "from"),
        (2, "-D", "from"),
    ]
    for query in (
        "SELECT count(*) FROM changes",
        "SELECT DISTINCT id FROM changes",
        "SELECT * EXCEPT (_row_kind) FROM changes",
        "SELECT id FROM changes CLUSTER BY id",
        "SELECT id FROM changes TABLESAMPLE (10 PERCENT) AS c",
        "SELECT 1 FROM flights WHERE EXISTS (SELECT 1 FROM changes)",
    ):
        with pytest.raises(UnsupportedError, match="changelog"):
            tables.rows(query)
    with pytest.raises(UnsupportedError, match="updates and deletions"):
        tables.env.execute_sql("INSERT INTO late (id) SELECT id FROM changes")
