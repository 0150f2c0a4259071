# SPDX-License-Identifier: Apache-2.0
"""A change of proposals is checked against what its target branch and its commits show."""

import os
import shutil

import pytest
from git_tree import git

from connector_release_tools.flips.document import VotesDocument, votes_path
from connector_release_tools.votes.model import Vote

FINE = "follow the rules"


def write_vote(tree, number, voter, choice="+1", at=None):
    """Write a vote by hand, as someone does who evades the command."""
    votes = VotesDocument.read(votes_path(tree.path(number)))
    votes.add(Vote(voter=voter, vote=choice, at=at or tree.now, reason="it loses rows"))
    votes.path.write_text(votes.text(), encoding="utf-8")


def change(tree, name, old, new):
    path = tree.root / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


# What follows the rules


def test_each_step_of_a_proposal_is_a_change_of_its_own(flips):
    flips.base = flips.head()
    flips.later(hours=1)
    flips.propose("One")
    assert FINE in flips.checked(code=0)
    flips.merge()
    flips.later(hours=1)
    flips.discuss(1)
    assert FINE in flips.checked(code=0)
    flips.merge()
    flips.later(days=7)
    flips.flip("open-vote", "1", "--by", "eve")
    assert FINE in flips.checked(code=0)
    flips.merge()
    for voter in ("alice", "bob", "carol"):
        flips.vote(1, **{voter: "+1"})
        assert FINE in flips.checked(voter, code=0)
        flips.merge()
    flips.later(hours=72)
    flips.flip("accept", "1", "--by", "carol")
    assert FINE in flips.checked("carol", code=0)


def test_the_text_of_a_proposal_in_discussion_can_change(decided):
    decided.replace(3, "It is done.", "It is done in another way.")
    decided.path(3).rename(decided.root / "flips/0003-other-words.md")
    assert FINE in decided.checked("alice", code=0)


def test_a_second_address_of_a_person_is_known(decided):
    decided.vote(2, bob="-1")
    assert FINE in decided.checked("BOB@work.example.org", code=0)


def test_the_next_change_may_replace_an_accepted_proposal(decided):
    decided.flip("new", "Four", "--author", "eve", "--supersedes", "1")
    for remark in ("<!-- Why. -->", "<!-- What. -->"):
        decided.replace(4, remark, "So it is.")
    decided.open_vote(4)
    decided.merge()
    decided.vote(4, alice="+1", bob="+1", carol="+1")
    decided.merge()
    decided.later(hours=72)
    decided.flip("accept", "4", "--by", "alice")
    assert "run `release-tools flip supersede 1 4`" in decided.checked("alice")
    decided.flip("supersede", "1", "4", "--by", "alice")
    assert FINE in decided.checked("alice", code=0)


# Dates


def test_a_decided_proposal_in_one_change_is_refused(decided):
    decided.now -= decided.now - decided.now.replace(day=1)
    decided.propose("Four")
    decided.accept(4)
    decided.later(days=30)
    said = decided.checked("alice")
    assert "this change: takes 5 steps (FLIP 0004: draft, discussion, vote, accepted, +1 of" in said
    assert "0004-four.md: draft: dated 2026-03-01 12:04:00 UTC, before the newest commit" in said
    assert "0004-four.md: +1 of bob: recorded for bob, but the work of alice@example.org" in said


@pytest.mark.parametrize("days", [-1, 1])
def test_a_step_is_dated_between_the_newest_commit_of_the_target_and_now(decided, days):
    now = decided.now
    decided.later(days=days)
    write_vote(decided, 2, "bob")
    decided.now = now
    said = decided.checked("bob")
    assert ("before the newest commit" if days < 0 else "is in the future") in said


def test_the_dates_of_the_commits_of_a_change_show_nothing(decided):
    now = decided.now
    decided.later(days=10)
    decided.merge()
    decided.now = now
    decided.vote(2, bob="+1")
    decided.commit(by="bob", at=now)  # GIT_COMMITTER_DATE
    decided.later(days=10)
    assert "+1 of bob: dated 2026-03-18" in decided.checked("bob")


