# SPDX-License-Identifier: Apache-2.0
"""Tests that a pre-commit topology holds committables over epochs, whatever stops the driver."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from held_files import Setup, a_file
from hypothesis import given
from hypothesis import strategies as st
from two_sinks import SECONDS

from connectors_core.engine.coordinator.held_sets import HeldSet
from connectors_core.engine.coordinator.topologies import check_topologies
from connectors_core.engine.protocol import SinkDecision
from connectors_core.engine.query.pre_commit import SinkTopologyOverEpochs
from connectors_core.errors import ConfigurationError, FatalError, UnsupportedError
from connectors_core.sink import CombinedCommittables, SupportsCompaction, SupportsRewriting
from connectors_core.testing.compacting_sink import CompactingDirectorySink
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import (
    COMPACTING_POINTS,
    Fault,
    FaultAction,
    FaultPoint,
    injected,
)
from connectors_core.testing.holding_sink import HoldingDirectorySink

# No job combines the files of a topology.
POINTS = COMPACTING_POINTS[COMPACTING_POINTS.index(FaultPoint.BEFORE_DECISION) :]


@pytest.fixture
def setup(tmp_path):
    return Setup(tmp_path, HoldingDirectorySink)


def test_files_of_several_epochs_are_combined_and_the_end_of_the_input_drains_the_rest(setup):
    status = setup.run(setup.sink(files=5))
    setup.assert_complete()
    decisions = setup.decisions()
    combined = [each for each in decisions if each.sinks["out"].compacted]
    assert len(setup.files()) == sum(len(each.sinks["out"].compacted) for each in combined)
    assert decisions[-1].between
    members = [ref for each in combined for refs in each.sinks["out"].requests for ref in refs]
    assert len(members) == len(set(members))
    assert len({ref.epoch for ref in members}) == len(decisions) - 1
    assert status.gauges["heldCommittables"] == 0


def test_the_status_shows_what_is_held(setup):
    fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, where={"epoch": 2})
    with injected(fault), setup.pipeline(setup.sink(files=100)) as pipeline:
        with pytest.raises(Exception, match="fault injected"):
            pipeline.run(timeout=SECONDS)
        (sink,) = pipeline.status().sinks
    assert sink.gauges["heldCommittables"] > 0
    assert setup.values() == []
    setup.run(setup.sink(files=100))
    setup.assert_complete()
    assert len(setup.files()) == 1


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_any_step_loses_and_doubles_nothing(setup, point, nth):
    setup.crash_at(point, nth)


def test_an_idle_stream_commits_what_waits_too_long(setup):
    decided = setup.commit_while_idle(setup.sink(files=1000, max_time=timedelta(0)))
    assert decided == [False, True]


def test_everything_is_decided_if_too_much_is_held(setup):
    setup.run(setup.sink(files=1000, max_held=5))
    setup.assert_complete()
    assert 1 < len(setup.files()) < 12


class TestChangedSinks:
    @pytest.fixture
    def held(self, setup):
        fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, where={"epoch": 3})
        with pytest.raises(Exception, match="fault injected"):
            setup.run(setup.sink(files=1000), fault)
        return setup

    def test_a_sink_that_cannot_hold_is_refused(self, held):
        with pytest.raises(ConfigurationError, match="hold 6 committables"):
            held.run(DirectorySink(held.root / "out"))

    def test_a_compaction_takes_over_what_a_topology_held(self, held):
        held.run(CompactingDirectorySink(held.root / "out"))
        held.assert_complete()

    def test_a_topology_takes_over_what_a_compaction_held(self, setup):
        fault = Fault(FaultPoint.BEFORE_COMPACTION, action=FaultAction.RAISE)
        with pytest.raises(Exception, match="fault injected"):
            setup.run(CompactingDirectorySink(setup.root / "out"), fault)
        assert any(each.sinks["out"].requests for each in setup.decisions())
        setup.run(setup.sink())
        setup.assert_complete()


def test_a_committer_that_cannot_keep_files_is_refused(setup):
    class Forgetful(HoldingDirectorySink):
        def create_committer(self, context):
            return DirectorySink(self.path).create_committer(context)

    with pytest.raises(UnsupportedError, match="cannot keep them"):
        setup.run(Forgetful(setup.root / "out"))


@pytest.mark.parametrize("ability", [SupportsCompaction, SupportsRewriting])
def test_abilities_that_exclude_each_other_are_refused(ability):
    both = type("Both", (HoldingDirectorySink, ability), {"create_compaction": lambda self: None})
    with pytest.raises(ConfigurationError, match="would"):
        check_topologies(both("unused"), "out")


class Chosen(HoldingDirectorySink):
    """Combines as a script says."""

    def __init__(self, choose):
        super().__init__("unused")
        self.choose = choose

    def add_pre_commit_topology_over_epochs(self, held, checkpoint_id, *, everything):
        return self.choose(held)


@pytest.mark.parametrize(
    ("choose", "everything", "message"),
    [
        (lambda held: [CombinedCommittables(held=(), committables=())], False, "of nothing"),
        (lambda held: [CombinedCommittables(held=(*held, *held), committables=())], False, "other"),
        (lambda held: [], True, "leaves committables"),
    ],
)
def test_a_topology_that_loses_or_doubles_committables_is_refused(choose, everything, message):
    own = SinkTopologyOverEpochs("out", Chosen(choose))
    with pytest.raises(FatalError, match=message):
        own.step(HeldSet(), 0, SinkDecision(committables=(a_file(0),)), everything=everything)


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 5))), min_size=1, max_size=20))
def test_every_committable_is_decided_once_whatever_a_topology_chooses(steps):
    """Each step adds files and combines the held ones with these numbers, one by one."""
    chosen = set()

    def choose(held):
        picked = [each for number, each in enumerate(held) if number in chosen]
        return [
            CombinedCommittables(held=(each,), committables=(each.committable,)) for each in picked
        ]

    sink = Chosen(choose)
    held, new, settled = HeldSet(), [], []
    for epoch, (count, picks) in enumerate([*steps, (0, range(100))]):
        own = SinkTopologyOverEpochs("out", sink)  # as after a restart
        chosen.clear()
        chosen.update(picks)
        files = tuple(a_file(len(new) + number) for number in range(count))
        new += files
        decision = own.step(
            held, epoch, SinkDecision(committables=files), everything=epoch == len(steps)
        )
        held = held.after(epoch, decision)
        settled += decision.committables
    assert held.is_empty
    assert sorted(map(name_of, settled)) == sorted(map(name_of, new))


def name_of(file):
    return json.loads(file.committable.data)["name"]
