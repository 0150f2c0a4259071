# SPDX-License-Identifier: Apache-2.0
"""Runs the example in the README unchanged."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.cell
README = Path(__file__).parents[2] / "README.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_in_the_readme_finds_its_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (code,) = CODE.findall(README.read_text(encoding="utf-8"))
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, README.name, "exec", dont_inherit=True), variables)
    assert variables["found"] == ["B6725", "UA1545"]