def test_a_merged_commit_with_an_old_date_does_not_make_the_target_older(decided):
    decided.later(days=10)
    git(decided.root, "checkout", "--quiet", "-b", "side")
    decided.commit({"x": "1"}, at=decided.now.replace(year=2020))
    git(decided.root, "checkout", "--quiet", "main")
    with decided.acting("eve", decided.now):
        git(decided.root, "merge", "--quiet", "--no-ff", "--no-edit", "side")
    decided.base = decided.head()
    decided.commit({"y": "1"}, at=decided.now.replace(year=2020))  # pushed, not merged
    decided.base = decided.head()
    write_vote(decided, 2, "bob", at=decided.now.replace(day=20))
    decided.later(days=1)
    assert "+1 of bob: dated 2026-03-20" in decided.checked("bob")


def test_a_commit_of_the_target_from_the_future_does_not_stop_everyone(decided):
    decided.replace(3, "It is done.", "It is done twice.")
    decided.commit(at=decided.now.replace(year=2099))
    decided.later(hours=1)
    decided.merge()
    write_vote(decided, 2, "bob", at=decided.now.replace(minute=5, hour=12))
    assert "+1 of bob: dated 2026-03-18 12:05:00 UTC, before the newest" in decided.checked("bob")
    git(decided.root, "reset", "--quiet", "--hard", decided.base)
    decided.later(days=7)
    decided.flip("open-vote", "3", "--by", "eve")
    assert FINE in decided.checked(code=0)


def test_an_old_branch_cannot_choose_an_old_target(decided):
    old = decided.base
    decided.later(days=10)
    decided.vote(2, carol="+1")
    newest = decided.merge()
    git(decided.root, "checkout", "--quiet", "-b", "branch", old)
    write_vote(decided, 2, "bob", at=decided.now.replace(day=19))
    decided.base = newest
    said = decided.checked("bob")
    assert f"this change: lacks the newest commit of {newest}: merge or rebase" in said


def test_an_old_branch_that_changes_no_proposal_is_accepted(decided):
    old = decided.base
    decided.propose("Four")
    newest = decided.merge()
    git(decided.root, "checkout", "--quiet", "-b", "branch", old)
    decided.base = newest
    (decided.root / "elsewhere.txt").write_text("a note")
    assert FINE in decided.checked(code=0)


def test_a_discussion_lasts_from_its_merge(decided):
    decided.propose("Four")
    decided.merge()
    decided.discuss(4)  # written today, and merged a week later
    decided.later(days=7)
    decided.merge()
    decided.flip("open-vote", "4", "--by", "eve")
    said = decided.checked()
    assert (
        "the vote opens too early: the discussion was merged on 2026-03-25, and the rules" in said
    )


def test_a_vote_is_open_from_its_merge(decided):
    decided.propose("Four")
    decided.discuss(4)
    decided.later(days=7)
    decided.merge()
    decided.flip("open-vote", "4", "--by", "eve")
    decided.later(days=3)
    decided.merge()
    decided.vote(4, alice="+1", bob="+1", carol="+1")
    decided.merge()
    decided.flip("accept", "4", "--by", "alice")
    said = decided.checked("alice")
    assert "0004-four.md: accepted too early: the vote was merged at 2026-03-28 12:04 UTC" in said


def test_a_vote_does_not_open_with_an_old_date(decided):
    decided.later(days=7)
    decided.flip("open-vote", "3", "--by", "eve")
    decided.later(days=1)
    assert FINE in decided.checked(code=0)
    decided.later(days=1)
    said = decided.checked()
    assert "0003-three.md: the vote opens on 2026-03-25, and part of its time has passed" in said


def test_a_text_change_does_not_begin_a_discussion_again(decided):
    decided.later(days=6)
    decided.replace(3, "It is done.", "It is done twice.")
    decided.merge()
    decided.later(days=1)
    decided.flip("open-vote", "3", "--by", "eve")
    assert FINE in decided.checked(code=0)


def test_the_time_of_a_merge_needs_the_history(decided, tmp_path):
    decided.later(days=7)
    decided.flip("open-vote", "3", "--by", "eve")
    decided.commit()
    shutil.move(decided.root, tmp_path / "whole")
    git(tmp_path, "clone", "--quiet", "--depth=2", f"file://{tmp_path}/whole", str(decided.root))
    said = decided.flip("check", "--base", decided.base, code=2)
    assert "the clone is shallow, so the time of a merge is unknown" in said
    assert "hint: run `git fetch --unshallow`" in said


