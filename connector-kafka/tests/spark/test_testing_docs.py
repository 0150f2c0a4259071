# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of docs/testing.md unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = CODE.findall(PAGE.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number: int) -> None:
    exec(compile(EXAMPLES[number], PAGE.name, "exec", dont_inherit=True), {})
