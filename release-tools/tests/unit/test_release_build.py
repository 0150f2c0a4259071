# SPDX-License-Identifier: Apache-2.0
import os
import tarfile

import pytest
from release_tree import CONNECTOR

from connector_release_tools.distribution_build import build
from connector_release_tools.releases.artefacts import build_release
from connector_release_tools.versions import SparkLine

SPARK_LINES = (SparkLine(3, 5), SparkLine(4, 3))


@pytest.fixture
def umask():
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def built(first_built_tree):
    """Return the files of the release by name."""
    return {each.name: each for each in first_built_tree.dist.iterdir()}


def test_each_spark_line_has_a_wheel_and_a_source_distribution(built):
    assert sorted(built) == [
        f"connector_one-2.0.0.{spark_line}{suffix}"
        for spark_line in SPARK_LINES
        for suffix in ("-py3-none-any.whl", ".tar.gz")
    ]


def test_a_build_in_another_folder_gives_the_same_bytes(built, release_tree, tmp_path, umask):
    again = build_release(
        release_tree.repository, release_tree.candidate(), tmp_path / "another" / "folder",
        spark_lines=SPARK_LINES[:1], step=lambda _: None,
    )  # fmt: skip
    assert len(again) == 2
    for each in again:
        assert each.path.read_bytes() == built[each.path.name].read_bytes()


def test_the_source_distribution_gives_the_same_wheel(built, release_tree, tmp_path):
    sdist, wheel = release_tree.candidate().file_names(SPARK_LINES[0])
    with tarfile.open(built[sdist]) as files:
        files.extractall(tmp_path / "unpacked", filter="data")
    (project,) = (tmp_path / "unpacked").iterdir()
    seconds = release_tree.candidate().seconds
    made = build(project, tmp_path / "again", spark=None, seconds=seconds)
    assert made.read_bytes() == built[wheel].read_bytes()


def test_one_spark_line_can_be_built(release_tree):
    said = release_tree.run("build", CONNECTOR, "--spark", "4.3", "--dry-run").output
    assert [line.split()[2] for line in said.splitlines()] == [
        "build/dist/connector_one-2.0.0.4.3.tar.gz",
        "build/dist/connector_one-2.0.0.4.3-py3-none-any.whl",
    ]


def test_an_unsupported_spark_line_is_refused(release_tree):
    said = release_tree.error("build", CONNECTOR, "--spark", "4.0")
    assert "connector-one-2.0.0 is not for Spark 4.0" in said


def test_a_dry_run_builds_nothing(release_tree):
    said = release_tree.run("build", CONNECTOR, "--dry-run").output
    assert "would build build/dist/connector_one-2.0.0.3.5.tar.gz from commit" in said
    assert not release_tree.dist.exists()
