# SPDX-License-Identifier: Apache-2.0
"""Tests the rules of `tools/house.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "house", Path(__file__).parents[2] / "tools/house.py"
)
house = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(house)


def test_classes_and_modules_above_the_size_limit_are_reported() -> None:
    large = ["class Large:", *["    x = 1"] * (house.LINES_OF_A_CLASS - 1)]
    assert house.too_large(large, 700) == []
    assert house.too_large([*large, "    x = 1"], 700) == [
        "1: class Large of 451 lines, the most is 450"
    ]
    assert house.too_large(["x = 1"] * 700, 700) == []
    assert house.too_large(["x = 1"] * 701, 700) == ["1: a module of 701 lines, the most is 700"]


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("connectors-core/src/connectors_core/errors.py", 700),
        ("connectors-core/tests/unit/toy_sink.py", 900),
        ("tests/unit/test_house.py", 900),
        ("connectors-core/tests/unit/state/report.json", None),
        ("benchmarks/memory.py", None),
    ],
)
def test_the_size_of_a_module_is_limited_by_its_folder(name: str, limit: int | None) -> None:
    assert house.most_lines(Path(name)) == limit
