# SPDX-License-Identifier: Apache-2.0
"""Runs statements of Flink's own SQL tests; see `docs/dev/flink-sql-cases.md`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from connector_kafka.testing import KafkaBroker
from connectors_core import ConfigurationError, ConnectorError, TableEnvironment

NOON = datetime(2020, 3, 8, 12, tzinfo=UTC)
# The broker keeps old timestamps, too.
KEPT = {"retention.ms": "-1"}


class Statements:
    """An environment whose tables are created from a connector's options."""

    def __init__(self, spark: SparkSession, folder: Path, **options: str) -> None:
        self._env = TableEnvironment(spark, checkpoint_location=folder / "checkpoints")
        self._options = options

    def table(self, name: str, columns: str, *, partitions: str = "", **options: str) -> None:
        pairs = ", ".join(f"'{key}' = '{each}'" for key, each in (self._options | options).items())
        by = f"PARTITIONED BY ({partitions})" if partitions else ""
        self.run(f"CREATE TABLE {name} ({columns}) {by} WITH ({pairs})")

    def run(self, *statements: str) -> None:
        if len(statements) > 1:
            joined = "; ".join(statements)
            self._env.execute_sql(f"EXECUTE STATEMENT SET BEGIN {joined}; END")
        else:
            self._env.execute_sql(statements[0])

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return sorted(self._env.execute_sql(query).collect(), key=repr)


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def topics(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> Statements:
    return Statements(
        spark,
        tmp_path,
        **{
            "connector": "kafka",
            "properties.bootstrap.servers": broker.bootstrap_servers,
            "scan.startup.mode": "earliest-offset",
            "scan.bounded.mode": "latest-offset",
        },
    )


def test_a_column_routes_rows_to_topics_of_a_list_or_a_pattern(
    topics: Statements, broker: KafkaBroker
) -> None:
    for name in ("routed-1", "routed-2", "other"):
        broker.topics.create(name)
    columns = "topic STRING METADATA, id BIGINT, text STRING"
    topics.table("listed", columns, topic="routed-1;routed-2", format="json")
    topics.table("matched", columns, **{"topic-pattern": "routed-.*"}, format="json")
    topics.table("single", columns, topic="routed-1", format="json")
    topics.run(
        "INSERT INTO listed VALUES ('routed-1', 1L, 'a'), ('routed-2', 2L, 'b')",
        "INSERT INTO matched VALUES ('routed-2', 3L, 'c')",
    )
    found = [("routed-1", 1, "a"), ("routed-2", 2, "b"), ("routed-2", 3, "c")]
    assert topics.rows("SELECT * FROM listed") == found
    assert topics.rows("SELECT * FROM matched") == found
    assert topics.rows("SELECT * FROM single") == found[:1]
    with pytest.raises(ConnectorError, match="does not match the pattern"):
        topics.run("INSERT INTO listed VALUES ('other', 4L, 'd')")


def test_metadata_of_records_has_the_types_of_flink(
    topics: Statements, broker: KafkaBroker
) -> None:
    broker.topics.create("metadata", config=KEPT)
    topics.table(
        "records",
        """
        first STRING, `timestamp-type` STRING METADATA VIRTUAL, `timestamp` TIMESTAMP(3) METADATA,
        headers MAP<STRING, BYTES> METADATA, `partition` INT METADATA VIRTUAL,
        topic STRING METADATA VIRTUAL, last BOOLEAN
        """,
        topic="metadata",
        format="json",
    )
    topics.table(
        "listed",
        """
        first STRING, `header-list` ARRAY<ROW<`key` STRING, `value` BYTES>> METADATA,
        headers MAP<STRING, BYTES> METADATA VIRTUAL
        """,
        topic="metadata",
        format="json",
    )
    at = "TIMESTAMP '2020-03-08 12:00:00Z'"
    topics.run(
        f"""
        INSERT INTO records VALUES
          ('a', {at}, map('k1', X'C0FFEE', 'k2', CAST(NULL AS BINARY)), TRUE),
          ('b', {at}, CAST(NULL AS MAP<STRING, BINARY>), FALSE)
        """,
        """
        INSERT INTO listed VALUES ('c', array(
          named_struct('key', 'k1', 'value', X'01'), named_struct('key', 'k1', 'value', X'02')))
        """,
    )
    *written, later = topics.rows("SELECT * FROM records")
    assert [(*row[:2], row[2].timestamp(), *row[3:]) for row in written] == [
        (
            "a",
            "CreateTime",
            NOON.timestamp(),
            {"k1": b"\xc0\xff\xee", "k2": None},
            0,
            "metadata",
            True,
        ),
        ("b", "CreateTime", NOON.timestamp(), {}, 0, "metadata", False),
    ]
    assert later[3] == {"k1": b"\x02"}
    assert topics.rows("SELECT * FROM listed") == [
        ("a", [("k1", b"\xc0\xff\xee"), ("k2", None)], {"k1": b"\xc0\xff\xee", "k2": None}),
        ("b", [], {}),
        ("c", [("k1", b"\x01"), ("k1", b"\x02")], {"k1": b"\x02"}),
    ]


def test_keys_values_and_types_of_records_are_read_as_they_were_written(
    topics: Statements, broker: KafkaBroker
) -> None:
    """Also read committed, in windows, and up to offsets and timestamps."""
    for name in ("partial", "full", "prices", "upserts"):
        broker.topics.create(name, config=KEPT)
    topics.table(
        "partial",
        "k_user BIGINT, name STRING, `timestamp` TIMESTAMP(3) METADATA, k_event BIGINT, user INT",
        topic="partial",
        **{"key.format": "avro", "key.fields": "k_event; k_user", "key.fields-prefix": "k_"},
        **{"value.format": "csv", "value.fields-include": "EXCEPT_KEY"},
    )
    topics.table(
        "full",
        "user BIGINT, name STRING, event BIGINT",
        topic="full",
        **{"key.format": "json", "key.fields": "event; user"},
        **{"value.format": "avro", "value.fields-include": "ALL"},
        **{
            "sink.delivery-guarantee": "exactly-once",
            "properties.isolation.level": "read_committed",
        },
        **{"scan.bounded.mode": "specific-offsets"},
        **{"scan.bounded.specific-offsets": "partition:0,offset:2", "sink.parallelism": "1"},
    )
    topics.table(
        "prices",
        """
        raised AS price + 1.0, price DECIMAL(38, 18), currency STRING, day DATE, at TIMESTAMP(3),
        later AS at + INTERVAL '1' SECOND, WATERMARK FOR later AS later
        """,
        topic="prices",
        format="json",
    )
    topics.table(
        "upserts",
        """
        k_id BIGINT, text STRING, `timestamp` TIMESTAMP(3) METADATA,
        PRIMARY KEY (k_id) NOT ENFORCED
        """,
        connector="upsert-kafka",
        topic="upserts",
        **{"key.format": "csv", "key.fields-prefix": "k_"},
        **{"value.format": "json", "value.fields-include": "EXCEPT_KEY"},
        **{"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": "4"},
        **{"sink.parallelism": "1"},
    )
    at = "TIMESTAMP '2020-03-08 12:00:00Z'"
    topics.run(
        f"INSERT INTO partial VALUES (1L, 'a', {at}, 100L, 41), (2L, 'b', {at}, 101L, 42)",
        "INSERT INTO full VALUES (1L, 'a', 100L), (2L, 'b', 101L), (3L, 'c', 102L)",
        f"""
        INSERT INTO prices SELECT CAST(price AS DECIMAL(10, 2)), currency, DATE '2019-12-12',
          {at} + make_interval(0, 0, 0, 0, 0, 0, second)
        FROM VALUES (2.02, 'Euro', 1), (1.11, 'Dollar', 2), (50.00, 'Yen', 3), (3.10, 'Euro', 4),
          (5.33, 'Dollar', 5) AS orders (price, currency, second)
        """,
        """
        INSERT INTO upserts VALUES (1L, 'a', timestamp_millis(0)), (2L, 'b', timestamp_millis(1)),
          (1L, 'c', timestamp_millis(3)), (2L, 'd', timestamp_millis(7))
        """,
    )
    assert topics.rows("SELECT k_user, name, k_event, user FROM partial") == [
        (1, "a", 100, 41),
        (2, "b", 101, 42),
    ]
    assert topics.rows("SELECT * FROM full") == [(1, "a", 100), (2, "b", 101)]
    found = topics.rows(
        "SELECT second(window.end), max(day), count(*), CAST(max(raised) AS DECIMAL(10, 2)) "
        "FROM prices GROUP BY window(later, '5 seconds')"
    )
    assert found == [
        (10, date(2019, 12, 12), 2, Decimal("6.33")),
        (5, date(2019, 12, 12), 3, Decimal("51.00")),
    ]
    assert topics.rows("SELECT k_id, text FROM upserts") == [
        (1, "a", "+U"),
        (1, "c", "+U"),
        (2, "b", "+U"),
    ]
    topics.run("CREATE TABLE earlier LIKE upserts WITH ('scan.bounded.timestamp-millis' = '0')")
    assert topics.rows("SELECT * FROM earlier") == []


def test_changes_of_a_key_keep_their_order_in_several_writers(
    topics: Statements, broker: KafkaBroker
) -> None:
    for name in ("unordered", "ordered"):
        broker.topics.create(name)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for number in range(2000):
        producer.send("unordered", b'{"id": %d, "n": %d}' % (number % 5, number))
    producer.close()
    topics.table("unordered", "id BIGINT, n BIGINT", topic="unordered", format="json")
    upserts = {"connector": "upsert-kafka", "topic": "ordered", "sink.parallelism": "2"}
    topics.table(
        "ordered",
        "id BIGINT, n BIGINT, `offset` BIGINT METADATA VIRTUAL, PRIMARY KEY (id) NOT ENFORCED",
        **{**upserts, "key.format": "json", "value.format": "json"},
    )
    topics.run("INSERT INTO ordered SELECT id, n FROM unordered")
    found = sorted(topics.rows("SELECT id, `offset`, n FROM ordered"))
    assert [n for _, _, n, _ in found] == [n for key in range(5) for n in range(key, 2000, 5)]


def test_offsets_that_do_not_exist_are_an_error_or_replaced(
    topics: Statements, broker: KafkaBroker
) -> None:
    broker.topics.create("deleted")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for number in range(3):
        producer.send("deleted", b'{"id": %d}' % number)
    producer.close()
    broker.topics.delete_records("deleted", {0: 3})
    range_of = {
        "scan.startup.mode": "specific-offsets",
        "scan.startup.specific-offsets": "partition:0,offset:1",
        "scan.bounded.mode": "specific-offsets",
        "scan.bounded.specific-offsets": "partition:0,offset:3",
    }
    given = {"topic": "deleted", "format": "json"}
    topics.table("deleted", "id BIGINT", **given, **range_of)
    with pytest.raises(Exception, match="offset 1 of deleted-0 does not exist"):
        topics.rows("SELECT * FROM deleted")
    topics.table("tolerated", "id BIGINT", **given, **range_of, **{"on-data-loss": "earliest"})
    assert topics.rows("SELECT * FROM tolerated") == []
    group = {"scan.startup.mode": "group-offsets", "properties.group.id": "none-committed"}
    topics.table(
        "committed", "id BIGINT", **given, **group, **{"properties.auto.offset.reset": "none"}
    )
    with pytest.raises(ConfigurationError, match="no committed offset"):
        topics.rows("SELECT * FROM committed")


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Statements:
    return Statements(spark, tmp_path, connector="filesystem")


ROWS = "VALUES ('x1', 1, 1, 1L), ('x2', 2, 1, 2L), ('x3', 3, 2, 1L), ('x4', 4, 3, 1L)"


def test_partitions_are_fixed_by_the_statement_or_by_the_rows(
    files: Statements, tmp_path: Path
) -> None:
    def partitioned(name: str) -> None:
        files.table(
            name,
            """
            x STRING, y INT, a INT, b BIGINT, c AS b + 1,
            `file.name` STRING METADATA VIRTUAL, place STRING METADATA FROM 'file.path' VIRTUAL
            """,
            partitions="a, b",
            path=str(tmp_path / name),
            format="json",
        )

    for name in ("fixed", "partly", "of_rows"):
        partitioned(name)
    where = f"FROM {ROWS} AS rows (x, y, a, b) WHERE"
    files.run(
        f"INSERT INTO fixed PARTITION (a = '1', b = '1') SELECT x, y {where} a = 1 AND b = 1",
        f"INSERT INTO partly PARTITION (a = 3) SELECT x, y, b {where} a = 3",
        f"INSERT INTO of_rows SELECT x, y, a, b {where} true",
    )
    hidden = tmp_path / "fixed" / "a=1" / ".b=2"
    hidden.mkdir()
    (hidden / "part").write_text('{"x": "hidden", "y": 1}\n')
    for condition in ("true", "a = 1 AND b = 1"):
        assert files.rows(f"SELECT x, y FROM fixed WHERE {condition}") == [("x1", 1)]
    [(path, name)] = files.rows("SELECT place, `file.name` FROM fixed")
    assert path.endswith(f"{tmp_path}/fixed/a=1/b=1/{name}")
    assert files.rows("SELECT x, y FROM partly WHERE a = 3 AND b = 1") == [("x4", 4)]
    assert files.rows("SELECT x FROM partly WHERE a = 2") == []
    assert files.rows("SELECT y, b, x, c FROM of_rows WHERE a = 1 AND c = 3") == [(2, 2, "x2", 3)]
    files.run("SET 'pipeline.name' = 'again'")
    files.run(f"INSERT INTO of_rows SELECT x, y, a, b {where} true")
    assert [row[0] for row in files.rows("SELECT y FROM of_rows")] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_files_have_the_types_the_metadata_and_the_damages_of_flinks_tests(
    files: Statements, tmp_path: Path
) -> None:
    files.table(
        "decimals",
        "x DECIMAL(10, 0), y DECIMAL(3, 2), a INT",
        path=str(tmp_path / "decimals"),
        format="csv",
    )
    files.run(
        "INSERT INTO decimals SELECT CAST(x AS DECIMAL(10, 0)), CAST(y AS DECIMAL(3, 2)), a "
        "FROM VALUES (2113554011, 1.32, 1), (2113554022, 2.64, 2) AS rows (x, y, a)"
    )
    assert files.rows("SELECT x, y FROM decimals") == [
        (Decimal(2113554011), Decimal("1.32")),
        (Decimal(2113554022), Decimal("2.64")),
    ]
    assert files.rows("SELECT x FROM decimals WHERE a = 10086") == []
    assert len(files.rows("SELECT x FROM decimals LIMIT 1")) == 1
    files.table(
        "described",
        """
        `file.path` STRING METADATA, `file.name` STRING METADATA, `file.size` BIGINT METADATA,
        `file.modification-time` TIMESTAMP_LTZ(3) METADATA, x STRING, y STRING, a INT
        """,
        path=str(tmp_path / "decimals"),
        format="csv",
    )
    for path, name, size, at, *_ in files.rows("SELECT * FROM described"):
        found = Path(path.removeprefix("file://"))
        assert (found.name, found.stat().st_size) == (name, size)
        assert abs(found.stat().st_mtime - at.timestamp()) < 0.01
    dialect = {"csv.header": "false", "csv.escape-character": "^"}
    for kind, text, more in (
        ("csv", "x5,5\nx5,5,2\nx^,6,6\n", dialect),
        ("json", '{"x":"x5","y":5}\n{I am wrong.}\n{"x":"x,6","y":6}\n', {}),
    ):
        folder = tmp_path / f"damaged-{kind}"
        folder.mkdir()
        (folder / "test_file").write_text(text)
        more |= {f"{kind}.ignore-parse-errors": "true"}
        files.table(f"from_{kind}", "x STRING, y INT", path=str(folder), format=kind, **more)
        assert files.rows(f"SELECT * FROM from_{kind}") == [("x,6", 6), ("x5", 5)]
