# SPDX-License-Identifier: Apache-2.0
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from git_tree import git
from release_tree import CONNECTOR

from connector_release_tools.index.directory import DirectoryIndex
from connector_release_tools.matrix.file import MATRIX
from connector_release_tools.releases import commands
from connector_release_tools.releases.record import Record

NAME = "connector-one-2.0.0"
WHEEL = "connector_one-2.0.0.3.5-py3-none-any.whl"
RECORD = f"releases/{NAME}.yaml"


@pytest.fixture
def tree(release_tree):
    """A repository whose connector is built and verified."""
    release_tree.verified()
    return release_tree


@pytest.fixture
def folders(tmp_path):
    return str(tmp_path / "staging"), str(tmp_path / "index")


@pytest.fixture
def staged(tree, folders):
    tree.run("stage", NAME, folders[0])
    return tree


@pytest.fixture
def accepted(monkeypatch):
    """A vote has accepted the files; test_release_vote shows what that takes."""
    monkeypatch.setattr(commands, "require_accepted", lambda *_, **__: f"{NAME}-rc1")


@contextmanager
def repository_for_uploads(status):
    """Collects the names of the uploaded files."""
    names = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            names.append(body.split(b'filename="')[1].split(b'"')[0].decode())
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/legacy/", names
        finally:
            server.shutdown()
            thread.join()


def files(folder):
    index = DirectoryIndex(folder)
    return {each.path.name: each.sha256 for each in index.files(CONNECTOR)}


def test_verified_files_are_staged_and_promoted(staged, folders, tmp_path):
    said = staged.run("promote", NAME, *folders, "--commit").output
    record = Record.read(staged.root / RECORD)
    assert files(tmp_path / "staging") == files(tmp_path / "index") == dict(record.artefacts)
    major = staged.matrix.connectors[CONNECTOR].majors["2"]
    assert (major.version, major.commit, major.tree) == ("2.0.0", record.commit, record.tree)
    assert major.released == record.released
    assert git(staged.root, "status", "--porcelain") == ""
    assert git(staged.root, "log", "-1", "--format=%s") == f"{NAME}: released"
    assert git(staged.root, "rev-parse", "HEAD~1") == record.commit
    assert f"undo: git revert {staged.head()}" in said


def test_comments_of_the_matrix_survive(staged, folders):
    staged.run("promote", NAME, *folders)
    assert staged.text(MATRIX).startswith("# A remark.\n")


def test_every_step_can_be_repeated(staged, folders):
    assert staged.run("stage", NAME, folders[0]).output.count("staged already") == 4
    staged.run("promote", NAME, *folders)
    before = git(staged.root, "status", "--porcelain", "--untracked-files=all")
    said = staged.run("promote", NAME, *folders).output
    assert said.count("released already") == 4
    assert "all files are up to date" in said
    assert git(staged.root, "status", "--porcelain", "--untracked-files=all") == before


def test_an_interrupted_promotion_resumes(staged, folders, tmp_path):
    index = DirectoryIndex(tmp_path / "index")
    index.add(DirectoryIndex(tmp_path / "staging").find(WHEEL))
    said = staged.run("promote", NAME, *folders).output
    assert (said.count(": released already"), said.count(": released\n")) == (1, 3)


def test_a_dry_run_changes_nothing(tree, folders, tmp_path, accepted):
    said = tree.run("stage", NAME, folders[0], "--dry-run").output
    assert f"would stage {WHEEL}" in said
    assert not (tmp_path / "staging").exists()
    tree.run("stage", NAME, folders[0])
    nowhere = "http://127.0.0.1:1/"
    said = tree.run("promote", NAME, *folders, "--upload", nowhere, "--dry-run").output
    assert f"would upload them to {nowhere}" in said
    assert f"would release {WHEEL}" in said
    assert f"+++ b/{RECORD}" in said
    assert f"+++ b/{MATRIX}" in said
    assert not (tmp_path / "index").exists()
    assert git(tree.root, "status", "--porcelain") == ""


