# SPDX-License-Identifier: Apache-2.0
"""Tests which files `tools/prose.py` checks, and what it finds in them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "prose", Path(__file__).parents[2] / "tools/prose.py"
)
prose = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(prose)

TEMPLATE = "connector-x/{{cookiecutter.name}}/{% if cookiecutter.sink %}sink.py{% endif %}"


def test_tests_suites_and_templates_are_checked() -> None:
    files = prose.files()
    assert "tests/unit/test_house.py" in files
    assert "connectors-core/src/connectors_core/testing/pace.py" in files
    template = "connector-template/connector-{{cookiecutter.name}}/"
    assert f"{template}src/{{{{cookiecutter.__package}}}}/client.py" in files
    assert any(name.endswith("sink.py{% endif %}") for name in files)
    assert any(name.endswith("sink.md{% endif %}") for name in files)
    assert not any(name.endswith("CHANGELOG.md") for name in files)


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.py", 'x = 1\nsay("rows that nobody wants")\n', [2]),
        ("a.py", 'def f():\n    """Do.\n\n    It goes\n    on.\n    """\n', [4]),
        ("a.py", "# it goes\n# on forever\nnobody = 1\n", [1]),
        ("a.md", "Plain.\n\n```python\nnobody\n```\n\nNobody\nknows.\n", [7]),
        (
            TEMPLATE,
            "{% if a %}\nx = 1\n{% endif %}\n# It goes\n# on here.\n\n# a way out\n",
            [4, 7],
        ),
        ("a.py", 'x = "the organisation: a group"\ny = "this organisation is"\n', [2]),
    ],
    ids=["string", "docstring", "comment", "page", "template", "name in Ivy"],
)
def test_telltale_phrases_are_found_with_their_lines(
    name: str, text: str, lines: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    assert [int(each.split(":")[1]) for each in prose.breaches(name)] == lines