# Votes


def test_votes_of_other_people_in_the_commit_of_one_person_are_refused(decided):
    decided.vote(2, bob="+1", carol="+1")
    said = decided.checked("bob")
    assert (
        "0002-two.md: +1 of carol: recorded for carol, but the work of bob@example.org is from "
        "bob: commit with an address that MAINTAINERS.yaml of the target branch gives for this "
        "person, or check the pull request with --pull-request"
    ) in said
    assert "+1 of bob" not in said


def test_an_acceptance_of_another_person_is_refused(decided):
    decided.vote(2, bob="+1", carol="+1")
    decided.merge()
    decided.later(hours=72)
    decided.flip("accept", "2", "--by", "carol")
    said = decided.checked("eve")
    assert "0002-two.md: accepted: recorded for carol, but the work of eve@example.org" in said


def test_commits_of_several_people_show_the_step_of_no_one(decided):
    decided.vote(2, bob="+1")
    decided.commit(by="alice")
    (decided.root / "flips/0002.votes.yaml").write_text(
        (decided.root / "flips/0002.votes.yaml").read_text() + "# counted\n"
    )
    said = decided.checked("bob")
    assert "the work of alice@example.org, bob@example.org is from no one in MAINTAINERS" in said


def test_the_name_in_a_sign_off_is_no_handle(decided):
    decided.vote(2, bob="+1")
    decided.commit(by="mallory")
    with decided.acting("mallory", decided.now):
        git(decided.root, "commit", "--quiet", "--amend", "--no-edit",
            "--trailer", "Signed-off-by: bob <bob@example.org>")  # fmt: skip
    said = decided.checked("mallory")
    assert "+1 of bob: recorded for bob, but the work of mallory@example.org" in said


def test_a_step_of_a_team_is_refused(decided):
    decided.flip("open-discussion", "2", "--by", "org/team")
    assert "discussion: org/team is a team: record the person" in decided.checked("alice")


def test_the_proposal_of_a_team_is_withdrawn_by_a_person_with_a_binding_vote(decided):
    change(decided, "flips/0003-three.md", "eve", "org/team")
    decided.merge()
    flips = ("withdraw", "3", "--reason", "there is a better way", "--by")
    assert "only the author, org/team, may withdraw" in decided.flip(*flips, "dan", code=2)
    decided.flip(*flips, "bob")
    assert FINE in decided.checked("bob", code=0)


def test_a_vote_cannot_join_a_vote_that_is_closed(decided):
    write_vote(decided, 1, "bob", at=decided.read(1).header.history[-1].at)
    said = decided.checked("bob")
    assert "0001-one.md: has new votes, but is accepted in the target branch: no vote is" in said


def test_a_vote_counts_when_it_is_merged(decided):
    decided.later(days=29)
    decided.vote(2, bob="+1")
    decided.later(days=2)
    said = decided.checked("bob")
    assert "0002-two.md: has new votes, but its vote is over: a vote counts when it is" in said


def test_a_vote_is_binding_on_its_day_and_today(decided):
    change(decided, "MAINTAINERS.yaml", "{handle: bob, since: 2026-01-01}\n  - {handle: carol",
           "{handle: bob, since: 2026-01-01, until: 2026-03-19}\n  - {handle: carol")  # fmt: skip
    decided.merge()
    decided.vote(2, bob="+1")
    decided.later(days=3)
    said = decided.checked("bob")
    assert "+1 of bob: a binding vote began or ended after 2026-03-18: undo it" in said


def test_a_result_is_recorded_in_time(decided):
    decided.vote(2, bob="+1", carol="+1")
    decided.merge()
    decided.later(days=29)
    decided.flip("accept", "2", "--by", "carol")
    decided.later(days=2)
    assert "0002-two.md: accepted now: the vote is expired" in decided.checked("carol")


