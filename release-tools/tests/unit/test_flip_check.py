# SPDX-License-Identifier: Apache-2.0
"""Tests the checks of a pull request on proposals."""

from pathlib import Path

import pytest
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


def test_a_number_follows_the_last_one(flips):
    for title in ("One", "Two"):
        flips.propose(title)
    text = flips.path(2).read_text().replace("FLIP 0002", "FLIP 9000")
    (flips.root / "flips/9000-two.md").write_text(text)
    flips.path(2).unlink()
    assert "9000-two.md: its number must be 0002, the next one" in flips.flip("check", code=1)


def test_the_draft_is_by_the_author(flips):
    flips.propose("One")
    flips.replace(1, "author: eve", "author: bob")
    said = flips.flip("check", code=1)
    assert "0001-one.md: the author is bob, but the draft is by eve" in said


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ("- &a {voter: alice}\n", "has an anchor in line 2"),
        ("- {voter: alice, voter: bob}\n", 'found duplicate key "voter"'),
        ("- {<<: {voter: alice}}\n", "has a merge key in line 2"),
        ("- !vote {voter: alice}\n", "has a tag in line 2"),
        ("[]\n---\nvotes: []\n", "is not valid YAML"),
    ],
)
def test_a_record_shows_each_value_to_its_reader(flips, votes, message):
    flips.propose("One")
    (flips.root / "flips/0001.votes.yaml").write_text(f"votes:\n{votes}")
    said = flips.flip("check", code=1)
    assert f"0001.votes.yaml {message}" in said or message in said


def test_a_link_a_folder_and_a_file_of_another_kind_are_reported(flips):
    flips.propose("One")
    (flips.root / "votes.yaml").write_text("votes: []\n")
    (flips.root / "flips/0001.votes.yaml").symlink_to("../votes.yaml")
    (flips.root / "flips/more").mkdir()
    (flips.root / "flips/notes.txt").write_text("a note")
    (flips.root / "flips/two.md").write_bytes(b"\xff")
    said = flips.flip("check", code=1)
    assert "flips/0001.votes.yaml: is not a file of flips/: replace the link" in said
    assert "flips/more: is not a file of flips/" in said
    assert "notes.txt: belongs to no proposal" in said
    assert "two.md is not a valid name of a proposal" in said or "two.md is not text" in said


def test_sections_are_read_as_markdown():
    text = Text.parse(
        "# A\n\n## One\n\n<!-- a\nremark -->\n\n## Two\n\n```md\n## No section\n```\n\n"
        "Three\n-----\n\n- an item\n"
    )
    assert text.titles == ("A",)
    assert text.sections == (("One", False), ("Two", True), ("Three", True))
