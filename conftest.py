# SPDX-License-Identifier: Apache-2.0
"""Settings for the tests of all packages."""

import re
from functools import cache
from hashlib import blake2b
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests to another line.

    A test that names its Spark line runs there, and in a full run on the others. A unit test on
    which the line has hardly any influence runs on one of the lines that share the tests.
    """
    kept, out = [], []
    share = config.getoption("--connector-share")
    for item in items:
        line = item.get_closest_marker("line")
        elsewhere = line is not None and line.args != (LINE,)
        if elsewhere:
            item.add_marker(pytest.mark.slow)
        left = share is not None and line is None and _is_left_to_another_line(item, *share)
        (out if left or (elsewhere and line.kwargs.get("only")) else kept).append(item)
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = kept


def _is_left_to_another_line(item: pytest.Item, number: int, lines: int) -> bool:
    if "unit" not in item.path.parts:
        return False
    suite = getattr(item, "cls", None)
    if suite is not None and issubclass(suite, ConnectorSuite):
        shared, name = not suite.on_spark, suite.__name__
    else:
        shared, name = not _has_libraries_of_a_line(item.path), item.path.stem
    # As `--connector-share` does, so that a suite and its slow cases stay together.
    return shared and int.from_bytes(blake2b(name.encode()).digest()) % lines != number - 1


@cache
def _has_libraries_of_a_line(file: Path) -> bool:
    return OF_A_LINE.search(file.read_text(encoding="utf-8")) is not None
