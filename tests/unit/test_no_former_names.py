# SPDX-License-Identifier: Apache-2.0
"""Tests that the connectors use no former name of the core."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The core does not warn released connectors, whose modules have the same names.
PROGRAM = """
import importlib, pkgutil, sys, warnings
from connectors_core.annotations import ConnectorDeprecationWarning
sys.modules["connectors_core.annotations"]._RELEASED = ()
warnings.simplefilter("error", ConnectorDeprecationWarning)
package = importlib.import_module(sys.argv[1])
for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
    importlib.import_module(each.name)
"""


@pytest.mark.parametrize(
    "package", ["connector_filesystem", "connector_kafka", "connector_elasticsearch"]
)
def test_no_module_of_a_connector_imports_a_former_name(package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, package], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