def test_a_file_that_changed_after_it_was_verified_is_not_staged(tree, folders):
    with (tree.dist / WHEEL).open("ab") as file:
        file.write(b"\0")
    said = tree.error("stage", NAME, folders[0])
    assert f"{WHEEL} has sha256" in said
    assert ", but the verified file has" in said


def test_a_file_that_changed_after_it_was_staged_is_not_promoted(staged, folders, tmp_path):
    with DirectoryIndex(tmp_path / "staging").find(WHEEL).path.open("ab") as file:
        file.write(b"\0")
    assert ", but the verified file has" in staged.error("promote", NAME, *folders)
    assert not (tmp_path / "index").exists()


def test_an_unstaged_release_is_not_promoted(tree, folders):
    assert f"of {NAME} is not in {folders[0]}" in tree.error("promote", NAME, *folders)


def test_a_released_file_is_never_replaced(staged, folders, tmp_path):
    staged.run("promote", NAME, *folders, "--commit")
    released = files(tmp_path / "index")
    staged.verified(words="other words")
    staged.run("stage", NAME, folders[0])
    assert files(tmp_path / "staging") != released
    said = staged.error("promote", NAME, *folders)
    assert "but the new file has" in said
    assert "hint: release the next version; a released file is never replaced" in said
    assert files(tmp_path / "index") == released


def test_the_record_of_a_release_never_changes(staged, folders, tmp_path):
    staged.run("promote", NAME, *folders, "--commit")
    staged.verified(words="other words")
    staged.run("stage", NAME, folders[0])
    said = staged.error("promote", NAME, folders[0], str(tmp_path / "another"))
    assert f"{NAME} was released on" in said
    assert not (tmp_path / "another").exists()


def test_a_commit_missing_from_main_is_not_promoted(staged, folders):
    git(staged.root, "reset", "--quiet", "--hard", "HEAD~1")
    said = staged.error("promote", NAME, *folders)
    assert "is not in the history of HEAD" in said
    assert "release branch connector-one --major 2 --merge" in said


def test_an_older_release_does_not_replace_the_pin(staged, folders):
    staged.released()
    staged.replace(MATRIX, '"2.0.0"', '"2.0.1"')
    assert "the matrix has connector-one 2.0.1, which is newer" in staged.error(
        "promote", NAME, *folders
    )


def test_files_are_uploaded_only_on_request(staged, folders, monkeypatch, accepted):
    monkeypatch.setenv("TWINE_USERNAME", "someone")
    monkeypatch.setenv("TWINE_PASSWORD", "not to be shown")
    with repository_for_uploads(200) as (url, names):
        staged.run("promote", NAME, *folders)
        assert names == []
        said = staged.run("promote", NAME, *folders, "--upload", url).output
    assert sorted(names) == sorted(path.name for path in staged.dist.iterdir())
    assert "not to be shown" not in said


def test_nothing_is_recorded_if_the_upload_fails(staged, folders, monkeypatch, accepted):
    monkeypatch.setenv("TWINE_USERNAME", "someone")
    monkeypatch.setenv("TWINE_PASSWORD", "not to be shown")
    with repository_for_uploads(403) as (url, _):
        said = staged.error("promote", NAME, *folders, "--upload", url)
    assert "403" in said
    assert "not to be shown" not in said
    assert git(staged.root, "status", "--porcelain") == ""


def test_a_password_in_an_address_is_refused_and_not_shown(staged, folders):
    said = staged.error("promote", NAME, *folders, "--upload", "http://me:hidden@127.0.0.1/")
    assert "set TWINE_USERNAME and TWINE_PASSWORD instead" in said
    assert "hidden" not in said
    assert "released" not in said


@pytest.mark.parametrize("name", ["connector-one-2.0.1", "../../connector-one-2.0.0", "x/y"])
def test_only_a_verified_release_is_staged(tree, folders, name):
    assert f"{name} was not verified here" in tree.error("stage", name, folders[0])
