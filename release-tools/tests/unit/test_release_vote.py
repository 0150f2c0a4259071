# SPDX-License-Identifier: Apache-2.0
"""A release is uploaded only after a vote has accepted exactly its files."""

import datetime
import json
from pathlib import Path

import pytest
from flip_tree import FILES as RULES
from git_tree import git
from pull_requests import request, review
from release_tree import CONNECTOR, ReleaseTree

from connector_release_tools import dates
from connector_release_tools.releases.staged_candidate import StagedCandidate

NAME = "connector-one-2.0.0"
RC = f"{NAME}-rc1"
FILE = f"releases/candidates/{RC}.yaml"
# Later than the commits of the fixtures.
START = datetime.datetime(2030, 3, 4, 12, tzinfo=datetime.UTC)
NOBODY = RULES["MAINTAINERS.yaml"].replace("carol, since: 2026-01-01}", "carol, since: 2040-01-01}")


class Clock:
    """The clock of the tools and of git."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.set(START)

    def set(self, now: datetime.datetime) -> None:
        self.now = now
        self.patch.setattr(dates, "now", lambda: now)
        for role in ("AUTHOR", "COMMITTER"):
            self.patch.setenv(f"GIT_{role}_DATE", now.isoformat())

    def after(self, **time: int) -> None:
        self.set(self.now + datetime.timedelta(**time))


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def tree(release_tree, clock, monkeypatch):
    """A repository with a verified release, and a candidate with a key."""
    acting(monkeypatch, "alice")
    release_tree.commit({**RULES, ".gitignore": "/build/\n/staging/\n/index/\n"})
    release_tree.verified()
    candidate(release_tree, 1)
    return release_tree


def acting(patch: pytest.MonkeyPatch, person: str) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        patch.setenv(f"GIT_{role}_EMAIL", f"{person}@example.org")


def candidate(tree: ReleaseTree, number: int) -> None:
    tree.run("candidate", "stage", NAME, "--rc", str(number), "--unsigned")
    folder = tree.root / "build/candidates" / f"{NAME}-rc{number}"
    made = StagedCandidate.read(folder).model_copy(update={"key": "F" * 40})
    (folder / "candidate.yaml").write_text(made.text())


def opened(tree: ReleaseTree, number: int = 1) -> None:
    tree.run("vote", "open", f"{NAME}-rc{number}", "--by", "alice")
    tree.commit(sign=True)


def vote(tree: ReleaseTree, **votes: str) -> None:
    for voter, choice in votes.items():
        tree.run("vote", "cast", RC, choice, "--by", voter)
        tree.commit(sign=True)


def promote(tree: ReleaseTree, *arguments: str, exit_code: int = 0) -> str:
    folders = (str(tree.root / "staging"), str(tree.root / "index"))
    tree.run("stage", NAME, folders[0])
    return tree.run("promote", NAME, *folders, *arguments, exit_code=exit_code).output


UPLOAD = ("--upload", "http://127.0.0.1:1/", "--dry-run")


def test_three_binding_votes_accept_a_candidate_after_72_hours(tree, clock):
    opened(tree)
    clock.after(hours=1)
    vote(tree, alice="+1", bob="+1", carol="+1", eve="-1")
    clock.after(hours=70)
    assert "may be decided from 2030-03-07 12:00:00 UTC" in tree.run("vote", "tally", RC).output
    assert f"the vote on {RC} is open" in promote(tree, *UPLOAD, exit_code=2)
    clock.after(hours=1)
    said = tree.run("vote", "tally", RC).output
    assert "-1  eve (not binding)" in said
    assert f"{RC}: the vote is accepted" in said
    assert f"{RC} was accepted" in tree.run("vote", "require", NAME).output
    assert "would upload them to http://127.0.0.1:1/" in promote(tree, *UPLOAD)


def test_an_upload_needs_three_binding_votes(tree, clock):
    opened(tree)
    clock.after(hours=1)
    vote(tree, alice="+1", bob="+1", eve="+1", dan="+1")
    clock.after(hours=80)
    said = promote(tree, *UPLOAD, exit_code=2)
    assert f"the vote on {RC} is open: 2 of 3 required binding +1" in said
    assert not (tree.root / "index").exists()


def test_without_a_vote_only_a_rehearsal_is_possible(tree):
    assert f"no one has voted on {NAME}" in promote(tree, *UPLOAD, exit_code=2)
    assert ": released" in promote(tree)


def test_no_vote_is_opened_while_too_few_people_have_a_binding_vote(tree):
    tree.commit({"MAINTAINERS.yaml": NOBODY})
    said = tree.error("vote", "open", RC, "--by", "alice")
    assert "2 people have a binding vote, and a release needs 3 binding +1" in said
    assert "hint: rehearse the release without --upload" in said


def test_an_unsigned_candidate_gets_no_vote(tree):
    tree.run("candidate", "stage", NAME, "--rc", "1", "--unsigned")
    assert f"{RC} is not signed" in tree.error("vote", "open", RC, "--by", "alice")


def test_votes_that_are_not_committed_do_not_count(tree, clock):
    tree.run("vote", "open", RC, "--by", "alice")
    assert f"HEAD has no vote on {RC}" in tree.error("vote", "cast", RC, "+1", "--by", "bob")
    assert f"HEAD has no vote on {RC}" in tree.error("vote", "tally", RC)
    tree.commit()
    for voter in ("alice", "bob", "carol"):
        tree.run("vote", "cast", RC, "+1", "--by", voter)
    clock.after(hours=80)
    assert "0 of 3 required binding +1" in tree.run("vote", "tally", RC).output


def test_the_vote_counts_from_its_merge_and_not_from_the_time_in_its_file(tree, clock):
    opened(tree)
    text = tree.text(FILE).replace("2030-03-04T12:00:00Z", "2030-02-01T12:00:00Z")
    clock.after(hours=1)
    tree.commit({FILE: text})
    vote(tree, alice="+1", bob="+1", carol="+1")
    clock.after(hours=70)
    assert "the vote is open" in tree.run("vote", "tally", RC).output


def test_a_release_has_no_veto(tree):
    opened(tree)
    said = tree.error("vote", "cast", RC, "veto", "--by", "bob", "--reason", "It is slow.")
    assert "a release has no veto\nhint: vote -1" in said


def test_the_vote_on_the_next_candidate_ends_that_on_the_one_before(tree, clock):
    opened(tree)
    assert "has had a vote" in tree.error("vote", "open", RC, "--by", "alice")
    vote(tree, alice="+1", bob="+1", carol="+1")
    clock.after(hours=80)
    candidate(tree, 2)
    opened(tree, 2)
    assert f"the vote on {RC} ended" in tree.error("vote", "cast", RC, "+1", "--by", "eve")
    assert f"the vote on {NAME}-rc2 is open" in tree.error("vote", "require", NAME)


def test_a_vote_expires(tree, clock):
    opened(tree)
    vote(tree, alice="+1", bob="+1", carol="+1")
    clock.after(days=31)
    assert f"the vote on {RC} ended" in tree.error("vote", "cast", RC, "+1", "--by", "eve")
    assert f"the vote on {RC} is expired" in tree.error("vote", "require", NAME)


def test_other_files_than_the_accepted_ones_are_not_uploaded(tree, clock):
    opened(tree)
    vote(tree, alice="+1", bob="+1", carol="+1")
    clock.after(hours=73)
    tree.verified(words="changed")
    assert "was accepted with other files" in tree.error("vote", "require", NAME)


def test_only_the_accepted_files_are_copied(tree, clock, tmp_path):
    opened(tree)
    vote(tree, alice="+1", bob="+1", carol="+1")
    clock.after(hours=73)
    dist, copy = tree.root / "build/dist", tmp_path / "packages"
    (dist / "connectors_core-9.9.9-py3-none-any.whl").write_bytes(b"")
    tree.run("vote", "require", NAME, "--copy", str(copy))
    made = StagedCandidate.read(tree.root / "build/candidates" / RC).release.artefacts
    assert {path.name for path in copy.iterdir()} == {*made}
    assert f"{copy} exists" in " ".join(
        tree.error("vote", "require", NAME, "--copy", str(copy)).split()
    )
    (dist / next(iter(made))).write_bytes(b"other")
    assert "has sha256" in tree.error("vote", "require", NAME, "--copy", str(tmp_path / "x"))


@pytest.mark.parametrize("term", ["since: 2026-01-01, until: 2030-03-04", "since: 2030-03-05"])
def test_a_vote_binds_as_on_the_day_of_its_merge(branch, clock, term):
    people = RULES["MAINTAINERS.yaml"].replace("carol, since: 2026-01-01", f"carol, {term}")
    git(branch.root, "switch", "--quiet", "main")
    branch.commit({"MAINTAINERS.yaml": people})
    git(branch.root, "switch", "--quiet", "--create", "late")
    branch.run("vote", "cast", RC, "+1", "--by", "carol")
    branch.commit()
    clock.after(days=1)
    said = check(branch, exit_code=1)
    assert "+1 of carol: a binding vote began or ended after 2030-03-04" in said


def check(tree: ReleaseTree, *arguments: str, exit_code: int) -> str:
    return tree.run("vote", "check", "--base", "main", *arguments, exit_code=exit_code).output


@pytest.fixture
def branch(tree, clock):
    """A branch for a pull request; main has the opened vote and one of alice."""
    opened(tree)
    vote(tree, alice="+1")
    clock.after(hours=1)
    git(tree.root, "switch", "--quiet", "--create", "work")
    return tree


def test_a_vote_is_shown_by_the_address_of_its_commit(branch, monkeypatch):
    acting(monkeypatch, "bob")
    vote(branch, bob="+1")
    assert "follow the rules" in check(branch, exit_code=0)
    vote(branch, carol="+1")
    assert "+1 of carol: recorded for carol, but" in check(branch, exit_code=1)


def test_a_commit_with_a_vote_is_signed_off_by_its_author(branch):
    branch.run("vote", "cast", RC, "-1", "--by", "alice")
    branch.commit()
    said = check(branch, exit_code=1)
    assert "`Signed-off-by: ... <alice@example.org>`; use `git commit -s`" in said


def test_a_vote_is_shown_by_the_pull_request(branch, tmp_path):
    vote(branch, carol="+1")
    path = tmp_path / "pull.json"
    for reviews, code in (([], 1), ([review("carol", commit=branch.head())], 0)):
        asked = request(*reviews, author="bob", head=branch.head(), files=(FILE,))
        asked["created_at"] = "2030-03-04T13:00:00Z"
        path.write_text(json.dumps(asked))
        check(branch, "--pull-request", str(path), exit_code=code)


def test_earlier_votes_and_the_candidate_never_change(branch):
    for old, new in (('"+1"', '"-1"'), ("F" * 40, "E" * 40), ('by: "alice"', 'by: "bob"')):
        git(branch.root, "reset", "--quiet", "--hard", "main")
        branch.commit(branch.replaced(FILE, old, new))
        assert f"{FILE}: what was merged has changed" in check(branch, exit_code=1)
    git(branch.root, "reset", "--quiet", "--hard", "main")
    branch.commit({FILE: None})
    assert f"{FILE} was removed" in check(branch, exit_code=1)


def test_a_change_of_a_vote_changes_nothing_else(branch):
    vote(branch, alice="-1")
    branch.commit({"README.md": "Words.\n"})
    assert "and also changes README.md" in check(branch, exit_code=1)


def test_a_change_without_votes_has_no_findings(branch):
    branch.commit({"README.md": "Words.\n", f"{CONNECTOR}/README.md": "# Words\n"})
    check(branch, exit_code=0)


def test_a_new_vote_is_opened_by_its_author_and_has_no_votes(branch):
    candidate(branch, 2)
    opened(branch, 2)
    check(branch, exit_code=0)
    path = f"releases/candidates/{NAME}-rc2.yaml"
    cast = 'votes:\n  - voter: "bob"\n    vote: "+1"\n    at: "2030-03-04T13:00:00Z"\n'
    branch.commit({path: branch.text(path).replace("votes: []\n", cast)})
    assert f"{path} is new, and has votes" in check(branch, exit_code=1)


def test_the_vote_on_an_older_candidate_is_not_opened(branch):
    candidate(branch, 3)
    opened(branch, 3)
    git(branch.root, "branch", "--force", "main")
    third, second = (f"releases/candidates/{NAME}-rc{number}.yaml" for number in (3, 2))
    branch.commit({second: branch.text(third).replace("number: 3", "number: 2")})
    assert f"{second}: {NAME}-rc3 has had a vote" in check(branch, exit_code=1)


def test_a_file_of_another_name_is_refused(tree):
    opened(tree)
    tree.commit({FILE.replace("rc1", "rc2"): tree.text(FILE)})
    assert f"contains {RC}" in tree.error("vote", "tally", RC)


def test_the_stored_vote_has_no_indirection(tree):
    opened(tree)
    tree.commit({FILE: tree.text(FILE).replace('by: "alice"', 'by: &x "alice"')})
    assert "has an anchor" in tree.error("vote", "tally", RC)


def test_a_candidate_outside_the_build_folder_is_not_found(tree):
    assert "candidate.yaml does not exist" in tree.error("vote", "open", "../x", "--by", "alice")
    assert not Path(tree.root / "releases/candidates").exists()
