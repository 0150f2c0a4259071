# SPDX-License-Identifier: Apache-2.0
"""Runs the example of `docs/lineage.md`."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs/lineage.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("spark")
def test_the_example_reports_one_run_from_files_to_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (code,) = CODE.findall(DOCUMENT.read_text(encoding="utf-8"))
    variables: dict[str, Any] = {}
    exec(compile(code, DOCUMENT.name, "exec", dont_inherit=True), variables)
    folder = variables["folder"]
    events = [json.loads(line) for line in (folder / "lineage.json").read_text().splitlines()]
    assert [each["eventType"] for each in events] == ["START", "RUNNING", "COMPLETE"]
    assert len({each["run"]["runId"] for each in events}) == 1
    last = events[-1]
    (read,), (written,) = last["inputs"], last["outputs"]
    assert (read["namespace"], read["name"]) == ("file", f"{folder}/flights")
    assert (written["namespace"], written["name"]) == ("file", f"{folder}/late")
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 2
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
