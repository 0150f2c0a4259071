# SPDX-License-Identifier: Apache-2.0
"""Tests that the import of a connector checks whether its build fits Spark and Python."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors_core import compatibility
from connectors_core.compatibility import (
    EndOfLifeWarning,
    OutsideMatrixWarning,
    check_spark,
    installed_spark,
)
from connectors_core.errors import ConfigurationError, SparkMismatchError

Install = Callable[..., Path]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
LINES = {
    "3.5": {"spark": ["3.5"], "python": [PYTHON]},
    "4.3": {"spark": ["4.3", "4.2"], "python": [PYTHON, "4.0"]},
    "4.10": {"spark": ["4.10"], "python": [PYTHON]},
}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a connector, or the files of pyspark, ahead of this environment's packages."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.setattr(compatibility, "LINES", LINES)

    def installed(name: str, version: str, *metadata: str, **files: str) -> Path:
        if name == "pyspark":  # as a platform provides it, without metadata
            package = tmp_path / "pyspark"
            package.mkdir()
            (package / "__init__.py").touch()
            (package / "version.py").write_text(f'__version__: str = "{version}"\n')
            return package
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        head = ("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *metadata)
        (folder / "METADATA").write_text("\n".join(head))
        for file, text in files.items():
            (folder / file.replace("_json", ".json")).write_text(text)
        return folder

    return installed


def refused() -> list[str]:
    with pytest.raises(SparkMismatchError) as caught:
        check_spark("connector-kafka")
    return str(caught.value).splitlines()


def test_a_build_for_another_spark_is_refused_with_the_command_that_installs_the_right_one(install):
    install("connector-kafka", "3.1.2.3.5")
    install("pyspark", "4.3.0")
    assert refused() == [
        "[SPARK_MISMATCH] connector-kafka 3.1.2 is built for a different Spark than the installed "
        "one",
        "  expected: pyspark 3.5 for connector-kafka 3.1.2-3.5",
        "  found: pyspark 4.3.0",
        f"  hint: run: {sys.executable} -m pip install connector-kafka==3.1.2.4.3",
        "  (with the --index-url or --find-links of the first install, if any)",
    ]


def test_the_suggested_command_repeats_the_installer_and_location_of_the_first_install(install):
    url = {"url": "file:///my%20wheels/connector_kafka-3.1.2.3.5-py3-none-any.whl"}
    install("connector-kafka", "3.1.2.3.5", INSTALLER="uv\n", direct_url_json=json.dumps(url))
    install("pyspark", "4.3.0")
    assert refused()[-1] == (
        f"  hint: run: uv pip install --python {sys.executable} --find-links '/my wheels' "
        "connector-kafka==3.1.2.4.3"
    )


def test_a_working_spark_outside_the_matrix_gets_the_build_of_its_line(install):
    install("connector-kafka", "3.1.2.3.5")
    install("pyspark", "4.2.1")
    assert "connector-kafka==3.1.2.4.3" in refused()[3]


def test_a_spark_without_a_build_is_refused_with_the_supported_versions(install):
    install("connector-kafka", "3.1.2.4.3")
    install("pyspark", "5.0.0")
    assert refused()[-1] == "  hint: no build is for Spark 5.0; use Spark 3.5 or 4.3 or 4.2 or 4.10"


@pytest.mark.parametrize(
    ("version", "pyspark"),
    [
        ("3.1.2.3.5", "3.5.9"),
        ("3.1.2.3.5", "3.5.10.dev0"),
        ("3.1.2.4.10", "4.10.1"),
        ("3.1.2", "5.0.0"),  # a checkout fits every line
    ],
)
def test_a_build_for_the_installed_spark_is_accepted(install, version, pyspark):
    install("connector-kafka", version)
    install("pyspark", pyspark)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_spark("connector-kafka")


def test_spark_lines_are_compared_as_a_whole_and_not_by_prefix(install):
    install("connector-kafka", "3.1.2.4.3")
    install("pyspark", "4.30.1")
    assert "no build is for Spark 4.30" in refused()[-1]


def test_a_working_spark_outside_the_matrix_is_warned_about_once(install, monkeypatch, recwarn):
    install("connector-kafka", "3.1.2.4.3")
    install("connector-elasticsearch", "2.0.0.4.3")
    install("pyspark", "4.2.1")
    warnings.simplefilter("default")  # the default when Python starts
    monkeypatch.setattr(compatibility, "__warningregistry__", {}, raising=False)
    for _ in range(2):
        check_spark("connector-kafka")
        check_spark("connector-elasticsearch")
    (said,) = recwarn
    assert said.category is OutsideMatrixWarning
    assert str(said.message) == (
        "Spark 4.2 works, but is not part of the compatibility matrix of the connectors"
    )


def test_the_last_release_of_a_major_announces_its_end(install):
    install("connector-kafka", "2.4.1.4.3", "Classifier: Development Status :: 7 - Inactive")
    install("connector-elasticsearch", "3.0.0.4.3", "Classifier: Topic :: Database")
    install("pyspark", "4.3.0")
    check_spark("connector-elasticsearch")
    with pytest.warns(EndOfLifeWarning, match=r"connector-kafka 2\.4\.1\.4\.3 is the last release"):
        check_spark("connector-kafka")


def test_workers_do_not_announce_the_end(install, monkeypatch, recwarn):
    install("connector-kafka", "2.4.1.4.3", "Classifier: Development Status :: 7 - Inactive")
    install("pyspark", "4.3.0")
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    check_spark("connector-kafka")
    assert not recwarn.list


def test_workers_do_not_repeat_the_warning(install, monkeypatch, recwarn):
    install("connector-kafka", "3.1.2.4.3")
    install("pyspark", "4.2.1")
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    check_spark("connector-kafka")
    assert not recwarn


def test_a_python_version_that_does_not_work_is_refused(install, monkeypatch):
    install("connector-kafka", "3.1.2.4.3")
    install("pyspark", "4.3.0")
    works = {"4.3": {"spark": ["4.3"], "python": ["3.10"]}}
    monkeypatch.setattr(compatibility, "LINES", works)
    with pytest.raises(ConfigurationError, match=f"does not work with Python {PYTHON}") as caught:
        check_spark("connector-kafka")
    assert caught.value.hint == "use an environment of Python 3.10"


def test_a_connector_without_metadata_is_not_checked():
    check_spark("connector-nobody-has-installed")


def test_metadata_is_used_if_pyspark_has_no_version_file(install):
    (install("pyspark", "5.0.0") / "version.py").unlink()
    assert installed_spark() is not None
    assert installed_spark() != "5.0.0"


def test_spark_is_not_imported():
    program = (
        "import sys; from connectors_core.compatibility import check_spark, installed_spark; "
        "check_spark('connector-filesystem'); installed_spark(); "
        "sys.exit('pyspark' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
