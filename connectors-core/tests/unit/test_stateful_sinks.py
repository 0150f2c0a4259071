# SPDX-License-Identifier: Apache-2.0
"""Tests that writers resume from the states of decided epochs, with any number of writers."""

from __future__ import annotations

import pytest
from decisions import a_decision
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.engine.coordinator.plan_log import decisions_since
from connectors_core.engine.coordinator.writer_states import SinkStates, redistributed
from connectors_core.engine.execution.writer_task import SinkTask, WriterMessage
from connectors_core.engine.protocol import Decision, SinkDecision, Versioned
from connectors_core.engine.state import StateStore
from connectors_core.errors import ConfigurationError, FatalError
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.sink import SupportsRewriting
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing.compacting_sink import CompactingDirectorySink
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultInjected, FaultPoint, injected
from connectors_core.testing.local_pipeline import LocalPipeline
from connectors_core.testing.stateful_sink import Chain, NumberingDirectorySink

ROWS = 60
SECONDS = 30


def states_of(*counts: int) -> tuple[tuple[Versioned, ...], ...]:
    """Return the given numbers of states per writer, each with different content."""
    numbers = iter(range(sum(counts)))
    return tuple(
        tuple(Versioned(version=1, data=b"%d" % next(numbers)) for _ in range(count))
        for count in counts
    )


def flat(states):
    return [each for own in states for each in own]


# --- Redistribution ------------------------------------------------------------------------------


@given(counts=st.lists(st.integers(0, 5), max_size=9), writers=st.integers(1, 12))
def test_no_state_is_lost_or_duplicated_and_all_writers_get_about_the_same_number(counts, writers):
    states = states_of(*counts)
    dealt = redistributed(states, writers)
    assert len(dealt) == writers
    assert sorted(flat(dealt), key=lambda each: int(each.data)) == flat(states)
    for own in dealt:
        assert list(own) == sorted(own, key=lambda each: int(each.data))
    if writers != len(states):
        sizes = [len(own) for own in dealt]
        assert max(sizes) - min(sizes) <= 1


@given(counts=st.lists(st.integers(0, 5), min_size=1, max_size=9))
def test_with_the_same_number_of_writers_each_keeps_its_states(counts):
    states = states_of(*counts)
    assert redistributed(states, len(states)) == states


@given(
    counts=st.lists(st.integers(0, 3), min_size=1, max_size=5),
    parallelisms=st.lists(st.integers(1, 7), max_size=5),
)
def test_no_state_is_lost_over_many_changes_of_parallelism(counts, parallelisms):
    states = states_of(*counts)
    wanted = set(flat(states))
    for writers in parallelisms:
        states = redistributed(states, writers)
    assert len(flat(states)) == len(wanted)
    assert set(flat(states)) == wanted


# --- Between two epochs ---------------------------------------------------------------------------


def decision(**sinks: SinkDecision) -> Decision:
    return a_decision(3, sinks=sinks)


def task(sink, writers: int | None = 2) -> SinkTask:
    return SinkTask(uid="out", sink=sink, schema=None, writers=writers)


def test_a_writer_without_rows_keeps_its_restored_states(tmp_path):
    states = SinkStates([task(NumberingDirectorySink(tmp_path))])
    first, second = states_of(1, 2)
    states.restore(decision(out=SinkDecision(writer_states=(first, second))))
    (given_to,) = states.given_to([task(NumberingDirectorySink(tmp_path))])
    assert given_to.states == (first, second)
    new = Versioned(version=1, data=b"new")
    messages = [
        WriterMessage(sink="out", subtask=1, rows=0, bytes=0),
        WriterMessage(sink="out", subtask=0, rows=3, bytes=9, states=(new,)),
    ]
    assert SinkStates.left_by(given_to, messages) == ((new,), second)
    assert SinkStates.left_by(given_to, []) == (first, second)


def test_a_writer_may_leave_no_state(tmp_path):
    given_to = SinkTask(
        uid="out", sink=NumberingDirectorySink(tmp_path), schema=None, states=states_of(2)
    )
    message = WriterMessage(sink="out", subtask=0, rows=3, bytes=9, states=())
    assert SinkStates.left_by(given_to, [message]) == ((),)


