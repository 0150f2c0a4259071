# SPDX-License-Identifier: Apache-2.0
"""A connector that is built for another Spark says so when it is imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors_core.compatibility import check_spark
from connectors_core.errors import SparkMismatchError

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts the metadata of a distribution before that of this environment."""
    monkeypatch.syspath_prepend(tmp_path)

    def installed(name: str, version: str) -> None:
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}")

    return installed


def test_a_build_for_another_spark_is_refused_with_the_command_that_mends_it(install):
    install("connector-kafka", "3.1.2.3.5")
    install("pyspark", "4.3.0")
    with pytest.raises(SparkMismatchError) as caught:
        check_spark("connector-kafka")
    assert str(caught.value).splitlines() == [
        "[SPARK_MISMATCH] connector-kafka 3.1.2 is built for another Spark than the one that is "
        "installed",
        "  expected: pyspark 3.5 for connector-kafka 3.1.2-3.5",
        "  found: pyspark 4.3.0",
        "  hint: run: pip install 'connector-kafka==3.1.2.*' 'pyspark==4.3.*'",
    ]


@pytest.mark.parametrize(
    ("version", "pyspark"),
    [
        ("3.1.2.3.5", "3.5.9"),
        ("3.1.2.3.5", "3.5.10.dev0"),
        ("3.1.2.4.10", "4.10.1"),
        ("3.1.2", "4.3.0"),  # a checkout is for every line
    ],
)
def test_a_build_for_the_installed_spark_is_taken(install, version, pyspark):
    install("connector-kafka", version)
    install("pyspark", pyspark)
    check_spark("connector-kafka")


def test_lines_are_compared_as_a_whole(install):
    install("connector-kafka", "3.1.2.4.1")
    install("pyspark", "4.10.1")
    with pytest.raises(SparkMismatchError):
        check_spark("connector-kafka")


def test_without_metadata_nothing_is_checked():
    check_spark("connector-nobody-has-installed")


def test_spark_is_not_imported():
    program = (
        "import sys; from connectors_core.compatibility import check_spark; "
        "check_spark('connector-filesystem'); sys.exit('pyspark' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
