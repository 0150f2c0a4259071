# SPDX-License-Identifier: Apache-2.0
"""Tests the checks of a pull request on proposals."""

import re
from pathlib import Path

import pytest
from git_tree import git
from typer.testing import CliRunner

from connector_release_tools.cli import app
from connector_release_tools.flips.document import Text
from connector_release_tools.flips.folder import here
from connector_release_tools.flips.model import NEXT, Status
from connector_release_tools.git import Repository

ROOT = Path(__file__).parents[3]


def votes(tree, number=1):
    return tree.root / f"flips/{number:04}.votes.yaml"


def test_the_proposals_of_this_repository_follow_the_rules():
    result = CliRunner().invoke(app, ["flip", "check", "--root", str(ROOT)])
    assert result.exit_code == 0, result.output
    proposals = len(list(ROOT.glob("flips/[0-9]*.md")))
    assert f"{proposals} proposals follow the rules" in result.output


def test_the_process_page_names_every_status_and_rule():
    text = (ROOT / "FLIP-PROCESS.md").read_text()
    assert all(f"**{status}**" in text for status in Status)
    rules = here(Repository(ROOT)).rules.root[-1]
    said = " ".join(text.split())
    for words in (
        f"{rules.discussion.days} days",
        f"{rules.discussion.expires_after_days} days",
        f"{rules.vote.binding_approvals} binding +1",
        f"{rules.vote.open_hours} hours",
        f"{rules.vote.expires_after_days} days",
    ):
        assert words in said


def test_final_statuses_except_accepted_have_no_transitions():
    assert {status for status in Status if not NEXT[status]} == {
        "rejected", "withdrawn", "expired", "superseded"
    }  # fmt: skip


def test_all_findings_are_reported_at_once(flips):
    for title in ("One", "Two", "Three"):
        flips.propose(title)
    flips.discuss(1)
    flips.replace(1, "It is needed.", "")
    flips.replace(1, "# FLIP 0001", "# FLIP 0004")
    flips.replace(2, "## Motivation", "## Reasons")
    flips.replace(3, "status: draft\nhistory", "status: vote\nhistory")
    (flips.root / "flips/12-x.md").write_text("")
    (flips.root / "flips/0009.votes.yaml").write_text("votes: []\n")
    said = flips.flip("check", code=1)
    for message in (
        "0001-one.md: section Motivation is empty",
        "0001-one.md: expected one heading `# FLIP 0001: Title`",
        "0002-two.md: expected the sections Motivation, Decision; found Reasons, Decision",
        "0003-three.md: status is vote, but the history ends with draft",
        "12-x.md is not a valid name of a proposal, such as 0001-some-words.md",
        "0009.votes.yaml: belongs to no proposal",
    ):
        assert message in said


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("at: 2026-03-11T12:03:00Z", "at: 2026-03-09T12:00:00Z", "accepted at 2026-03-09 12:00:00"),
        ("at: 2026-03-08T12:00:00Z", "at: 2026-03-07T12:00:00Z", "after 6 days of discussion"),
        (
            "by: alice",
            "by: alice\n    mood: good",
            "history.3.mood: Extra inputs are not permitted",
        ),
        ("status: draft", "status: discussion", "the history begins with discussion"),
        ("at: 2026-03-01T12:00:00Z", "at: 2026-04-01T12:00:00Z", "is listed after 2026-04-01"),
        ("at: 2026-03-11T12:03:00Z", "at: 2036-03-11T12:03:00Z", "2036-03-11 12:03:00 UTC is in"),
    ],
)
def test_a_handwritten_history_is_checked_against_the_rules(flips, old, new, message):
    flips.propose("One")
    flips.accept(1)
    flips.replace(1, old, new)
    assert message in flips.flip("check", code=1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('vote: "+1"', "vote: +1", 'votes.0.vote: 1 is a number; quote it, as in "+1"'),
        ("voter: carol", "voter: dan", "2 of 3 required binding +1"),
        ("voter: carol", "voter: alice", "2 of 3 required binding +1"),
        ("12:02:00Z", "12:00:30Z", "votes: 2026-03-08 12:00:30 UTC is listed after"),
        ("2026-03-08T12:03:00Z", "2026-03-11T12:30:00Z", "carol voted at 2026-03-11 12:30:00 UTC"),
    ],
)
def test_handwritten_votes_are_counted(flips, old, new, message):
    flips.propose("One")
    flips.accept(1)
    flips.later(hours=1)
    text = votes(flips).read_text()
    assert old in text
    votes(flips).write_text(text.replace(old, new))
    assert message in flips.flip("check", code=1)


def test_a_number_is_assigned_once(flips):
    flips.propose("One")
    text = flips.path(1).read_text()
    (flips.root / "flips/0001-other.md").write_text(text)
    assert "0001-other.md: 0001-one.md has the same number" in flips.flip("check", code=1)


