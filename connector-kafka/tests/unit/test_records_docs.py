# SPDX-License-Identifier: Apache-2.0
"""Runs the example of docs/records.md."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "records.md"


def test_the_example_runs():
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(example, PAGE.name, "exec", dont_inherit=True), {})
