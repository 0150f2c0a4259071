# SPDX-License-Identifier: Apache-2.0
"""Tests that the streaming results of Nexmark's queries are those of a database in batch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from examples.nexmark.generator import NexmarkGenerator, NexmarkTableFactory
from pyspark.sql import SparkSession

from connector_kafka.testing import KafkaBroker
from connectors_core import TableEnvironment, UnsupportedError
from connectors_core.errors import ConnectorError
from connectors_core.schema import ROW_KIND_COLUMN
from connectors_core.table import register_factory

ROOT = Path(__file__).parents[2]
NEXMARK = ROOT / "examples/nexmark"
EVENTS = 10_000
AT_ONCE = 4
QUERIES = sorted((each.stem for each in NEXMARK.glob("queries/*.sql")), key=lambda q: int(q[1:]))
REFUSED = sorted(each.stem for each in NEXMARK.glob("refused/*.sql"))
# A row of the page: query, kind of rows, number of rows, difference, and the reason of Spark.
PAGE = {
    row[0]: row
    for line in (ROOT / "docs/dev/nexmark.md").read_text(encoding="utf-8").splitlines()
    if (row := [each.strip() for each in line.strip("|").split("|")])[0] in QUERIES
}
TARGETS = """
CREATE TABLE appended (bidder BIGINT, n BIGINT)
WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/appended', 'format' = 'parquet');
CREATE TABLE replaced (bidder BIGINT, n BIGINT) WITH ('connector' = 'print');
"""
# Flink's statement for q5.
HOT_ITEMS = """
INSERT INTO nothing
SELECT auctions.auction, auctions.num, auctions.w.start
FROM (
  SELECT auction, count(*) AS num, window AS w FROM bid
  GROUP BY auction, window(date_time, '10 seconds', '2 seconds')
) AS auctions
JOIN (
  SELECT max(num) AS highest, w
  FROM (
    SELECT count(*) AS num, window AS w FROM bid
    GROUP BY auction, window(date_time, '10 seconds', '2 seconds')
  )
  GROUP BY w
) AS highest
ON auctions.w = highest.w AND auctions.num >= highest.highest
"""
SIDE_INPUT = {key: f"value {key}" for key in range(1000, 2000)}


def text(path: str) -> str:
    return (NEXMARK / path).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Auctions:
    """The events as tables, and as a database with the same ones."""

    tables: TableEnvironment
    database: duckdb.DuckDBPyConnection
    pool: Executor
    _results: dict[str, Future[Counter[tuple[Any, ...]]]] = field(default_factory=dict)

    def rows(self, query: str) -> Counter[tuple[Any, ...]]:
        """Return the result of a query, while the next ones run already."""
        at = QUERIES.index(query)
        for each in QUERIES[at : at + AT_ONCE]:
            if each not in self._results:
                self._results[each] = self.pool.submit(self._run, each)
        return self._results[query].result()

    def _run(self, query: str) -> Counter[tuple[Any, ...]]:
        """Run the statements of a query and return its result."""
        self.tables.execute_script(text(f"queries/{query}.sql"))
        frame = self.tables.from_path(query)
        found = [plain(each) for each in frame.drop(ROW_KIND_COLUMN).collect()]
        places = self.keys(query)
        if places:  # the newest row of a key, from a topic with one partition
            found = [*{tuple(row[place] for place in places): row for row in found}.values()]
        if query == "q12":  # the window of a bid depends on the clock
            sums: Counter[Any] = Counter()
            for bidder, _start, bids in found:
                sums[bidder] += bids
            found = [*sums.items()]
        return Counter(found)

    def keys(self, query: str) -> list[int]:
        """Return the places of the primary key in the result of a query."""
        columns = self.tables.execute_sql(f"DESCRIBE {query}").collect()
        return [place for place, each in enumerate(columns) if each[2] == "PRI"]

    def expected(self, query: str) -> Counter[tuple[Any, ...]]:
        """Return the result of a query in batch."""
        found = self.database.execute(text(f"expected/{query}.sql")).fetchall()
        return Counter(map(plain, found))


def plain(value: Any) -> Any:
    """Return a value with tuples as rows, and without time zones."""
    match value:
        case dict():
            return plain([*value.values()])
        case list() | tuple():
            return tuple(map(plain, value))
        case datetime():
            return value.astimezone(UTC).replace(tzinfo=None)
    return value


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    events = pa.table(NexmarkGenerator()(pa.array(range(EVENTS))))
    side = pa.table({"key": list(SIDE_INPUT), "value": list(SIDE_INPUT.values())})
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    database.register("generated", events)
    database.register("side_input", side)
    database.execute(
        "CREATE TABLE events AS SELECT * REPLACE (CAST(date_time AS TIMESTAMP) AS date_time), "
        "NULL AS now FROM generated"
    )
    database.execute(text("views.sql"))
    return database


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("generated", marks=pytest.mark.line("3.5")),
        pytest.param("recorded", marks=pytest.mark.line("4.3")),
    ],
)
def auctions(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    broker: KafkaBroker,
    database: duckdb.DuckDBPyConnection,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Auctions]:
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "side_input").mkdir()
    lines = ["key,value", *(f"{key},{value}" for key, value in SIDE_INPUT.items()), ""]
    (folder / "side_input" / "1.csv").write_text("\n".join(lines))
    topics = ["nexmark", *QUERIES]
    for topic in topics:
        broker.topics.create(topic, partitions=2 if topic == "nexmark" else 1)
    register_factory(NexmarkTableFactory)
    with (
        pytest.MonkeyPatch.context() as patch,
        TableEnvironment(spark, checkpoint_location=folder / "checkpoints") as tables,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        patch.setenv("NEXMARK_SERVERS", broker.bootstrap_servers)
        patch.setenv("NEXMARK_OUTPUT", str(folder))
        tables.execute_script(text("tables.sql"))
        if request.param == "recorded":
            tables.execute_sql(
                "INSERT INTO recorded "
                "SELECT event_type, person, auction, bid, date_time FROM generated"
            )
        tables.execute_sql(f"CREATE VIEW events AS SELECT * FROM {request.param}")
        tables.execute_script(text("views.sql"))
        tables.execute_script(TARGETS)
        tables.execute_sql("SET 'execution.runtime-mode' = 'streaming'")
        yield Auctions(tables, database, pool)
    for topic in topics:
        broker.topics.delete(topic)


@pytest.mark.parametrize("query", QUERIES)
def test_the_result_of_a_stream_is_that_of_a_batch(auctions: Auctions, query: str) -> None:
    expected = auctions.expected(query)
    assert auctions.rows(query) == expected
    _query, kind, rows, *_ = PAGE[query]
    assert (kind == "replaced") == bool(auctions.keys(query))
    assert rows == str(expected.total())


@pytest.mark.parametrize("query", REFUSED)
def test_a_statement_of_flink_is_refused_for_the_reason_on_the_page(
    auctions: Auctions, query: str
) -> None:
    with pytest.raises(ConnectorError) as caught:
        auctions.tables.execute_script(text(f"refused/{query}.sql"))
    reasons = re.findall(r"`([^`]+)`", PAGE[query][-1])
    assert any(each in str(caught.value) for each in reasons), caught.value


@pytest.mark.slow
def test_aggregates_of_two_depths_can_be_joined(auctions: Auctions) -> None:
    result = auctions.tables.execute_sql(HOT_ITEMS)
    rows = sum(sink.rows for sink in result.status().sinks)
    assert rows == int(PAGE["q5"][2])


def test_the_page_has_all_queries() -> None:
    assert list(PAGE) == QUERIES
    assert sorted(query for query, row in PAGE.items() if row[-1]) == sorted(REFUSED)


@pytest.mark.parametrize(
    ("target", "query", "shown"),
    [
        ("appended", "SELECT bidder, count(*) FROM bid GROUP BY bidder", "cannot replace"),
        (
            "replaced",
            "SELECT bidder, count(*) AS n FROM bid GROUP BY bidder HAVING n < 3",
            "found: Filter",
        ),
    ],
)
def test_an_aggregate_without_a_window_needs_a_table_that_replaces_its_rows(
    auctions: Auctions, target: str, query: str, shown: str
) -> None:
    with pytest.raises(UnsupportedError, match=shown):
        auctions.tables.execute_sql(f"INSERT INTO {target} {query}")
