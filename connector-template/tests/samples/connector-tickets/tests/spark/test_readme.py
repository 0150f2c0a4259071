# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of the README unchanged."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

README = Path(__file__).parents[2] / "README.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


EXAMPLES = CODE.findall(README.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("number", "column", "values"),
    [
        (0, "title", ["late", "lost bag"]),
    ],
)
def test_the_examples_of_the_readme(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    column: str,
    values: list[Any],
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(EXAMPLES[number], README.name, "exec", dont_inherit=True), variables)
    assert [row[column] for row in variables["found"]] == values