def test_states_of_a_sink_that_no_longer_keeps_state_are_refused(tmp_path):
    states = SinkStates([task(DirectorySink(tmp_path))])
    with pytest.raises(ConfigurationError, match="keeps none"):
        states.restore(decision(out=SinkDecision(writer_states=states_of(1))))


# --- In a pipeline --------------------------------------------------------------------------------


class Setup:
    def __init__(self, root):
        self.root = root
        self.sink = NumberingDirectorySink(root / "out")
        self.store = StateStore(str(root / "state")).child("query-0")

    def pipeline(self, writers=None):
        pipeline = LocalPipeline("p", checkpoint_location=str(self.root / "state"))
        source = NumberSequenceSource(0, ROWS - 1, split_rows=10, batch_rows=5)
        rows = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=20))
        pipeline.sink_to(rows, self.sink, uid="out", parallelism=writers)
        pipeline.sink_to(rows, DirectorySink(self.root / "other"), uid="other")
        return pipeline

    def run(self, *faults, writers=None):
        with injected(*faults), self.pipeline(writers) as pipeline:
            assert pipeline.run(timeout=SECONDS)

    def states(self, epoch=-1):
        decisions = list(decisions_since(self.store, 0).values())
        stored = flat(decisions[epoch].sinks["out"].writer_states)
        return [JsonDataclassSerializer(Chain).deserialize(1, each.data) for each in stored]


@pytest.fixture
def setup(tmp_path):
    return Setup(tmp_path)


def test_each_epoch_resumes_from_the_states_of_the_previous_one(setup):
    setup.run()
    setup.sink.assert_numbered(setup.states(), ROWS)
    assert len(setup.states()) == 2  # a chain for each writer, from the first epoch on
    assert sum(chain.next_number for chain in setup.states(0)) == 20
    assert DirectorySink(setup.root / "other").read().num_rows == ROWS


@pytest.mark.parametrize(
    "point", [FaultPoint.BEFORE_DECISION, FaultPoint.AFTER_DECISION, FaultPoint.AFTER_COMMIT]
)
def test_the_successor_of_a_failed_driver_resumes_from_the_decided_states(setup, point):
    fault = Fault(point, action=FaultAction.RAISE, nth=2)
    with pytest.raises(FaultInjected):
        setup.run(fault)
    setup.run(writers=3)
    setup.sink.assert_numbered(setup.states(), ROWS)


def test_a_failed_attempt_leaves_no_state(setup):
    setup.run(Fault(FaultPoint.AFTER_PREPARE, action=FaultAction.RAISE, nth=3))
    setup.sink.assert_numbered(setup.states(), ROWS)


class NumberingCompactingSink(CompactingDirectorySink, NumberingDirectorySink):
    """Numbers its rows, and merges its files over epochs."""


def test_decisions_on_compactions_keep_the_states(setup):
    setup.sink = NumberingCompactingSink(setup.root / "out", files=1000)
    setup.run()  # the end of the input drains what is held
    assert list(decisions_since(setup.store, 0).values())[-1].between
    setup.sink.assert_numbered(setup.states(), ROWS)


def test_a_number_of_writers_that_is_not_fixed_is_refused_with_a_hint(setup):
    setup.sink.writers = None
    with pytest.raises(ConfigurationError, match="not fixed") as refused:
        setup.pipeline()
    assert refused.value.option == "parallelism"
    assert "parallelism=n" in refused.value.hint


def test_a_sink_cannot_support_both_writer_state_and_rewriting(setup):
    class Both(NumberingDirectorySink, SupportsRewriting):
        pass

    setup.sink = Both(setup.root / "out")
    with pytest.raises(ConfigurationError, match="from a later state"):
        setup.pipeline()


def test_a_state_that_grows_too_large_ends_the_pipeline(setup):
    setup.sink.max_writer_state_bytes = lambda: 30
    with pytest.raises(FatalError, match="too large") as failure:
        setup.run()
    assert failure.value.option == "max_writer_state_bytes"
    assert failure.value.expected == "at most 30 bytes"
    assert decisions_since(setup.store, 0) == {}
