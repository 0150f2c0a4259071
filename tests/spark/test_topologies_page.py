# SPDX-License-Identifier: Apache-2.0
"""Runs the pipeline of docs/write-a-connector/topologies.md, which has all three topologies."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from page_modules import modules_of
from pyspark import cloudpickle

DOCUMENT = Path(__file__).parents[2] / "docs/write-a-connector/topologies.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

for module in modules_of("write-a-connector/topologies.md").values():
    cast(Any, cloudpickle).register_pickle_by_value(module)  # executors cannot import it


@pytest.mark.usefixtures("spark")
def test_sorted_files_appear_in_snapshots_and_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    blocks = CODE.findall(DOCUMENT.read_text(encoding="utf-8"))
    (code,) = (each for each in blocks if "with Pipeline(" in each)
    variables: dict[str, Any] = {}
    exec(compile(code, DOCUMENT.name, "exec", dont_inherit=True), variables)
    out = variables["folder"] / "out"
    files = {path.name: pq.read_table(path)["value"].to_pylist() for path in out.glob("*.parquet")}
    assert sorted(number for numbers in files.values() for number in numbers) == list(range(1000))
    assert all(numbers == sorted(numbers) for numbers in files.values())
    assert (out / "_latest").read_text().split() == sorted(files)
    assert not list(out.glob("_staged/*/*/*"))
