# SPDX-License-Identifier: Apache-2.0
"""Tests the names that a package imports on first use."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = ["connectors_core", "connectors_core.schema", "connectors_core.testing"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_exported_typed_and_listed(package: str) -> None:
    module = import_module(package)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (typed,) = (
        {
            name.name
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for name in node.names
        }
        for block in tree.body
        if isinstance(block, ast.If)
    )
    assert typed == set(module.__all__)
    assert typed <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = module.Nothing


def test_the_core_imports_no_spark_before_a_pipeline_needs_it() -> None:
    code = """
import sys
import connectors_core
dir(connectors_core)
assert not [name for name in sys.modules if name.startswith("connectors_core.s")]
from connectors_core import ConfigurationError, HybridSource, JsonFormat, RecordPolicy, Secret
assert "pyspark" not in sys.modules
from connectors_core.source import ReadLimits
assert ReadLimits is connectors_core.ReadLimits
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_pipeline_without_pyspark_names_the_command_that_installs_it() -> None:
    code = """
import sys
import connectors_core
sys.modules["pyspark"] = None
try:
    connectors_core.Pipeline
except connectors_core.MissingDependencyError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "run: pip install 'connectors-core[spark]'" in done.stdout, done.stderr


def test_formats_without_python_data_sources_name_the_alternative() -> None:
    code = """
import sys
sys.modules["pyspark.sql.datasource"] = None
try:
    import connectors_core.native
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "read with Pipeline.from_source" in done.stdout, done.stderr
