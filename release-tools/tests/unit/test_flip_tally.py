# SPDX-License-Identifier: Apache-2.0
"""Tests the count of votes with random histories."""

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from connector_release_tools.maintainers import Maintainers
from connector_release_tools.votes.model import Choice, Vote, VoteRules
from connector_release_tools.votes.tally import Outcome, Tally, tally

OPENED = datetime.datetime(2026, 3, 10, 12, tzinfo=datetime.UTC)
RULES = VoteRules(binding_approvals=3, binding_margin=1, open_hours=72, expires_after_days=30)
BINDING = ["alice", "bob", "carol", "dan", "erin", "frank"]
OTHERS = ["mallory", "trent"]
MAINTAINERS = Maintainers.model_validate(
    {
        "folders": {"/": [{"handle": "alice", "since": datetime.date(2026, 1, 1)}]},
        "binding": [
            {"handle": name, "since": datetime.date(2026, 1, 1), "until": None} for name in BINDING
        ]
        + [
            {"handle": "early", "since": datetime.date(2026, 1, 1), "until": OPENED.date()},
            {"handle": "late", "since": datetime.date(2026, 3, 12)},
        ],
    }
)
END = datetime.timedelta(days=40)


def at(**time: float) -> datetime.datetime:
    return OPENED + datetime.timedelta(**time)


def ballot(voter: str, choice: str, when: datetime.datetime = OPENED) -> Vote:
    return Vote(voter=voter, vote=choice, at=when, reason="it loses data")


def count(*votes: Vote, now: datetime.datetime | None = None) -> Tally:
    end = now or at(hours=72)
    return tally(votes, opened=OPENED, maintainers=MAINTAINERS, rules=RULES, now=end)


