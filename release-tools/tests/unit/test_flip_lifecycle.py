# SPDX-License-Identifier: Apache-2.0
"""Tests the rules with random histories of proposals and votes."""

import datetime
from itertools import accumulate

from flip_tree import MAINTAINERS, RULES
from hypothesis import event, given, settings
from hypothesis import strategies as st

from connector_release_tools.errors import FlipError
from connector_release_tools.flips.document import Flip
from connector_release_tools.flips.lifecycle import Judge
from connector_release_tools.flips.model import NEXT, Event, Header, RuleBook, Status
from connector_release_tools.maintainers import Maintainers
from connector_release_tools.votes.model import Choice, Vote
from connector_release_tools.yaml_text import load

BEGIN = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
JUDGE = Judge(
    maintainers=Maintainers.parse(MAINTAINERS),
    rules=RuleBook.model_validate(load(RULES, name="rules", error=FlipError)),
    now=BEGIN + datetime.timedelta(days=4000),
)
BODY = "# FLIP 0001: One\n\n## Motivation\n\nIt is needed.\n\n## Decision\n\nIt is done.\n"
VOTERS = ("alice", "bob", "carol", "mallory")
USUAL = {
    Status.DRAFT: Status.DISCUSSION,
    Status.DISCUSSION: Status.VOTE,
    Status.VOTE: Status.ACCEPTED,
}
HOURS = (1, 71, 72, 24 * 7, 24 * 31, 24 * 181)


@st.composite
def proposals(draw):
    """Draw mostly allowed transitions, and sometimes forbidden ones."""
    statuses = [Status.DRAFT]
    while len(statuses) < 6 and draw(st.integers(0, 5)):
        next_ones = NEXT[statuses[-1]] if draw(st.integers(0, 19)) else set(Status)
        if not (next_ones := sorted(next_ones - {Status.SUPERSEDED})):
            break
        often = [USUAL[statuses[-1]]] * 3 if statuses[-1] in USUAL else []
        statuses.append(draw(st.sampled_from([*next_ones, *often])))
    gaps = st.lists(st.sampled_from(HOURS), min_size=len(statuses), max_size=len(statuses))
    times = [BEGIN + datetime.timedelta(hours=it) for it in accumulate(draw(gaps))]
    by = draw(st.sampled_from(["eve", "eve", "eve", "bob"]))
    history = tuple(
        Event(status=status, at=at, by=by, reason="because")
        for status, at in zip(statuses, times, strict=True)
    )
    opened = [it.at for it in history if it.status is Status.VOTE]
    votes = [vote for at in opened for vote in draw(ballots(at))]
    header = Header(author="eve", status=statuses[-1], history=history)
    return Flip("0001-one.md", 1, header, BODY, tuple(votes))


def ballots(opened):
    choices = st.one_of(st.just(Choice.FOR), st.just(Choice.AGAINST), st.sampled_from(Choice))
    alike = choices.map(lambda choice: [(voter, choice) for voter in VOTERS])
    mixed = st.lists(st.tuples(st.sampled_from(VOTERS), choices), max_size=6)
    return st.one_of(alike, mixed).map(
        lambda cast: [
            Vote(voter=voter, vote=vote, at=opened + datetime.timedelta(minutes=it), reason="x")
            for it, (voter, vote) in enumerate(cast)
        ]
    )


@settings(max_examples=300)
@given(proposals())
def test_a_valid_history_ends_once_and_its_votes_decide_the_result(flip):
    if JUDGE.breaches(flip):
        return
    statuses = [it.status for it in flip.header.history]
    event(f"by the rules: {statuses[-1]}")
    assert not any(status.is_final for status in statuses[:-1])
    last = flip.header.history[-1]
    if last.status is Status.WITHDRAWN:
        assert last.by == flip.header.author
    if last.status in {Status.ACCEPTED, Status.REJECTED}:
        opened = flip.header.history[-2]
        assert opened.status is Status.VOTE
        assert last.at - opened.at >= datetime.timedelta(hours=72)
        cast = {vote.voter: vote.vote for vote in flip.votes if vote.at >= opened.at}
        binding = [cast[name] for name in ("alice", "bob", "carol") if name in cast]
        assert (binding == [Choice.FOR] * 3) is (last.status is Status.ACCEPTED)


@given(proposals(), st.sampled_from(list(Status)))
def test_only_the_table_defines_allowed_transitions(flip, status):
    last = flip.header.history[-1]
    if status in NEXT[last.status] or status is Status.SUPERSEDED:
        return
    after = Event(status=status, at=last.at, by="eve", reason="because")
    header = Header(author="eve", status=status, history=(*flip.header.history, after))
    said = JUDGE.breaches(Flip(flip.name, flip.number, header, flip.body, flip.votes))
    assert any(each.startswith(f"{status} after {last.status}: allowed are") for each in said)
