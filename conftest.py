# SPDX-License-Identifier: Apache-2.0
"""Settings for the tests of all packages."""

from importlib.metadata import version

import pytest
from hypothesis import settings

# How long an example takes says nothing on a busy machine.
settings.register_profile("repository", deadline=None)
settings.load_profile("repository")

LINE = ".".join(version("pyspark").split(".")[:2])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave a test that names its Spark line to that line, or to the full run on the others."""
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
