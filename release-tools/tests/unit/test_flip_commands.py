# SPDX-License-Identifier: Apache-2.0
"""The commands move a proposal through its statuses."""

import json

import pytest

from connector_release_tools.flips.model import Status


def test_a_draft_advances_to_acceptance(flips):
    number = flips.propose("Plans & reports")
    assert flips.path(number).name == "0001-plans-reports.md"
    assert flips.read(number).title == "Plans & reports"
    flips.accept(number)
    history = flips.read(number).header.history
    assert [event.status for event in history] == ["draft", "discussion", "vote", "accepted"]
    assert history[-1].by == "alice"
    assert "1 proposals follow the rules" in flips.flip("check")


def test_a_new_proposal_gets_the_number_after_the_highest(flips):
    assert [flips.propose(f"Number {it}") for it in (1, 2)] == [1, 2]
    flips.path(1).rename(flips.root / "flips/0017-elsewhere.md")
    flips.flip("new", "Next", "--author", "eve")
    assert flips.path(18).name == "0018-next.md"


def test_a_dry_run_shows_the_change_and_writes_nothing(flips):
    said = flips.flip("new", "One", "--author", "eve", "--dry-run")
    assert "+# FLIP 0001: One" in said
    assert not list((flips.root / "flips").glob("*.md"))
    number = flips.propose("One")
    before = flips.path(number).read_text()
    assert "+status: discussion" in flips.flip("open-discussion", "1", "--by", "eve", "--dry-run")
    assert flips.path(number).read_text() == before


def test_comments_survive_and_times_are_readable(flips):
    number = flips.propose("One")
    flips.replace(number, "status: draft\nhistory", "status: draft # for now\nhistory")
    flips.discuss(number)
    text = flips.path(number).read_text()
    assert "status: discussion # for now" in text
    assert "at: 2026-03-01T12:00:00Z" in text


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["open-vote", "1", "--by", "eve"], "vote after draft: allowed are discussion"),
        (["accept", "1", "--by", "eve"], "accepted after draft"),
        (["vote", "1", "+1", "--by", "alice"], "alice voted at 2026-03-01 12:00:00 UTC, when no"),
        (["tally", "1"], "FLIP 0001 is draft; it has had no vote"),
        (["withdraw", "1", "--by", "bob", "--reason", "x"], "only the author, eve, may withdraw"),
        (["open-discussion", "2", "--by", "eve"], "FLIP 0002 does not exist"),
        (["open-discussion", "1", "--by", "not a handle"], "by: String should match"),
        (["expire", "1", "--by", "eve"], "expired at 2026-03-01 12:00:00 UTC: the deadline"),
        (["supersede", "1", "1", "--by", "eve"], "FLIP 0001 is draft and supersedes nothing"),
        (["scaffold", "1"], "FLIP 0001 is draft; only an accepted proposal gets"),
        (["new", "???", "--author", "eve"], "'???' has no letters for a file name"),
        (["new", "B", "--author", "eve", "--supersedes", "1"], "only an accepted proposal can be"),
        (["new", "B", "--author", "a b"], "draft: by: String should match"),
        (["new", "B", "--author", "eve", "--no-sink"], "--no-sink needs --connector"),
        (["new", "B", "--author", "eve", "--description", "x"], "--description needs --connector"),
        (["new", "B", "--author", "eve", "--connector", "x"], "connector: description"),
        (
            ["new", "B", "--author", "eve", "--connector", "Up", "--description", "x"],
            "name: String",
        ),
    ],
)
def test_a_forbidden_transition_is_refused_and_changes_nothing(flips, command, message):
    number = flips.propose("One")
    before = {path.name: path.read_bytes() for path in (flips.root / "flips").iterdir()}
    assert message in flips.flip(*command, code=2)
    assert {path.name: path.read_bytes() for path in (flips.root / "flips").iterdir()} == before
    assert flips.read(number).header.status is Status.DRAFT


def test_a_draft_with_an_empty_section_cannot_be_discussed(flips):
    flips.flip("new", "One", "--author", "eve")
    said = flips.flip("open-discussion", "1", "--by", "eve", code=2)
    assert "flips/0001-one.md would violate the rules: section Motivation is empty; " in said
    assert "hint: see the statuses and rules in FLIP-PROCESS.md" in said


def test_a_short_discussion_needs_a_reason(flips):
    number = flips.propose("One")
    flips.discuss(number)
    flips.later(days=6, hours=23)
    refused = flips.flip("open-vote", "1", "--by", "eve", code=2)
    assert "opened after 6 days of discussion: the rules require 7 days or a reason" in refused
    flips.flip("open-vote", "1", "--by", "eve", "--reason", "a release waits for it")
    assert flips.read(number).header.history[-1].reason == "a release waits for it"


def test_a_vote_cannot_open_with_too_few_maintainers(flips):
    flips.propose("One")
    flips.discuss(1)
    flips.later(days=8)
    text = (flips.root / "MAINTAINERS.yaml").read_text()
    gone = text.replace(
        "{handle: carol, since: 2026-01-01}",
        "{handle: carol, since: 2026-01-01, until: 2026-03-08}",
    )
    (flips.root / "MAINTAINERS.yaml").write_text(gone)
    said = flips.flip("open-vote", "1", "--by", "eve", code=2)
    assert "opened with 2 binding voters: acceptance needs 3 binding +1" in said


