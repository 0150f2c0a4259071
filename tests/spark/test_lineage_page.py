# SPDX-License-Identifier: Apache-2.0
"""Runs the example of `docs/lineage.md`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENT = Path(__file__).parents[2] / "docs/lineage.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_reports_one_run_from_files_to_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "flights").mkdir()
    table = pa.table({"id": range(10), "delay": [30 * n for n in range(10)]})
    pq.write_table(table, tmp_path / "flights" / "all.parquet")
    (code,) = CODE.findall(DOCUMENT.read_text(encoding="utf-8"))
    variables: dict[str, Any] = {"spark": spark, "folder": str(tmp_path)}
    exec(compile(code, DOCUMENT.name, "exec", dont_inherit=True), variables)
    events = [json.loads(line) for line in (tmp_path / "lineage.json").read_text().splitlines()]
    assert [each["eventType"] for each in events] == ["START", "RUNNING", "COMPLETE"]
    assert len({each["run"]["runId"] for each in events}) == 1
    last = events[-1]
    (read,), (written,) = last["inputs"], last["outputs"]
    assert (read["namespace"], read["name"]) == ("file", f"{tmp_path}/flights")
    assert (written["namespace"], written["name"]) == ("file", f"{tmp_path}/late")
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 7
    columns = written["facets"]["columnLineage"]["fields"]
    origins = {
        name: [
            (each["name"], each["field"], each["transformations"][0]["subtype"])
            for each in found["inputFields"]
        ]
        for name, found in columns.items()
    }
    assert origins == {
        "id": [(read["name"], "id", "IDENTITY")],
        "hours": [(read["name"], "delay", "TRANSFORMATION")],
    }