@pytest.mark.parametrize("case", ["Bob", "BOB"])
def test_the_case_of_a_handle_does_not_matter(decided, case):
    decided.flip("vote", "2", "+1", "--by", case)
    assert FINE in decided.checked("bob", code=0)
    decided.merge()
    write_vote(decided, 2, "bob", "-1", at=decided.now)
    change(decided, "flips/0002.votes.yaml", "voter: bob", "voter: bOb")
    said = decided.checked("mallory")
    assert "-1 of bob: recorded for bob, but the work of mallory@example.org" in said


# Records


def test_an_accepted_proposal_cannot_be_changed(decided):
    decided.replace(1, "It is done.", "It is done differently.")
    assert "0001-one.md: was changed, but is accepted; write a new one" in decided.checked()


def test_a_vote_opens_on_the_discussed_text(decided):
    decided.later(days=7)
    decided.replace(3, "It is done.", "It is done differently.")
    decided.flip("open-vote", "3", "--by", "eve")
    said = decided.checked()
    assert "0003-three.md: the vote opens on another text than the discussed one" in said


def test_a_vote_opens_on_the_discussed_plan(decided):
    decided.later(days=7)
    decided.flip("open-vote", "3", "--by", "eve")
    decided.replace(3, "status: vote\nhistory", "status: vote\nsupersedes: 1\nhistory")
    assert "the vote opens on another text than the discussed one" in decided.checked("eve")


def test_a_proposal_in_a_vote_cannot_be_changed_but_may_return_to_discussion(decided):
    decided.replace(2, "It is done.", "It is done differently.")
    said = decided.checked()
    assert "0002-two.md: was changed while a vote is open; return it to" in said
    decided.flip("open-discussion", "2", "--by", "eve")
    assert FINE in decided.checked(code=0)


@pytest.mark.parametrize("name", ["0001-other.md", "0004-one.md", "one.md"])
def test_a_file_of_an_accepted_proposal_keeps_its_name(decided, name):
    decided.path(1).rename(decided.root / "flips" / name)
    said = decided.checked()
    assert "was changed, but is accepted" in said or "was removed; numbers are never reused" in said


@pytest.mark.parametrize("name", ["0002.votes.yml", "x0002.votes.yaml", None])
def test_the_votes_cannot_go(decided, name):
    path = decided.root / "flips/0002.votes.yaml"
    if name is None:
        path.unlink()
    else:
        path.rename(path.with_name(name))
    said = decided.checked()
    assert "0002-two.md: votes were changed or removed; only new votes may be added" in said


def test_history_authors_and_votes_are_append_only(decided):
    change(decided, "flips/0002.votes.yaml", '"+1"', '"-1"')
    decided.replace(3, "by: eve", "by: mallory")
    decided.replace(3, "author: eve", "author: mallory")
    said = decided.checked()
    assert "0002-two.md: votes were changed or removed; only new votes may be added" in said
    assert "0003-three.md: its history was changed; only new events may be added" in said
    assert "0003-three.md: its author was changed; it was eve" in said


def test_a_link_instead_of_a_file_is_refused(decided):
    path = decided.root / "flips/0002.votes.yaml"
    path.rename(decided.root / "votes.yaml")
    path.symlink_to("../votes.yaml")
    said = decided.checked()
    assert "this change: flips/0002.votes.yaml: is not a file of flips/: replace the link" in said


def test_a_submodule_instead_of_a_file_is_refused(decided):
    oid = decided.head()
    git(decided.root, "update-index", "--add", "--cacheinfo", f"160000,{oid},flips/0004-four.md")
    with decided.acting("eve", decided.now):
        git(decided.root, "commit", "--quiet", "--signoff", "--message", "a submodule")
    said = decided.flip("check", "--base", decided.base, code=1)
    assert "this change: flips/0004-four.md: is not a file of flips/" in said


@pytest.mark.parametrize("name", ["MAINTAINERS.yaml", "flips/rules.yaml"])
def test_people_and_rules_are_files(decided, name):
    path = decided.root / name
    path.rename(decided.root / "elsewhere.yaml")
    path.symlink_to(os.path.relpath(decided.root / "elsewhere.yaml", path.parent))
    said = decided.checked(code=2)
    assert "MAINTAINERS.yaml is not a file in" in said or "flips/rules.yaml does not exist" in said