def compared(tree, code=1, base=None):
    return tree.flip("check", "--base", base or tree.base, code=code)


def test_a_pull_request_that_follows_the_rules_is_accepted(decided):
    decided.vote(2, bob="-1")
    decided.replace(3, "It is done.", "It is done in another way.")
    decided.propose("Four")
    decided.commit()
    assert "4 proposals follow the rules" in compared(decided, code=0)


def test_an_accepted_proposal_cannot_be_changed(decided):
    decided.replace(1, "It is done.", "It is done differently.")
    assert "0001-one.md: was changed, but is accepted; write a new one" in compared(decided)


def test_a_proposal_in_a_vote_cannot_be_changed_but_may_return_to_discussion(decided):
    decided.replace(2, "It is done.", "It is done differently.")
    assert "0002-two.md: was changed while a vote is open; return it to" in compared(decided)
    decided.flip("open-discussion", "2", "--by", "eve")
    assert "follow the rules" in compared(decided, code=0)


def test_a_number_cannot_be_reassigned(decided):
    decided.path(3).unlink()
    assert "0003-three.md: was removed; numbers are never reused" in compared(decided)


def test_history_authors_and_votes_are_append_only(decided):
    text = votes(decided, 2).read_text()
    votes(decided, 2).write_text(text.replace('"+1"', '"-1"'))
    decided.replace(3, "by: eve", "by: mallory")
    decided.replace(3, "author: eve", "author: mallory")
    said = compared(decided)
    assert "0002-two.md: votes were changed or removed; only new votes may be added" in said
    assert "0003-three.md: its history was changed; only new events may be added" in said
    assert "0003-three.md: its author was changed; it was eve" in said


def test_a_sponsor_may_be_added_after_acceptance(decided):
    plan = ("--connector", "pulsar", "--description", "Pulsar")
    decided.propose("Four", *plan)
    decided.accept(4)
    base = decided.commit()
    decided.replace(4, "author: eve", "author: eve\nsponsor: bob")
    assert "follow the rules" in compared(decided, code=0, base=base)
    base = decided.commit()
    decided.replace(4, "sponsor: bob", "sponsor: alice")
    assert "its sponsor was changed; it was bob" in compared(decided, base=base)


def test_a_pull_request_cannot_make_its_own_votes_binding(decided):
    decided.vote(2, bob="+1", mallory="+1")
    people = (decided.root / "MAINTAINERS.yaml").read_text()
    (decided.root / "MAINTAINERS.yaml").write_text(
        people + "  - {handle: mallory, since: 2026-01-01}\n"
    )
    decided.later(days=4)
    decided.flip("accept", "2", "--by", "mallory")
    assert "0002-two.md: accepted at" in compared(decided)
    assert "2 of 3 required binding +1" in compared(decided)


def test_commits_that_change_proposals_are_signed_off_by_their_author(decided):
    decided.commit({"flips/notes.txt": "a note\n"}, sign=False)
    decided.commit({"elsewhere.txt": "a note\n"}, sign=False)
    said = compared(decided)
    assert len(re.findall(r"^commit ", said, re.MULTILINE)) == 1
    assert "'a change' has no line `Signed-off-by: ... <tester@example.org>`" in said


def test_the_base_is_the_start_of_the_branch(decided):
    begin = decided.base
    decided.propose("Four")
    newer = decided.commit()
    git(decided.root, "checkout", "--quiet", "-b", "branch", begin)
    decided.propose("Four again")
    decided.commit()
    assert "follow the rules" in compared(decided, code=0, base=newer)


@pytest.mark.parametrize("revision", ["nowhere", "--all"])
def test_an_unknown_base_is_an_error(decided, revision):
    assert "is not a commit of this clone" in decided.flip("check", f"--base={revision}", code=2)


def test_an_invalid_proposal_in_the_base_is_reported(decided):
    decided.replace(3, "author: eve", "author: a b")
    decided.base = decided.commit()
    decided.replace(3, "author: a b", "author: eve")
    said = compared(decided)
    assert "so it is not compared: 0003-three.md: author: String should match" in said


def test_a_base_without_proposals_is_accepted(flips):
    base = flips.commit({"flips/rules.yaml": (flips.root / "flips/rules.yaml").read_text()})
    flips.propose("One")
    flips.commit()
    assert "follow the rules" in compared(flips, code=0, base=base)


def test_sections_are_read_as_markdown():
    text = Text.parse(
        "# A\n\n## One\n\n<!-- a\nremark -->\n\n## Two\n\n```md\n## No section\n```\n\n"
        "Three\n-----\n\n- an item\n"
    )
    assert text.titles == ("A",)
    assert text.sections == (("One", False), ("Two", True), ("Three", True))
