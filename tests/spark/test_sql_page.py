# SPDX-License-Identifier: Apache-2.0
"""Runs the program of `docs/sql.md`, and creates its table."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from connectors_core import TableEnvironment

PAGE = (Path(__file__).parents[2] / "docs/sql.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    code, *_ = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(code)


@pytest.mark.usefixtures("spark")
def test_the_program_writes_late_flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    variables: dict[str, Any] = {}
    exec(compile(block("python"), "sql.md", "exec", dont_inherit=True), variables)
    assert pq.read_table(variables["folder"] / "late").sort_by("id").to_pylist() == [
        {"id": 2, "hours": 1.5},
        {"id": 3, "hours": 2.5},
    ]


def test_the_table_of_the_page_can_be_created(spark: SparkSession, tmp_path: Path) -> None:
    tables = TableEnvironment(spark, checkpoint_location=tmp_path)
    tables.execute_sql(block("sql"))
    assert tables.execute_sql("SHOW TABLES").collect() == [("orders",)]
