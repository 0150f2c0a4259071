# SPDX-License-Identifier: Apache-2.0
import pytest
from git_tree import git
from release_tree import API, CONNECTOR

from connector_release_tools.errors import HistoryError, ReleaseToolsError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.file import MATRIX
from connector_release_tools.releases.candidate import Candidate
from connector_release_tools.releases.checks import check

READER = f"{CONNECTOR}/src/connector_one/reading.py"


NEW_MAJOR = """\
      "3": {version: "3.0.0", status: features, spark: ["3.5", "4.3"], core: ">=1.0,<2"}
      "2":
"""


def new_major(tree):
    """Start 3.0 on main, so that 2 becomes the older major."""
    tree.replace(MATRIX, "status: features\n", "status: fixes\n")
    tree.replace(MATRIX, '      "2":\n', NEW_MAJOR)


def found(tree, revision="HEAD"):
    return [each.what for each in check(tree.repository, tree.matrix, tree.candidate(revision))]


def test_a_ready_release_passes(patch_tree):
    assert found(patch_tree) == []
    assert (
        "next: release-tools release build connector-one"
        in patch_tree.run("check", CONNECTOR).output
    )


def test_only_a_last_release_announces_the_end_of_life(patch_tree):
    classifier = 'license = "Apache-2.0"\nclassifiers = ["Development Status :: 7 - Inactive"]\n'
    ended = "status: end-of-life\n        end_of_life: 2026-11-20\n"
    patch_tree.replace(MATRIX, "status: features\n", ended)
    assert found(patch_tree) == [
        "the matrix, connector-one 2: the major has reached its end of life"
    ]
    patch_tree.replace(f"{CONNECTOR}/pyproject.toml", 'license = "Apache-2.0"\n', classifier)
    assert found(patch_tree) == []
    patch_tree.replace(MATRIX, ended, "status: features\n")
    assert found(patch_tree) == [
        "the matrix, connector-one 2: gets features, but has the classifier "
        '"Development Status :: 7 - Inactive"'
    ]


def test_a_commit_outside_the_connector_keeps_the_candidate(release_tree):
    before = release_tree.candidate()
    release_tree.commit({"README.md": "Of the repository.\n"})
    assert release_tree.candidate() == before


def test_all_problems_are_reported_at_once_with_hints(release_tree):
    release_tree.fragment("+more.misc.md")
    release_tree.replace(MATRIX, '["4.3", "3.5"]', '["4.3"]')
    release_tree.replace(MATRIX, '">=1.0,<2"', '">=1.1,<2"')
    release_tree.replace(f"{CONNECTOR}/pyproject.toml", "2.0.0", "2.0.1")
    assert found(release_tree) == [
        "the matrix, connector-one 2: spark is 4.3; pyproject.toml has 3.5, 4.3",
        "the matrix, connector-one 2: core is >=1.1,<2; pyproject.toml requires "
        "connectors-core<2,>=1.0",
        "connector-one-2.0.1 would be the first release of its major",
        "the matrix has connector-one 2.0.0, pyproject.toml 2.0.1",
        "fragments are not in CHANGELOG.md: +more.misc.md",
        "connector-one/CHANGELOG.md has no section 2.0.1",
    ]
    said = release_tree.run("check", CONNECTOR, exit_code=1).output
    assert "hint: run release-tools release update connector-one, and commit" in said


def test_a_released_version_is_refused(release_tree):
    release_tree.released()
    assert found(release_tree) == [
        "connector-one 2.0.0 was released on 2026-11-01; pyproject.toml has 2.0.0"
    ]


@pytest.mark.parametrize(
    ("name", "old", "new", "change"),
    [
        (READER, "path, limit=None", "path", "reading.Reader.read(limit): parameter was removed"),
        (READER, "limit=None", "limit=1", "reading.Reader.read(limit): parameter default was"),
        (READER, "limit=None", "limit", "reading.Reader.read(limit): parameter is now required"),
        (READER, "def read", "def get", "reading.Reader.read: public object was removed"),
        (API, '"Reader", ', "", "Reader: is no longer exported"),
    ],
)
def test_a_breaking_change_needs_a_new_major(patch_tree, name, old, new, change):
    patch_tree.replace(name, old, new)
    (said,) = found(patch_tree)
    assert said.startswith(f"connector_one.{change}")
    assert said.endswith("(since 2.0.0)")
    new_major(patch_tree)
    patch_tree.fragment("+gone.removal.md")
    patch_tree.update("--version", "3.0.0")
    assert found(patch_tree) == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (READER, "class Inner:\n    def close(self):\n        pass\n", ""),
        (API, "def run(self, first)", "def run(self)"),
        (API, '("path",)', '("path", "limit")'),
        (READER, "limit=None", "limit=None, order=None"),
    ],
    ids=["not exported", "experimental", "the value of a constant", "a new parameter"],
)
def test_a_compatible_change_is_not_a_breaking_change(patch_tree, name, old, new):
    patch_tree.replace(name, old, new)
    assert found(patch_tree) == []


