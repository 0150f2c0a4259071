# SPDX-License-Identifier: Apache-2.0
"""Runs the examples in the README unchanged."""

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


@pytest.mark.parametrize(
    ("number", "name", "expected"),
    [
        (0, "found", ["B6725", "UA1545"]),
        (1, "titles", ["Whales", "Ships"]),
    ],
    ids=["read and write", "search by vector"],
)
def test_an_example_in_the_readme_finds_its_rows(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    name: str,
    expected: list[str],
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    codes = CODE.findall(README.read_text(encoding="utf-8"))
    assert len(codes) == 2
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(codes[number], README.name, "exec", dont_inherit=True), variables)
    assert variables[name] == expected
