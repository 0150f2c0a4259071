# SPDX-License-Identifier: Apache-2.0
"""A repository with a tiny core, a tiny connector, and a fake Spark."""

from __future__ import annotations

import zipfile
from pathlib import Path

from matrix_tree import ONE, MatrixTree

BUILD = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
CORE: dict[str, str | None] = {
    "connectors-core/pyproject.toml": (
        f'{BUILD}[project]\nname = "connectors-core"\nversion = "1.4.0"\n'
        '[project.entry-points.pytest11]\nconnectors = "connectors_core.plugin"\n'
        '[tool.hatch.build.targets.wheel]\nonly-include = ["src"]\nsources = ["src"]\n'
    ),
    "connectors-core/src/connectors_core/__init__.py": "LEVEL = 1\n",
    "connectors-core/src/connectors_core/plugin.py": (
        "import json, pathlib\n\n"
        "def pytest_addoption(parser):\n"
        '    parser.addoption("--connector-report")\n\n'
        "def pytest_sessionfinish(session):\n"
        "    results = [\n"
        '        {"suite": "S", "case": "old", "outcome": "passed"},\n'
        '        {"suite": "S", "case": "young", "outcome": "new, failed"},\n'
        "    ]\n"
        '    path = pathlib.Path(session.config.getoption("--connector-report") + ".json")\n'
        '    path.write_text(json.dumps({"results": results}))\n'
    ),
}
HATCH_BUILD = """\
import os
import tomllib
from hatchling.metadata.plugin.interface import MetadataHookInterface

LIBRARIES = {
    "3.5": ["numpy<2"],
    "4.3": ["pandas<3"],
}

class SparkLine(MetadataHookInterface):
    def update(self, metadata):
        line = os.environ["CONNECTOR_SPARK"]
        with open(os.path.join(self.root, "pyproject.toml"), "rb") as file:
            connector = tomllib.load(file)["tool"]["connector"]
        metadata["version"] = connector["version"] + "." + line
        metadata["dependencies"] = ["connectors-core>=1.0,<2", f"pyspark=={line}.*"]
"""
CONNECTOR: dict[str, str | None] = {
    f"{ONE}/hatch_build.py": HATCH_BUILD,
    f"{ONE}/src/connector_one/__init__.py": (
        "import connectors_core\nLEVEL = connectors_core.LEVEL\n"
    ),
    f"{ONE}/tests/test_one.py": (
        "import os\nimport connector_one, pyspark, pytest\n\n"
        "@pytest.mark.cell\ndef test_marked():\n"
        "    pyspark.SparkContext.start()\n"
        "    assert connector_one.LEVEL == 1\n"
        "    assert not os.path.exists('src')\n\n"
        "def test_unmarked():\n    pyspark.SparkContext.start()\n"
    ),
}
PYTEST = '[tool.pytest.ini_options]\nmarkers = ["cell: in cells", "slow: not in cells"]\n'
HOOK = (
    "[tool.hatch.metadata.hooks.custom]\n"
    '[tool.hatch.build.targets.wheel]\nonly-include = ["src"]\nsources = ["src"]\n'
)
SPARK = """\
class SparkContext:
    _active_spark_context = None

    @classmethod
    def start(cls):
        cls._active_spark_context = _Running()

class _Java:
    def __getattr__(self, name):
        return self

    def getProperty(self, name):
        return "17.0.9"

class _Running:
    version = "VERSION"
    _jvm = _Java()
"""


def pyspark(folder: Path, version: str) -> None:
    """Create a wheel with the name pyspark."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"pyspark-{version}.dist-info"
    with zipfile.ZipFile(folder / f"pyspark-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("pyspark/__init__.py", SPARK.replace("VERSION", version))
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: pyspark\nVersion: {version}"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any"
        )
        wheel.writestr(f"{info}/RECORD", "")


def make_testable(tree: MatrixTree) -> None:
    """Add the files that cells need to the connector of a tree."""
    pyproject = tree.text(f"{ONE}/pyproject.toml").replace('"One_Client>=7"', "")
    matrix = tree.text("compatibility-matrix.yaml")
    client = '        client:\n          one-client: ">=7"\n'
    assert client in matrix
    tree.commit(
        {
            **CORE,
            **CONNECTOR,
            f"{ONE}/pyproject.toml": f"{pyproject}{PYTEST}{HOOK}",
            "compatibility-matrix.yaml": matrix.replace(client, ""),
            "requirements/spark35.txt": "",
            "requirements/spark43.txt": "",
            "requirements/pyspark35.txt": "pyspark==3.5.9\n",
            "requirements/pyspark43.txt": "pyspark==4.3.0\n",
            ".gitignore": "build\n",
        }
    )