def test_an_attribute_of_git_cannot_hide_a_proposal_of_the_target(decided):
    (decided.root / ".gitattributes").write_text("flips/0001* export-ignore\n")
    decided.merge()
    decided.replace(1, "It is done.", "It is done differently.")
    assert "0001-one.md: was changed, but is accepted" in decided.checked()


def test_an_uncommitted_change_is_not_checked(decided):
    decided.replace(3, "It is done.", "It is done twice.")
    said = decided.flip("check", "--base", decided.base, code=1)
    assert "uncommitted changes are not checked: commit them first" in said


def test_a_step_changes_only_its_proposal(decided):
    decided.vote(2, bob="+1")
    (decided.root / "README.md").write_text("more")
    said = decided.checked("bob")
    assert "takes a step (FLIP 0002: +1 of bob), and also changes README.md: make two pull" in said


@pytest.mark.parametrize("second", ["discussion", "vote", "proposal"])
def test_a_change_takes_one_step(decided, second):
    decided.vote(2, bob="+1")
    if second == "discussion":
        decided.flip("open-discussion", "2", "--by", "bob")
    elif second == "vote":
        decided.later(days=8)
        decided.flip("open-vote", "3", "--by", "bob")
    else:
        decided.propose("Four", author="bob")
    assert "this change: takes 2 steps (FLIP 0002" in decided.checked("bob")


def test_a_sponsor_may_be_added_after_acceptance_by_the_sponsor(decided):
    plan = ("--connector", "pulsar", "--description", "Pulsar")
    decided.propose("Four", *plan)
    decided.accept(4)
    decided.merge()
    decided.replace(4, "author: eve", "author: eve\nsponsor: bob")
    assert "0004-four.md: sponsor: recorded for bob, but the work of eve@" in decided.checked("eve")
    git(decided.root, "reset", "--quiet", "--soft", decided.base)
    assert FINE in decided.checked("bob", code=0)
    decided.merge()
    decided.replace(4, "sponsor: bob", "sponsor: alice")
    assert "its sponsor was changed; it was bob" in decided.checked("alice")


# Numbers


def test_a_number_cannot_be_reassigned(decided):
    decided.path(3).unlink()
    assert "0003-three.md: was removed; numbers are never reused" in decided.checked()


def test_a_new_number_is_the_next_one(decided):
    decided.propose("Four")
    text = decided.path(4).read_text().replace("FLIP 0004", "FLIP 9000")
    (decided.root / "flips/9000-four.md").write_text(text)
    decided.path(4).unlink()
    assert "9000-four.md: its number must be 0004, the next one: rename it" in decided.checked()


def test_two_changes_cannot_take_the_same_number(decided):
    begin = decided.base
    decided.propose("Four")
    newer = decided.merge()
    git(decided.root, "checkout", "--quiet", "-b", "branch", begin)
    decided.propose("Four again")
    decided.base = newer
    assert f"lacks the newest commit of {newer}" in decided.checked()


# Rules and people


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("binding_approvals: 3", "binding_approvals: 1", "existing rules were changed or removed"),
        ("- since: 2026-01-01", "- since: 2026-01-02", "existing rules were changed or removed"),
        (
            "    Motivation: Why.\n    Decision: What. # the heart of it\n",
            "    Decision: What. # the heart of it\n    Motivation: Why.\n",
            "existing rules were changed or removed",
        ),
    ],
)
def test_rules_cannot_be_edited(decided, old, new, message):
    change(decided, "flips/rules.yaml", old, new)
    assert f"flips/rules.yaml: {message}" in decided.checked()


@pytest.mark.parametrize(("days", "code"), [(-30, 1), (0, 1), (1, 0)])
def test_new_rules_begin_after_their_merge(decided, days, code):
    rules = (decided.root / "flips/rules.yaml").read_text()
    now = decided.now
    decided.later(days=days)
    new = rules.replace("2026-01-01", str(decided.now.date())).replace(
        "approvals: 3", "approvals: 1"
    )
    decided.now = now
    (decided.root / "flips/rules.yaml").write_text(rules + new)
    said = decided.checked(code=code)
    assert ("they can begin on 2026-03-19 or later, after they are merged" in said) is bool(code)


