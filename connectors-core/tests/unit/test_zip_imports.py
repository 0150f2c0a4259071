# SPDX-License-Identifier: Apache-2.0
"""Spark's archives are read once; what a user adds is looked at again for every task."""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pytest

from connectors_core.runtime.zip_imports import keep_archives_of_spark


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("spark-core_2.13-4.3.0.jar", True),
        ("pyspark.zip", True),
        ("py4j-0.10.9.9-src.zip", True),
        ("connector.zip", False),
        ("my-pyspark.zip", False),
    ],
)
def test_only_archives_of_spark_stay_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kept: bool
) -> None:
    archive = tmp_path / name

    def hold(module: str) -> None:
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr(f"{module}.py", "")

    hold("before")
    finder = zipimporter(str(archive))
    monkeypatch.setitem(sys.path_importer_cache, str(archive), finder)
    keep_archives_of_spark()
    hold("later")
    importlib.invalidate_caches()
    assert (finder.find_spec("later") is None) == kept
