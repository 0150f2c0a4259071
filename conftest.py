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
    out = []
    for item in items:
        line = item.get_closest_marker("line")
        if line is not None and line.args != (LINE,):
            item.add_marker(pytest.mark.slow)
            if line.kwargs.get("only"):
                out.append(item)
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]
