# SPDX-License-Identifier: Apache-2.0
"""Settings for the tests of all packages."""

import re
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings

from connectors_core.testing import ConnectorSuite
from connectors_core.testing.share import OPTION, has

# How long an example takes says nothing on a busy machine.
settings.register_profile("repository", deadline=None)
settings.load_profile("repository")

LINE = ".".join(version("pyspark").split(".")[:2])
OF_A_LINE = re.compile(r"^ *(?:import|from) (?:numpy|pandas|pyarrow|pyspark)\b", re.MULTILINE)
"""The libraries whose versions differ between the lines."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests to another line.

    A test that names its Spark line runs there, and in a full run on the others. A unit test on
    which the line has hardly any influence runs on one of the lines that share the tests.
    """
    kept, out = [], []
    share = config.getoption(OPTION)
    for item in items:
        line = item.get_closest_marker("line")
        elsewhere = line is not None and line.args != (LINE,)
        if elsewhere:
            item.add_marker(pytest.mark.slow)
        left = share and (name := _shared_name(item)) and not has(share, name)
        (out if left or (elsewhere and line.kwargs.get("only")) else kept).append(item)
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = kept


def _shared_name(item: pytest.Item) -> str | None:
    """Return the name that assigns a unit test to a line, or None if every line runs it."""
    if "unit" not in item.path.parts:
        return None
    suite = getattr(item, "cls", None)
    if suite is not None and issubclass(suite, ConnectorSuite):
        return None if suite.on_spark else suite.__name__
    return None if _has_libraries_of_a_line(item.path) else item.path.stem


@cache
def _has_libraries_of_a_line(file: Path) -> bool:
    return OF_A_LINE.search(file.read_text(encoding="utf-8")) is not None