def test_acceptance_needs_the_minimum_time_and_votes(flips):
    number = flips.propose("One")
    flips.open_vote(number)
    flips.vote(number, alice="+1", bob="+1")
    flips.later(hours=72)
    refused = flips.flip("accept", "1", "--by", "eve", code=2)
    assert "the vote is open; 2 of 3 required binding +1" in refused
    flips.vote(number, carol="+1", dan="+1", mallory="-1")
    counted = json.loads(flips.flip("tally", "1", "--format", "json"))
    assert counted["outcome"] == "accepted"
    assert counted["binding"] == {"alice": "+1", "bob": "+1", "carol": "+1"}
    assert counted["others"] == {"dan": "+1", "mallory": "-1"}
    flips.flip("accept", "1", "--by", "eve")


def test_a_veto_needs_a_reason_and_prevents_acceptance_until_it_is_withdrawn(flips):
    number = flips.propose("One")
    flips.open_vote(number)
    said = flips.flip("vote", "1", "veto", "--by", "bob", code=2)
    assert "the veto of bob has no technical reason" in said
    flips.flip("vote", "1", "veto", "--by", "bob", "--reason", "rows are lost on restart")
    flips.vote(number, alice="+1", carol="+1")
    flips.later(days=4)
    said = flips.flip("accept", "1", "--by", "eve", code=2)
    assert "bob has not withdrawn the veto: rows are lost on restart" in said
    flips.vote(number, bob="+1")
    flips.flip("accept", "1", "--by", "eve")


def test_a_proposal_that_returns_to_discussion_loses_its_votes(flips):
    number = flips.propose("One")
    flips.open_vote(number)
    flips.vote(number, alice="+1", bob="+1", carol="+1")
    flips.flip("open-discussion", "1", "--by", "eve", "--reason", "the text has a gap")
    flips.later(days=7)
    flips.flip("open-vote", "1", "--by", "eve")
    flips.later(days=4)
    assert "0 of 3 required binding +1" in flips.flip("accept", "1", "--by", "eve", code=2)


def test_an_author_can_withdraw_before_the_result_and_no_step_follows(flips):
    number = flips.propose("One")
    flips.open_vote(number)
    flips.vote(number, alice="+1", bob="+1", carol="+1")
    flips.flip("withdraw", "1", "--by", "eve", "--reason", "there is a better way")
    flips.later(days=4)
    for command in ("accept", "open-vote", "open-discussion", "expire", "reject"):
        said = flips.flip(command, "1", "--by", "eve", code=2)
        assert "after withdrawn: allowed are nothing" in said
    assert "when no vote was open" in flips.flip("vote", "1", "+1", "--by", "alice", code=2)
    flips.propose("Two")
    flips.accept(2)
    said = flips.flip("withdraw", "2", "--by", "eve", "--reason", "too late", code=2)
    assert "withdrawn after accepted: allowed are superseded" in said


def test_a_vote_without_a_result_expires(flips):
    number = flips.propose("One")
    flips.open_vote(number)
    flips.vote(number, alice="+1")
    flips.later(days=31)
    assert "when no vote was open" in flips.flip("vote", "1", "+1", "--by", "bob", code=2)
    assert "vote (the vote is over; record the result)" in flips.flip("list")
    flips.flip("expire", "1", "--by", "alice")
    assert flips.read(number).header.status is Status.EXPIRED
    flips.later(days=1000)
    assert "record it" not in flips.flip("list")


def test_a_discussion_without_a_vote_expires(flips):
    flips.propose("One")
    flips.discuss(1)
    flips.later(days=181)
    flips.flip("expire", "1", "--by", "alice")
    assert "follow the rules" in flips.flip("check")


def test_three_binding_objections_reject_a_proposal(flips):
    flips.propose("One")
    flips.open_vote(1)
    flips.vote(1, alice="-1", bob="-1")
    flips.later(days=4)
    assert "rejected at" in flips.flip("reject", "1", "--by", "alice", code=2)
    flips.vote(1, carol="-1")
    flips.flip("reject", "1", "--by", "alice")
    assert flips.read(1).header.status is Status.REJECTED


def test_an_accepted_proposal_can_be_superseded_by_an_accepted_one(flips):
    flips.propose("One")
    flips.accept(1)
    flips.propose("Two", "--supersedes", "1")
    refused = flips.flip("supersede", "1", "2", "--by", "eve", code=2)
    assert "FLIP 0002 is draft and supersedes 1" in refused
    flips.accept(2)
    left = flips.flip("check", code=1)
    assert "FLIP 0001, which is accepted: run `release-tools flip supersede 1 2`" in left
    flips.flip("supersede", "1", "2", "--by", "eve")
    assert flips.read(1).header.superseded_by == 2
    assert "follow the rules" in flips.flip("check")


def test_proposals_are_listed_as_a_table_and_as_json(flips):
    flips.propose("One")
    flips.accept(1)
    flips.propose("Two")
    assert "accepted" in flips.flip("list")
    said = json.loads(flips.flip("list", "--format", "json"))
    assert [(each["number"], each["status"]) for each in said] == [(1, "accepted"), (2, "draft")]


def test_changed_rules_keep_earlier_decisions(flips):
    flips.propose("One")
    flips.accept(1)
    rules = (flips.root / "flips/rules.yaml").read_text()
    stricter = rules.replace("since: 2026-01-01", f"since: {flips.now.date()}")
    stricter = stricter.replace("binding_approvals: 3", "binding_approvals: 4")
    (flips.root / "flips/rules.yaml").write_text(rules + stricter)
    assert "follow the rules" in flips.flip("check")
    flips.propose("Two")
    flips.discuss(2)
    flips.later(days=8)
    assert "acceptance needs 4 binding +1" in flips.flip("open-vote", "2", "--by", "eve", code=2)