def test_a_step_cannot_choose_the_rules_of_an_earlier_day(decided):
    rules = (decided.root / "flips/rules.yaml").read_text()
    new = rules.replace("2026-01-01", "2026-03-26").replace("days: 7", "days: 14")
    (decided.root / "flips/rules.yaml").write_text(rules + new)
    decided.merge()
    decided.later(days=7)
    decided.flip("open-vote", "3", "--by", "eve")
    assert FINE in decided.checked(code=0)
    decided.later(days=1)
    said = decided.checked()
    assert "0003-three.md: vote: dated 2026-03-25, when other rules applied than today" in said


CAROL = "  - {handle: carol, since: 2026-01-01}\n"
DAN = "  - {handle: dan, since: 2026-01-01, until: 2026-02-28}\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (CAROL, "", "the term of carol since 2026-01-01 was changed or removed; restore it"),
        (DAN, "", "binding: the term of dan since 2026-01-01 was removed; restore it"),
        (CAROL, CAROL.replace("01-01", "03-01"), "the term of carol since 2026-01-01 was changed"),
        (CAROL, CAROL.replace("carol", "mallory"), "the term of carol since 2026-01-01 was chang"),
        (
            CAROL,
            CAROL.replace("}", ", until: 2026-03-17}"),
            "the term of carol ends on 2026-03-17, which is past; it can end on 2026-03-18 or",
        ),
        (DAN, DAN.replace(", until: 2026-02-28", ""), "ends on 2026-02-28; restore that, and add"),
        (DAN, DAN.replace("02-28", "03-28"), "ends on 2026-02-28; restore that, and add"),
        (
            DAN,
            DAN + "  - {handle: mallory, since: 2026-03-18}\n",
            "binding: the term of mallory begins on 2026-03-18; a new term can begin on 2026-03-19",
        ),
        (
            DAN,
            DAN + "  - {handle: mallory, since: 2026-01-01}\n",
            "binding: the term of mallory begins on 2026-01-01; a new term can begin on 2026-03-19",
        ),
        (
            "  flips:\n    - {handle: bob, since: 2026-01-01}\n",
            "",
            "folders: flips: the term of bob since 2026-01-01 was removed",
        ),
        (
            "binding:",
            "  docs:\n    - {handle: mallory, since: 2026-01-01}\nbinding:",
            "folders: docs: the term of mallory begins on 2026-01-01; a new term can begin on",
        ),
        ("  alice: [alice@example.org]\n", "", "addresses: alice@example.org of alice was removed"),
        (
            "addresses:\n",
            "addresses:\n  mallory: [mallory@example.org]\n",
            "addresses: recorded for mallory, but the work of eve@example.org is from eve",
        ),
    ],
)
def test_the_list_of_maintainers_is_append_only(decided, old, new, message):
    change(decided, "MAINTAINERS.yaml", old, new)
    assert message in decided.checked()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CAROL, CAROL.replace("}", ", until: 2026-03-18}")),
        (DAN, DAN + "  - {handle: mallory, since: 2026-03-19}\n"),
        ("binding:", "  docs:\n    - {handle: mallory, since: 2026-03-18}\nbinding:"),
        ("[eve@example.org]", "[eve@example.org, eve@home.example.org]"),
    ],
)
def test_terms_and_addresses_can_be_added(decided, old, new):
    change(decided, "MAINTAINERS.yaml", old, new)
    assert FINE in decided.checked(code=0)


def test_an_old_vote_does_not_become_binding_over_several_changes(decided):
    decided.vote(2, mallory="+1")
    decided.merge()
    for since in ("2026-03-18", "2026-03-01"):  # today, and before the vote
        change(decided, "MAINTAINERS.yaml", DAN, DAN + f"  - {{handle: mallory, since: {since}}}\n")
        assert "a new term can begin on 2026-03-19 or later" in decided.checked()
        git(decided.root, "reset", "--quiet", "--hard", decided.base)
    change(decided, "MAINTAINERS.yaml", DAN, DAN + "  - {handle: mallory, since: 2026-03-19}\n")
    assert FINE in decided.checked(code=0)
    decided.merge()
    change(decided, "MAINTAINERS.yaml", "mallory, since: 2026-03-19", "mallory, since: 2026-03-01")
    assert "the term of mallory since 2026-03-19 was changed or removed" in decided.checked()
    git(decided.root, "reset", "--quiet", "--hard", decided.base)
    decided.later(days=5)
    decided.vote(2, bob="+1")
    decided.merge()
    assert "2 of 3 required binding +1" in decided.flip("accept", "2", "--by", "eve", code=2)


