# SPDX-License-Identifier: Apache-2.0
"""Tests that former names work with a warning, except in released connectors, which use them."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types

import pytest

from connectors_core.annotations import ConnectorDeprecationWarning, removed_names

FORMER = [
    ("connectors_core.ddl.SCHEMA", "connectors_core.schema.SCHEMA"),
    ("connectors_core.ddl.parse_schema", "connectors_core.schema.parse_schema"),
    ("connectors_core.protocol.decision_path", "connectors_core.engine.protocol.decision_path"),
    ("connectors_core.protocol.report_path", "connectors_core.engine.protocol.report_path"),
    ("connectors_core.runtime.Pipeline", "connectors_core.Pipeline"),
    ("connectors_core.source.PlanLimits", "connectors_core.source.ReadLimits"),
]
PROGRAM = """
from connectors_core.annotations import public
from connectors_core.ddl import SCHEMA
from connectors_core.source import PlanLimits
public(PlanLimits)
"""


def imported(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("former", "today"), FORMER)
def test_a_former_name_warns_and_is_the_same_object(former: str, today: str) -> None:
    with pytest.warns(ConnectorDeprecationWarning, match=f"removed in 2.0.0; use {today}") as seen:
        found = imported(former)
    assert found is imported(today)
    assert [warning.filename for warning in seen] == [__file__]


def test_an_unknown_name_of_a_former_module_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'schema'"):
        imported("connectors_core.ddl.schema")


def test_the_former_mark_of_public_names_warns_and_does_nothing() -> None:
    from connectors_core.annotations import public

    with pytest.warns(ConnectorDeprecationWarning, match="use `__all__`"):
        assert public(imported) is imported


def test_only_a_released_connector_uses_former_names_without_a_warning() -> None:
    released, other = map(warnings_in, ("connector_kafka.source.options", "connector_pulsar"))
    assert released == ""
    assert "connector_pulsar" not in other
    for name in ("ddl.SCHEMA", "source.PlanLimits", "annotations.public"):
        assert f"ConnectorDeprecationWarning: connectors_core.{name} is deprecated" in other


def test_importing_a_removed_name_says_what_replaces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("pump")
    module.__getattr__ = removed_names("pump", {"Valve": "Gate"})  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "pump", module)
    with pytest.raises(ImportError, match=r"^Valve is removed from pump; use Gate$"):
        exec("from pump import Valve")
    assert not hasattr(module, "Gate")


def warnings_in(module: str) -> str:
    """Run the program as the code of a module, and return what it writes to stderr."""
    code = f"exec({PROGRAM!r}, {{'__name__': {module!r}}})"
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True
    )
    return done.stderr
