# SPDX-License-Identifier: Apache-2.0
"""Tests that the statements and types of docs/reference/sql.md are read as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from connectors_core.schema import parse_schema
from connectors_core.table.sql import parse_script
from connectors_core.table.sql.statements import CreateTable, SparkStatement

PAGE = (Path(__file__).parents[2] / "docs/reference/sql.md").read_text(encoding="utf-8")
SCRIPTS = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
# Rows of types without parameters.
TYPES = re.findall(r"^\| ([A-Z_ ,`]+) \| ([a-z0-9\[\], UTC`]+) \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
def test_the_statements_are_those_of_the_environment(script: str) -> None:
    statements = parse_script(script)
    assert len(statements) == script.count(";\n") - 2 * script.count("BEGIN\n")
    for each in statements:
        assert not isinstance(each, SparkStatement) or each.text.startswith(
            ("SET spark.", "RESET spark.", "DROP TEMPORARY FUNCTION ")
        )


def test_the_types_are_those_of_arrow() -> None:
    assert len(TYPES) >= 8
    for written, arrow in TYPES:
        names, kinds = (re.findall(r"`([^`]+)`", cell) for cell in (written, arrow))
        for name, kind in zip(names, kinds, strict=True):
            found = str(parse_schema(f"c {name}").field(0).type)
            assert found.replace("tz=", "") == kind


def test_other_spellings_of_types_are_the_same() -> None:
    pairs = {
        "BYTE": "TINYINT",
        "REAL": "FLOAT",
        "NUMERIC(5, 1)": "DECIMAL(5, 1)",
        "VARCHAR(3)": "STRING",
        "BYTES": "BINARY",
        "VARBINARY(4)": "BINARY",
        "TIMESTAMP(3)": "TIMESTAMP",
        "ROW<a INT>": "STRUCT<a: INT>",
    }
    for one, other in pairs.items():
        (first,), (second,) = (
            parse_script(f"CREATE TABLE t (c {kind}) WITH ('connector' = 'x')")
            for kind in (one, other)
        )
        assert isinstance(first, CreateTable)
        assert first == second
