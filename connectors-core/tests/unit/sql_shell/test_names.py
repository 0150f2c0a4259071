# SPDX-License-Identifier: Apache-2.0
"""Tests which statements completion runs to know names."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest
from simulated_sql_engine import FixedResult, SimulatedEngine

from connectors_core.cli.sql import names as names_module
from connectors_core.cli.sql.names import EngineNames
from connectors_core.cli.sql.statement_thread import StatementThread


class Describing(SimulatedEngine):
    """An engine in which all tables have one column."""

    catalog = "default_catalog"

    def execute(self, text: str) -> FixedResult:
        result = super().execute(text)
        if text == "SHOW CURRENT CATALOG":
            return FixedResult(("catalog",), [(self.catalog,)])
        if text == "SHOW CREATE TABLE `v`":
            return FixedResult(("statement",), [("CREATE VIEW v AS SELECT 1 AS id",)])
        if text == "SHOW CREATE TABLE `files`":
            created = "CREATE TABLE files (id INT) WITH ('connector' = 'filesystem')"
            return FixedResult(("statement",), [(created,)])
        if text == "SHOW CREATE TABLE `of_spark`":
            return FixedResult(("statement",), [("CREATE TABLE t (id INT) USING x LOCATION 'y'",)])
        if text.startswith("DESCRIBE"):
            return FixedResult(("name",), [("id",), ("# Partitions",)])
        return result


@pytest.fixture
def engine() -> Describing:
    return Describing()


@pytest.fixture
def thread(engine: Describing) -> Iterator[StatementThread]:
    made = StatementThread(lambda: engine, print)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("current", "table", "columns"),
    [
        ("default_catalog", ("t",), ["id"]),
        ("default_catalog", ("of_spark",), ["id"]),
        ("default_catalog", ("default", "t"), ["id"]),
        ("kafka", ("default_catalog", "default", "t"), ["id"]),
        ("kafka", ("t",), []),
        ("kafka", ("default", "t"), []),
        ("default_catalog", ("kafka", "default", "t"), []),
    ],
)
def test_completion_describes_no_table_whose_catalog_may_infer_it(
    engine: Describing,
    thread: StatementThread,
    current: str,
    table: Sequence[str],
    columns: Sequence[str],
) -> None:
    engine.catalog = current
    names = EngineNames(thread, [])
    assert list(names.columns(table)) == columns
    assert names.connector_of(table) is None
    asked = {each.split()[0] for each in engine.executed if "CURRENT" not in each}
    assert asked == ({"DESCRIBE", "SHOW"} if columns else set())


def test_completion_describes_no_view_which_would_run_its_query(
    engine: Describing, thread: StatementThread
) -> None:
    names = EngineNames(thread, [])
    assert names.columns(("v",)) == ()
    assert "DESCRIBE `v`" not in engine.executed
    assert names.connector_of(("v",)) is None
    assert names.connector_of(("files",)) == "filesystem"


def test_a_question_that_waits_too_long_is_not_asked_later(
    engine: Describing, thread: StatementThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names_module, "_PATIENCE_SECONDS", 0.01)
    free = threading.Event()
    busy = thread.submit(lambda _: free.wait(30))
    assert EngineNames(thread, []).tables() == ()
    free.set()
    assert busy.result(30)
    thread.submit(lambda _: None).result(30)
    assert engine.executed == []
