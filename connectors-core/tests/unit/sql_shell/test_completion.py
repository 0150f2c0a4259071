# SPDX-License-Identifier: Apache-2.0
"""Tests what completes a statement, at every kind of place in it. `|` is the cursor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.cli.sql.completion import Candidate, OptionHelp, candidates

TABLES = {
    (): ("flights", "late-flights"),
    ("shop",): ("orders",),
    ("lake", "shop"): ("orders",),
}
COLUMNS = {
    ("flights",): ("id", "delay", "carrier"),
    ("shop", "orders"): ("id", "price"),
    ("lake", "shop", "orders"): ("total",),
}
CONNECTOR = OptionHelp(key="connector", values=("filesystem", "kafka"))
FILES = (
    OptionHelp(key="path", doc="The folder."),
    OptionHelp(key="format", values=("csv", "json")),
    OptionHelp(key="storage-options."),
)


class FixedNames:
    """Names of a small environment."""

    def catalogs(self):
        return ("default_catalog", "lake")

    def databases(self, catalog=None):
        return ("default", "shop")

    def tables(self, database=()):
        return TABLES.get(tuple(database), ())

    def columns(self, table):
        return COLUMNS.get(tuple(table), ())

    def jobs(self):
        return ("insert-1", "other")

    def session_options(self):
        return (OptionHelp(key="pipeline.name"), OptionHelp(key="execution.runtime-mode"))

    def table_options(self, connector):
        return (CONNECTOR, *(FILES if connector == "filesystem" else ()))

    def catalog_options(self, type_):
        return (OptionHelp(key="type"), *((OptionHelp(key="hosts"),) if type_ else ()))

    def connector_of(self, table):
        return "filesystem" if table == ("flights",) else None


def found(text: str) -> list[Candidate]:
    before, _, after = text.partition("|")
    return candidates(before, after, FixedNames())


def completed(text: str) -> set[str]:
    """Return the possible texts after the completion."""
    before, _, after = text.partition("|")
    return {before[: each.start] + each.text + after for each in found(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sho|", {"show"}),
        ("SHOW CAT|", {"SHOW CATALOGS"}),
        ("SELECT 1; DESC|", {"SELECT 1; DESCRIBE"}),
        ("EXPLAIN INS|", {"EXPLAIN INSERT INTO", "EXPLAIN INSERT OVERWRITE"}),
        ("SELECT * FROM fli|", {"SELECT * FROM flights"}),
        ("SELECT * FROM late|", {"SELECT * FROM `late-flights`"}),
        ("SELECT * FROM `late|`", {"SELECT * FROM `late-flights`"}),
        ("SELECT * FROM `late|", {"SELECT * FROM `late-flights`"}),
        ("SELECT * FROM shop.|", {"SELECT * FROM shop.orders"}),
        ("SELECT * FROM lake.sh|", {"SELECT * FROM lake.shop"}),
        ("SELECT * FROM lake.shop.o|", {"SELECT * FROM lake.shop.orders"}),
        ("SELECT * FROM shop.orders o, fli|", {"SELECT * FROM shop.orders o, flights"}),
        ("SELECT de| FROM flights", {"SELECT delay FROM flights", "SELECT desc FROM flights"}),
        ("SELECT f.d| FROM flights AS f", {"SELECT f.delay FROM flights AS f"}),
        ("SELECT o.pr| FROM shop.orders o", {"SELECT o.price FROM shop.orders o"}),
        ("SELECT to| FROM lake.shop.orders", {"SELECT total FROM lake.shop.orders"}),
        ("INSERT INTO flights (car|", {"INSERT INTO flights (carrier"}),
        ("DROP TABLE IF EXISTS lat|", {"DROP TABLE IF EXISTS `late-flights`"}),
        ("USE sh|", {"USE shop"}),
        ("USE CATALOG la|", {"USE CATALOG lake"}),
        ("SHOW TABLES IN sh|", {"SHOW TABLES IN shop"}),
        ("SHOW CREATE TABLE fl|", {"SHOW CREATE TABLE flights"}),
        ("STOP JOB '|", {"STOP JOB 'insert-1'", "STOP JOB 'other'"}),
        ("DESCRIBE JOB 'o|'", {"DESCRIBE JOB 'other'"}),
    ],
)  # fmt: skip
def test_keywords_and_names_follow_from_the_place(text: str, expected: set[str]) -> None:
    assert completed(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE TABLE t (a INT) WITH (|", {"'connector' = '"}),
        ("CREATE TABLE t WITH ('con|", {"connector' = '"}),
        ("CREATE TABLE t WITH ('con|')", {"connector"}),
        ("CREATE TABLE t WITH ('connector' = 'f|", {"filesystem'"}),
        (
            "CREATE TABLE t WITH ('connector' = 'filesystem', |",
            {"'path' = '", "'format' = '", "'storage-options."},
        ),
        ("CREATE TABLE t WITH ('p|', 'connector' = 'filesystem')", {"path"}),
        ("CREATE TABLE t USING connector_filesystem OPTIONS ('f|", {"format' = '"}),
        ("CREATE TABLE t WITH ('connector' = 'filesystem', 'format' = '|", {"csv'", "json'"}),
        ("CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = '|", set()),
        ("ALTER TABLE flights SET ('fo|", {"format' = '"}),
        ("ALTER TABLE flights RESET ('fo|", {"format'"}),
        ("CREATE CATALOG c WITH (|", {"'type' = '"}),
        ("CREATE CATALOG c WITH ('type' = 'elasticsearch', 'h|", {"hosts' = '"}),
        ("SET '|", {"pipeline.name' = '", "execution.runtime-mode' = '"}),
        ("RESET 'p|", {"pipeline.name'"}),
    ],
)
def test_options_follow_from_the_connector(text: str, expected: set[str]) -> None:
    assert {each.text for each in found(text)} == expected


@pytest.mark.parametrize(
    "text", ["SELECT 1 -- SEL|", "SELECT /* fro|", "SELECT 'fro|", "CREATE TABLE la|", "SELECT 5|"]
)
def test_texts_comments_numbers_and_new_names_are_not_completed(text: str) -> None:
    assert not [
        each for each in found(text) if each.text.lower().startswith(("late", "fro", "sel"))
    ]


@given(st.text(alphabet="SELECTFROM selctfrom.,;'\"`()=-/*\n1", max_size=30), st.text(max_size=5))
def test_every_text_can_be_completed(before: str, after: str) -> None:
    for each in candidates(before, after, FixedNames()):
        assert 0 <= each.start <= len(before)
