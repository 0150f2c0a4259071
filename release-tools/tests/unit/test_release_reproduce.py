# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from git_tree import git

from connector_release_tools.distributions import Distribution
from connector_release_tools.git import Repository
from connector_release_tools.releases.record import RELEASES, Record
from connector_release_tools.releases.reproduction import reproduce

ROOT = Path(__file__).parents[3]
NAME = "connector-one-2.0.0"
RECORD = f"releases/{NAME}.yaml"


@pytest.fixture
def recorded(built_tree):
    """A release that is built and recorded."""
    files = map(Distribution.of, sorted(built_tree.dist.iterdir()))
    record = Record.of(built_tree.candidate(), files, core=">=1.0,<2")
    built_tree.commit({RECORD: record.text()})
    return built_tree


def test_a_build_of_the_recorded_commit_has_the_recorded_files(recorded):
    recorded.commit({"connector-one/README.md": "# Later\n"})
    assert recorded.run("reproduce").output == f"{NAME}: 4 files are identical to the record\n"


def test_a_recorded_file_that_no_build_gives_is_a_difference(recorded):
    name = "connector_one-2.0.0.3.5.tar.gz"
    sha256 = Distribution.of(recorded.dist / name).sha256
    recorded.replace(RECORD, sha256, "0" * 64)
    said = recorded.run("reproduce", NAME, exit_code=1).output.replace("\n", " ")
    assert f"{name}: a build has sha256 {sha256}, the record has {'0' * 64}" in said


def test_a_record_of_another_tree_is_a_difference(recorded):
    tree = git(recorded.root, "rev-parse", "HEAD:connectors-core")
    recorded.replace(RECORD, recorded.candidate().tree, tree)
    said = recorded.run("reproduce", exit_code=1).output.replace("\n", " ")
    assert f"the record has tree {tree}" in said


def test_a_commit_outside_the_history_is_an_error(recorded):
    recorded.replace(RECORD, recorded.candidate().commit, "0" * 40)
    assert "is not in the history of HEAD" in recorded.error("reproduce", NAME)


def test_an_unknown_release_is_an_error(recorded):
    said = recorded.error("reproduce", "connector-one-9.0.0")
    assert "connector-one-9.0.0.yaml does not exist" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted(ROOT.glob(f"{RELEASES}/*.yaml")), ids=lambda path: path.stem
)
def test_a_release_of_this_repository_can_be_built_again(path):
    record, steps = Record.read(path), []
    assert list(reproduce(Repository(ROOT), record, step=steps.append)) == []
    assert len(steps) == len(record.artefacts)
