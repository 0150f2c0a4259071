# SPDX-License-Identifier: Apache-2.0
"""The pytest entry point, which loads the suites' plugin in projects that request it.

A connector requests it with the table ``[tool.connector]`` of its ``pyproject.toml``. Any other
project requests it with ``connector_suites = true`` in its pytest options. In all other projects,
pytest behaves as without this package.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from typing import Any, Final

import pytest

_OPTION: Final = "connector_suites"
_SUITES: Final = "connectors_core.testing.suite_plugin"
_CASES: Final = "connectors_core.testing.cases"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the pytest option that requests the plugin."""
    parser.addini(_OPTION, "select and report the cases of connector suites", type="bool")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load the plugin if the project requests it."""
    if early_config.getini(_OPTION) or declared_connector(early_config) is not None:
        early_config.pluginmanager.import_plugin(_SUITES)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reject suites in a project without the plugin, because every case would run there."""
    cases = sys.modules.get(_CASES)
    if cases is None or config.pluginmanager.has_plugin(_SUITES):
        return
    for item in items:
        suite = getattr(item, "cls", None)
        if suite is not None and issubclass(suite, cases.ConnectorSuite):
            raise pytest.UsageError(
                f"{suite.__name__} is a connector suite, but this project does not request them: "
                f"set `{_OPTION} = true` in the pytest options"
            )


def declared_connector(config: pytest.Config) -> Mapping[str, Any] | None:
    """Return the table ``[tool.connector]`` of a run's ``pyproject.toml``, if it has one."""
    path = config.inipath
    if path is None or path.name != "pyproject.toml":
        return None
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    found: Mapping[str, Any] | None = tables.get("tool", {}).get("connector")
    return found
