# SPDX-License-Identifier: Apache-2.0
"""The entry point for pytest: loads the plugin of the suites in projects that ask for it.

A connector asks by the table ``[tool.connector]`` of its ``pyproject.toml``, any other project by
``connector_suites = true`` among its options of pytest. pytest behaves as without this package
everywhere else.
"""

from __future__ import annotations

import sys
import tomllib
from typing import Final

import pytest

_OPTION: Final = "connector_suites"
_SUITES: Final = "connectors_core.testing.suite_plugin"
_CASES: Final = "connectors_core.testing.cases"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which a project asks."""
    parser.addini(_OPTION, "select and report the cases of connector suites", type="bool")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load the plugin where the project asks for it."""
    if early_config.getini(_OPTION) or _is_connector(early_config):
        early_config.pluginmanager.import_plugin(_SUITES)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse suites in a project that has not asked: each case would run, whatever applies."""
    cases = sys.modules.get(_CASES)
    if cases is None or config.pluginmanager.has_plugin(_SUITES):
        return
    for item in items:
        suite = getattr(item, "cls", None)
        if suite is not None and issubclass(suite, cases.ConnectorSuite):
            raise pytest.UsageError(
                f"{suite.__name__} is a connector suite, and this project does not ask for them: "
                f"set `{_OPTION} = true` in the options of pytest"
            )


def _is_connector(config: pytest.Config) -> bool:
    path = config.inipath
    if path is None or path.name != "pyproject.toml":
        return False
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return "connector" in tables.get("tool", {})
