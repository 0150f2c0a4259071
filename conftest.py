# SPDX-License-Identifier: Apache-2.0
"""Settings for the tests of all packages."""

import re
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings

from connectors_core.testing import ConnectorSuite

# How long an example takes says nothing on a busy machine.
settings.register_profile("repository", deadline=None)
settings.load_profile("repository")

LINE = ".".join(version("pyspark").split(".")[:2])
OF_A_LINE = re.compile(r"^ *(?:import|from) (?:numpy|pandas|pyarrow|pyspark)\b", re.MULTILINE)
"""The libraries whose versions differ between the lines."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let the lines share a unit test on which the line has hardly any influence."""
    if "unit" not in item.path.parts or item.get_closest_marker("line"):
        return
    suite = getattr(item, "cls", None)
    if suite is not None and issubclass(suite, ConnectorSuite):
        shared = not suite.on_spark
    else:
        shared = not _has_libraries_of_a_line(item.path)
    if shared:
        item.add_marker("connector_share")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave a test that names its Spark line to that line, and in a full run to the others."""
    kept, out = [], []
    for item in items:
        line = item.get_closest_marker("line")
        elsewhere = line is not None and line.args != (LINE,)
        if elsewhere:
            item.add_marker(pytest.mark.slow)
        (out if elsewhere and line.kwargs.get("only") else kept).append(item)
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = kept


@cache
def _has_libraries_of_a_line(file: Path) -> bool:
    return OF_A_LINE.search(file.read_text(encoding="utf-8")) is not None
