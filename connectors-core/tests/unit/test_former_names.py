# SPDX-License-Identifier: Apache-2.0
"""Tests that moved modules can be imported by their former names."""

from __future__ import annotations

import importlib

import pytest

import connectors_core
from connectors_core.annotations import ConnectorDeprecationWarning


@pytest.mark.parametrize(
    ("former", "today"),
    [
        ("connectors_core.ddl", "connectors_core.schema.ddl"),
        ("connectors_core.protocol", "connectors_core.engine.protocol"),
    ],
)
def test_former_modules_export_the_same_objects(former: str, today: str) -> None:
    shim, module = importlib.import_module(former), importlib.import_module(today)
    assert shim.__all__
    for name in shim.__all__:
        assert getattr(shim, name) is getattr(module, name)


def test_the_runtime_module_warns_and_exports_the_pipeline() -> None:
    with pytest.warns(ConnectorDeprecationWarning, match="from connectors_core import Pipeline"):
        from connectors_core.runtime import Pipeline
    assert Pipeline is connectors_core.Pipeline