def ballots(voters: list[str] = BINDING + OTHERS) -> st.SearchStrategy[Vote]:
    minutes = st.integers(-60, int(END.total_seconds() // 60))
    return st.builds(
        ballot, st.sampled_from(voters), st.sampled_from(list(Choice)), minutes.map(
            lambda it: at(minutes=it)
        ),
    )  # fmt: skip


histories = st.lists(ballots(), max_size=14, unique_by=lambda vote: (vote.voter, vote.at))
moments = st.integers(0, int(END.total_seconds() // 60)).map(lambda it: at(minutes=it))
FAVOURABLE = [ballot(name, "+1") for name in BINDING[:3]]
# Covers cases that random histories rarely reach.
leaning = histories.map(lambda votes: FAVOURABLE + votes)


@given(histories, moments, st.randoms())
def test_the_order_of_votes_in_the_file_does_not_matter(votes, now, random):
    shuffled = votes[:]
    random.shuffle(shuffled)
    one, other = count(*votes, now=now), count(*shuffled, now=now)
    assert (one.outcome, set(one.missing)) == (other.outcome, set(other.missing))
    assert set(one.binding) == set(other.binding)


@given(leaning, moments)
def test_another_binding_approval_never_worsens_the_result(votes, now):
    before = count(*votes, now=now).outcome
    for name in [it for it in BINDING if it not in {vote.voter for vote in votes}]:
        after = count(*votes, ballot(name, "+1"), now=now).outcome
        if before is Outcome.ACCEPTED:
            assert after is Outcome.ACCEPTED
        assert after is before or after is not Outcome.REJECTED


# Flink's bylaws define a lazy majority (3 binding +1, and more binding +1 than -1) and a consensus
# (3 binding +1, and no binding veto): page 123900142 of cwiki.apache.org, and, for FLIPs,
# https://mail-archive.com/dev@flink.apache.org/msg26735.html. Our rules need both.
@given(leaning, moments)
def test_acceptance_meets_the_rules(votes, now):
    counted = count(*votes, now=now)
    binding = [vote.vote for vote in counted.binding]
    approvals = binding.count(Choice.FOR)
    objections = binding.count(Choice.AGAINST) + binding.count(Choice.VETO)
    by_the_rules = (
        at(hours=72) <= now <= at(days=30)
        and approvals >= 3
        and approvals > objections
        and Choice.VETO not in binding
    )
    assert (counted.outcome is Outcome.ACCEPTED) is by_the_rules


@given(leaning, moments, st.lists(ballots(OTHERS), max_size=5))
def test_non_binding_votes_do_not_change_the_result(votes, now, more):
    assert count(*votes, *more, now=now).outcome is count(*votes, now=now).outcome


@given(leaning, moments)
def test_votes_after_the_end_do_not_count(votes, now):
    inside = [vote for vote in votes if OPENED <= vote.at <= min(now, at(days=30))]
    assert count(*votes, now=now) == count(*inside, now=now)


@given(leaning, moments)
def test_a_standing_veto_prevents_acceptance(votes, now):
    veto = ballot("frank", "veto", min(now, at(days=30)))
    others = [vote for vote in votes if vote.voter != "frank" and vote.at <= now]
    now = min(now, at(days=30))
    assert count(*others, veto, now=now).outcome is not Outcome.ACCEPTED


def test_the_last_vote_of_a_person_counts():
    changed = [ballot("frank", "veto"), ballot("frank", "+1", at(hours=1))]
    assert count(*FAVOURABLE, *changed).outcome is Outcome.ACCEPTED
    assert count(*FAVOURABLE, *reversed(changed)).outcome is Outcome.ACCEPTED
    back = ballot("alice", "-1", at(hours=2))
    assert count(*FAVOURABLE, back).outcome is Outcome.OPEN


@pytest.mark.parametrize(
    ("voter", "when", "binds"),
    [
        ("early", at(hours=1), True),  # the last day
        ("early", at(days=1), False),
        ("late", at(days=1), False),
        ("late", at(days=2), True),  # the first day
        ("mallory", at(days=1), False),
        ("ALICE", at(days=1), True),  # case does not matter
    ],
)
def test_a_vote_is_binding_if_its_voter_is_a_maintainer_on_that_day(voter, when, binds):
    counted = count(ballot(voter, "+1", when))
    assert bool(counted.binding) is binds
    assert bool(counted.others) is not binds


def test_there_is_no_result_before_the_end_of_the_minimum_time():
    early = count(*FAVOURABLE, now=at(hours=72) - datetime.timedelta(seconds=1))
    assert early.outcome is Outcome.OPEN
    assert early.missing == ()
    assert count(*FAVOURABLE, now=at(hours=72)).outcome is Outcome.ACCEPTED


@pytest.mark.parametrize(
    ("votes", "outcome"),
    [
        ({}, Outcome.OPEN),
        ({"alice": "+1", "bob": "+1"}, Outcome.OPEN),
        ({"alice": "+1", "bob": "+1", "carol": "+1"}, Outcome.ACCEPTED),
        ({"alice": "-1"}, Outcome.OPEN),
        ({"alice": "-1", "bob": "-1", "carol": "-1"}, Outcome.REJECTED),
        ({"alice": "veto"}, Outcome.REJECTED),
        ({"mallory": "veto"}, Outcome.OPEN),
        (dict(zip(BINDING, ["+1"] * 3 + ["-1"] * 3, strict=True)), Outcome.REJECTED),
    ],
)
def test_votes_determine_the_result_until_the_vote_expires(votes, outcome):
    cast = [ballot(voter, choice) for voter, choice in votes.items()]
    assert count(*cast, now=at(days=30)).outcome is outcome
    assert count(*cast, now=at(days=30, seconds=1)).outcome is Outcome.EXPIRED


def test_missing_requirements_are_reported():
    counted = count(ballot("alice", "+1"), ballot("bob", "veto"))
    assert counted.missing == (
        "1 of 3 required binding +1",
        "1 binding +1 against 1 binding -1: the lead must be at least 1",
        "bob has not withdrawn the veto: it loses data",
    )


REAL = YAML(typ="safe").load(Path(__file__).with_name("real_votes.yaml").read_text())


@pytest.mark.parametrize("real", REAL, ids=[each["subject"] for each in REAL])
def test_real_votes_have_their_announced_result(real):
    choices = [choice for choice, times in real["votes"].items() for _ in range(times)]
    voters = [f"voter-{number}" for number in range(len(choices))]
    since = OPENED.date()
    people = Maintainers.model_validate(
        {
            "folders": {"/": [{"handle": "alice", "since": since}]},
            "binding": [{"handle": voter, "since": since} for voter in voters],
        }
    )
    counted = tally(
        [ballot(voter, choice) for voter, choice in zip(voters, choices, strict=True)],
        opened=OPENED,
        maintainers=people,
        rules=RULES,
        now=at(hours=72),
    )
    assert (counted.outcome is Outcome.ACCEPTED) is real["accepted"], real["source"]