def test_a_change_cannot_make_its_own_votes_binding(decided):
    decided.vote(2, bob="+1", mallory="+1")
    decided.merge()
    change(decided, "MAINTAINERS.yaml", DAN, DAN + "  - {handle: mallory, since: 2026-01-01}\n")
    decided.later(days=4)
    decided.flip("accept", "2", "--by", "mallory")
    said = decided.checked("mallory")
    assert "0002-two.md: accepted at" in said
    assert "2 of 3 required binding +1" in said


# Commits


def test_commits_that_change_proposals_are_signed_off_by_their_author(decided):
    decided.replace(3, "It is done.", "It is done twice.")
    decided.commit(sign=False)
    decided.commit({"elsewhere.txt": "a note\n"}, sign=False)
    said = decided.flip("check", "--base", decided.base, code=1)
    assert said.count("'a change' has no line") == 1
    assert "'a change' has no line `Signed-off-by: ... <eve@example.org>`; use `git commit" in said


def test_a_merge_that_changes_a_proposal_itself_is_a_commit_like_any_other(decided):
    git(decided.root, "checkout", "--quiet", "-b", "side")
    decided.commit({"x": "1"})
    git(decided.root, "checkout", "--quiet", "main")
    decided.commit({"y": "1"})
    with decided.acting("mallory", decided.now):
        git(decided.root, "merge", "--quiet", "--no-ff", "--no-commit", "side")
        decided.vote(2, bob="+1")
        git(decided.root, "add", "--all")
        git(decided.root, "commit", "--quiet", "--message", "merge side")
    said = decided.flip("check", "--base", decided.base, code=1)
    assert "'merge side' has no line `Signed-off-by: ... <mallory@example.org>`" in said
    assert "+1 of bob: recorded for bob, but the work of mallory@example.org" in said


def test_a_merge_of_the_target_needs_no_sign_off(decided):
    git(decided.root, "checkout", "--quiet", "-b", "branch")
    decided.replace(3, "It is done.", "It is done twice.")
    decided.commit()
    git(decided.root, "checkout", "--quiet", "main")
    decided.vote(2, bob="+1")
    decided.merge()
    git(decided.root, "checkout", "--quiet", "branch")
    with decided.acting("eve", decided.now):
        git(decided.root, "merge", "--quiet", "--no-edit", "main")
    assert FINE in decided.checked(code=0)


def test_a_rebased_change_is_judged_like_the_first_one(decided):
    git(decided.root, "checkout", "--quiet", "-b", "branch")
    decided.vote(2, bob="+1")
    decided.commit(by="bob")
    git(decided.root, "checkout", "--quiet", "main")
    decided.later(days=2)
    decided.base = decided.commit({"x": "1"})
    git(decided.root, "checkout", "--quiet", "branch")
    with decided.acting("bob", decided.now):
        git(decided.root, "rebase", "--quiet", "main")
    said = decided.checked("bob")
    assert (
        "+1 of bob: dated 2026-03-18 12:05:00 UTC, before the newest commit of the target" in said
    )


@pytest.mark.parametrize("revision", ["nowhere", "--all"])
def test_an_unknown_base_is_an_error(decided, revision):
    assert "is not a commit of this clone" in decided.flip("check", f"--base={revision}", code=2)


def test_a_base_without_common_history_is_an_error(decided):
    git(decided.root, "checkout", "--quiet", "--orphan", "other")
    decided.commit()
    assert "shares no history" in decided.flip("check", "--base", decided.base, code=2)


def test_an_invalid_proposal_in_the_base_is_reported(decided):
    decided.replace(3, "author: eve", "author: a b")
    decided.merge()
    decided.replace(3, "author: a b", "author: eve")
    said = decided.checked()
    assert "the target branch cannot be compared: 0003-three.md: author: String should" in said
