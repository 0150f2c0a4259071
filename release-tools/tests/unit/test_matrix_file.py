# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from connector_release_tools.errors import MatrixError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.file import MATRIX, MatrixFile, Quoted

MATRIX_TEXT = """\
# A remark.
spark:
  "4.3": {pyspark: "4.3.0", python: "3.11", java: "17"}
  "3.5":
    pyspark: "3.5.9"
    python: "3.11"
    java: "17"
    pins: ["numpy<2"] # Spark 3.5 refuses numpy 2

connectors:
  connector-one:
    majors:
      "3": {version: "3.0.0", status: features, spark: ["4.3", "3.5"], core: ">=1.0,<2"}
      "2": # in use
        version: "2.1.0"
        status: fixes
        spark: ["3.5"]
        commit: "1111111111111111111111111111111111111111"
        tree: "2222222222222222222222222222222222222222"
        released: 2026-11-01
        core: ">=1.0,<2"
        servers:
          one: ["7", "8"]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / MATRIX
    path.write_text(MATRIX_TEXT)
    return MatrixFile.read(path)


def test_the_matrix_of_this_repository_is_valid():
    matrix = MatrixFile.of(Repository.around(Path(__file__).parent)).matrix()
    assert "connector-filesystem" in matrix.connectors


def test_each_supported_major_has_a_cell_for_each_of_its_spark_lines(file):
    assert [str(cell.release) for cell in file.matrix().cells()] == [
        "connector-one 3.0.0-4.3",
        "connector-one 3.0.0-3.5",
        "connector-one 2.1.0-3.5",
    ]


def test_comments_and_quotes_survive_an_edit(file):
    file.document["connectors"]["connector-one"]["majors"]["2"]["version"] = Quoted("2.1.1")
    file.write()
    assert file.path.read_text() == MATRIX_TEXT.replace("2.1.0", "2.1.1")


def test_an_invalid_edit_is_not_written(file):
    file.document["spark"]["3.5"]["pyspark"] = "4.3.0"
    with pytest.raises(MatrixError, match=r"spark 3\.5: pyspark 4\.3\.0 belongs to another line"):
        file.write()
    assert file.path.read_text() == MATRIX_TEXT


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'pyspark: "3.5.9"',
            'pyspark: "3.5.9"\n    works: {spark: ["4.3"]}',
            "spark 3.5: works lists 4.3, which is a line of the matrix",
        ),
        ('pyspark: "3.5.9"', "pyspark: 3.5", "spark.3.5.pyspark: 3.5 is a number; quote it"),
        ('"8"]', "8.20]", "servers.one.1: 8.2 is a number; quote it, because 1.20 is not 1.2"),
        ('spark: ["3.5"]', 'spark: ["3.6"]', "connector-one 2 is for Spark 3.6, which is not in"),
        ('version: "2.1.0"', 'version: "3.1.0"', "version 3.1.0 is listed under major 2"),
        ('core: ">=1.0,<2"\n', 'core: "1 to 2"\n', "core: '1 to 2' is not a version range"),
        ("status: fixes", "status: features", "only the newest major receives features"),
        (
            "connectors:\n",
            "support: {majors: 1}\nconnectors:\n",
            "connector-one: 2 majors get features",
        ),
        ("connectors:\n", "support: {spark_lines: 1}\nconnectors:\n", "spark: 2 lines have no end"),
        ("status: fixes", "status: resting", "status: Input should be 'features', 'fixes' or"),
        ("status: fixes", "status: end-of-life", "end-of-life needs a date in end_of_life"),
        ("released: 2026-11-01\n", "# released\n", "missing: released"),
        ('["numpy<2"]', '["numpy<<2"]', "'numpy<<2' is not a requirement"),
        ("servers:", "server:", "server: Extra inputs are not permitted"),
        ("connector-one:", "one:", "connectors.one.[key]: String should match pattern"),
        ("connectors:\n", "connectors: {\n", "compatibility-matrix.yaml is not valid YAML"),
    ],
)
def test_a_mistake_is_reported_with_its_location(file, old, new, message):
    assert old in MATRIX_TEXT
    file.path.write_text(MATRIX_TEXT.replace(old, new))
    with pytest.raises(MatrixError) as caught:
        MatrixFile.read(file.path).matrix()
    assert message in str(caught.value)


def test_a_missing_matrix_is_reported(tmp_path):
    with pytest.raises(MatrixError, match="does not exist"):
        MatrixFile.read(tmp_path / MATRIX)
