# SPDX-License-Identifier: Apache-2.0
"""A release candidate has everything that people vote on, and a voter can check it."""

import hashlib
import io
import shutil
import tarfile
from pathlib import Path

import pytest
from flip_tree import FILES as RULES
from git_tree import git
from gpg_home import gpg, new_home

from connector_release_tools.releases.signatures import KEYS
from connector_release_tools.releases.staged_candidate import StagedCandidate

NAME = "connector-one-2.0.0"
CANDIDATE = f"{NAME}-rc1"
SOURCE = f"{NAME}-src.tar.gz"
WHEEL = "connector_one-2.0.0.3.5-py3-none-any.whl"

needs_gpg = pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")


@pytest.fixture
def tree(built_tree):
    """A repository with a built and verified release, and with rules for votes."""
    built_tree.commit(RULES)
    built_tree.verified_build()
    return built_tree


@pytest.fixture(scope="module")
def gpg_home():
    with new_home() as home:
        yield home


@pytest.fixture
def signer(tree, gpg_home, monkeypatch):
    """The release manager, whose key the repository lists."""
    monkeypatch.setenv("GNUPGHOME", gpg_home)
    tree.commit({KEYS: gpg(gpg_home, "--armor", "--export")})


def folder(tree) -> Path:
    return tree.root / "build/candidates" / CANDIDATE


def stage(tree, *arguments: str) -> Path:
    tree.run("candidate", "stage", NAME, "--rc", "1", *arguments)
    return folder(tree)


def test_a_candidate_has_sources_packages_hashes_notes_and_the_message(tree):
    staged = stage(tree, "--unsigned")
    hashed = [SOURCE, *(path.name for path in tree.dist.iterdir())]
    assert {path.name for path in staged.iterdir()} == {
        *hashed,
        *(f"{name}.sha512" for name in hashed),
        "RELEASE-NOTES.md",
        "VOTE.txt",
        "candidate.yaml",
    }
    for name in hashed:
        digest = hashlib.sha512((staged / name).read_bytes()).hexdigest()
        assert (staged / f"{name}.sha512").read_text() == f"{digest}  {name}\n"
        assert StagedCandidate.read(staged).sha512[name] == digest
    assert (staged / "RELEASE-NOTES.md").read_text().startswith("## 2.0.0 (")


def test_the_message_has_what_voters_need(tree):
    said = (stage(tree, "--unsigned", "--url", "https://example.org/rc1") / "VOTE.txt").read_text()
    record = tree.candidate()
    for words in (
        "Subject: [VOTE] Release connector-one 2.0.0, release candidate #1\n",
        "Files: https://example.org/rc1\n",
        f"Commit: {record.commit}\n",
        f"Tree of connector-one: {record.tree}\n",
        "Spark lines: 3.5, 4.3\n",
        "at least 72 hours. The release needs at least 3 binding +1",
        "- All of it.",
        f"  {SOURCE}\n",
    ):
        assert words in said


def test_the_source_archive_has_the_files_of_the_commit_and_the_same_bytes_each_time(tree):
    first = (stage(tree, "--unsigned") / SOURCE).read_bytes()
    git(tree.root, "config", "tar.umask", "0077")
    assert (stage(tree, "--unsigned") / SOURCE).read_bytes() == first
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        found = {member.name: member for member in archive if member.isfile()}
    listed = git(tree.root, "ls-tree", "-r", "--name-only", "HEAD:connector-one").splitlines()
    assert {*found} == {f"{NAME}/{name}" for name in listed}
    assert {member.mtime for member in found.values()} == {tree.candidate().seconds}


def test_an_unsigned_candidate_is_not_fit_for_a_vote(tree):
    stage(tree, "--unsigned")
    said = tree.run("candidate", "check", CANDIDATE, exit_code=1).output
    assert f"{SOURCE} is not signed\n  hint: stage it again, without --unsigned" in said


def test_without_gpg_the_remedy_is_named(tree, monkeypatch):
    monkeypatch.setattr("connector_release_tools.releases.signatures.GPG", "no-gpg")
    said = tree.error("candidate", "stage", NAME, "--rc", "1")
    assert f"{SOURCE} cannot be signed: the program no-gpg was not found" in said
    assert "hint: install GnuPG" in said


@needs_gpg
def test_a_signed_candidate_is_identical_to_git_and_to_new_builds(tree, signer, gpg_home):
    staged = stage(tree, "--key", "manager@example.org")
    made = StagedCandidate.read(staged)
    assert made.key in gpg(gpg_home, "--show-keys", "--with-colons", str(tree.root / KEYS))
    assert {path.name for path in staged.glob("*.asc")} == {f"{name}.asc" for name in made.sha512}
    said = tree.run("candidate", "check", CANDIDATE).output
    assert f"{CANDIDATE}: 5 files are identical to builds of {made.release.commit}" in said


@needs_gpg
def test_a_key_that_the_repository_does_not_list_is_refused(tree, signer):
    with new_home() as other:
        tree.commit({KEYS: gpg(other, "--armor", "--export")})
        said = tree.error("candidate", "stage", NAME, "--rc", "1")
    assert f"no key of {KEYS} has signed {SOURCE}" in said
    assert "hint: sign it with one of them, or commit the key" in said


@needs_gpg
def test_a_revoked_key_is_refused(tree, monkeypatch):
    with new_home() as home:
        monkeypatch.setenv("GNUPGHOME", home)
        tree.commit({KEYS: gpg(home, "--armor", "--export")})
        stage(tree)
        (revocation,) = Path(home, "openpgp-revocs.d").iterdir()
        revocation.write_text(revocation.read_text().replace(":-----BEGIN", "-----BEGIN"))
        gpg(home, "--import", str(revocation))
        tree.commit({KEYS: gpg(home, "--armor", "--export")})
        said = tree.run("candidate", "check", CANDIDATE, exit_code=1).output
    assert f"the key that has signed {SOURCE} is expired or revoked" in said


@needs_gpg
def test_every_difference_is_reported(tree, signer):
    staged = stage(tree)
    with (staged / WHEEL).open("ab") as file:
        file.write(b"\0")
    (staged / f"{SOURCE}.sha512").write_text("0" * 128)
    (staged / "connector_one-2.0.0.4.3.tar.gz").unlink()
    (staged / "connector_one-2.0.1.tar.gz").write_bytes(b"")
    (staged / "RELEASE-NOTES.md").write_text("## 2.0.0\n\nNothing.\n")
    said = tree.run("candidate", "check", str(staged), exit_code=1).output
    assert f"{WHEEL} has another SHA-512 than candidate.yaml" in said
    assert f"no key of {KEYS} has signed {WHEEL}" in said
    assert f"{SOURCE}.sha512 does not have the SHA-512 of {SOURCE}" in said
    assert "connector_one-2.0.0.4.3.tar.gz is missing" in said
    assert f"connector_one-2.0.1.tar.gz is no file of {CANDIDATE}" in said
    assert "RELEASE-NOTES.md differs from the changelog in git" in said


@needs_gpg
def test_sources_that_are_not_those_of_the_commit_are_reported(tree, signer):
    staged = stage(tree)
    description = staged / "candidate.yaml"
    other = git(tree.root, "rev-parse", "HEAD:connectors-core")
    text = description.read_text().replace(tree.candidate().tree, other)
    description.write_text(text)
    said = tree.run("candidate", "check", CANDIDATE, exit_code=1).output
    assert f"{SOURCE} differs from tree {other} in git" in said
    assert f"the record has tree {other}" in said