def test_a_feature_needs_more_than_a_patch_release(patch_tree):
    patch_tree.fragment("12.feature.md")
    said = "2.0.1 is a patch of 2.0.0, but has fragments of other kinds: 12.feature.md"
    assert said in found(patch_tree)
    patch_tree.update("--version", "2.1.0")
    assert found(patch_tree) == []


def test_a_feature_on_the_older_major_is_refused_even_if_the_notes_contain_it(release_tree):
    release_tree.released()
    release_tree.run("branch", CONNECTOR, "--major", "2")
    git(release_tree.root, "switch", "--quiet", "connector-one-2.x")
    release_tree.fragment("+more.feature.1.md")
    release_tree.update("--version", "2.1.0")
    git(release_tree.root, "switch", "--quiet", "main")
    new_major(release_tree)
    assert found(release_tree, "connector-one-2.x") == [
        "connector-one 2 receives only fixes, but has other fragments: +more.feature.1.md"
    ]


def test_a_patch_is_checked_on_main_with_its_major(release_tree):
    release_tree.released()
    release_tree.run("branch", CONNECTOR, "--major", "2")
    git(release_tree.root, "switch", "--quiet", "connector-one-2.x")
    release_tree.fragment("+fixed.bugfix.md")
    release_tree.update("--version", "2.0.1")
    said = release_tree.run("check", CONNECTOR, exit_code=1).output
    assert "connector-one-2.0.1 would be the first release of its major" in said
    assert "on main with --major 2" in said
    git(release_tree.root, "switch", "--quiet", "main")
    release_tree.replace(f"{CONNECTOR}/pyproject.toml", "2.0.0", "3.0.0")
    release_tree.run("check", CONNECTOR, "--major", "2")


@pytest.mark.parametrize(("version", "can_be_first"), [("0.1.0", True), ("0.0.0", False)])
def test_a_new_connector_is_first_released_as_0_1_0(release_tree, version, can_be_first):
    release_tree.replace(MATRIX, '"2":\n        version: "2.0.0"', '"0":\n        version: "0.1.0"')
    release_tree.update("--version", version)
    refused = f"connector-one-{version} would be the first release of its major"
    assert (refused not in found(release_tree)) == can_be_first


def test_uncommitted_changes_do_not_count_and_are_reported(release_tree):
    (release_tree.root / API).write_text("broken")
    said = release_tree.run("check", CONNECTOR).output
    assert "connector-one has uncommitted changes" in said


def test_a_shallow_clone_is_reported_with_a_hint(release_tree, tmp_path):
    git(tmp_path, "clone", "--quiet", "--depth=1", release_tree.root.as_uri(), "shallow")
    with pytest.raises(HistoryError, match="this clone is shallow") as caught:
        Candidate.at(Repository(tmp_path / "shallow"), CONNECTOR)
    assert caught.value.hint == "run git fetch --unshallow"


def test_a_pin_missing_from_the_clone_is_reported(patch_tree):
    commit = patch_tree.matrix.connectors[CONNECTOR].majors["2"].commit
    patch_tree.replace(MATRIX, commit, "a" * 40)
    with pytest.raises(HistoryError, match=f"commit {'a' * 10} of connector-one 2.0.0 is not in"):
        found(patch_tree)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('version = "2.0.0" # as it is released\n', "", "connector.version: Field required"),
        ("connectors-core>=1.0,<2", "another", "does not require connectors-core"),
        ('spark = ["3.5", "4.3"]', 'spark = ["3"]', "'3' is not a Spark line"),
        ("[tool.connector]", "[tool.connector", "is not the pyproject.toml of a connector"),
    ],
)
def test_a_connector_with_missing_declarations_is_refused(release_tree, old, new, message):
    release_tree.replace(f"{CONNECTOR}/pyproject.toml", old, new)
    with pytest.raises(ReleaseToolsError, match=message):
        release_tree.candidate()


def test_a_folder_that_is_not_a_connector_is_reported(release_tree):
    assert "HEAD:connector-two/pyproject.toml does not exist" in release_tree.error(
        "check", "connector-two"
    )


def test_a_major_missing_from_the_matrix_is_reported(release_tree):
    release_tree.replace(f"{CONNECTOR}/pyproject.toml", "2.0.0", "3.0.0")
    said = release_tree.error("check", CONNECTOR)
    assert "connector-one 3 is not in the compatibility matrix" in said
    assert "hint: add it: release-tools matrix rotate --major connector-one" in said
