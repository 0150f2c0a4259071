# SPDX-License-Identifier: Apache-2.0
"""Tests that committables of several epochs are merged once, whatever stops the driver."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from decisions import a_decision
from held_files import ROWS, Setup, a_file, held_counts
from hypothesis import given
from hypothesis import strategies as st
from number_jobs import numbers_job
from two_sinks import SECONDS
from typer.testing import CliRunner

from connectors_core.cli import app
from connectors_core.cli.state_view import view_state
from connectors_core.engine.coordinator.held_sets import HeldSet, HeldSets
from connectors_core.engine.coordinator.plan_log import purge
from connectors_core.engine.protocol import (
    HeldRef,
    SinkDecision,
)
from connectors_core.engine.query.compactions import Compactions, SinkCompaction
from connectors_core.engine.recovery.backup import back_up, plan_backup, restore
from connectors_core.engine.recovery.locations import Locations
from connectors_core.engine.state import StateStore
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    UnsupportedError,
)
from connectors_core.metrics import MetricGroup
from connectors_core.sink import SupportsRewriting
from connectors_core.source import NumberSequenceSource
from connectors_core.testing.compacting_sink import CompactingDirectorySink
from connectors_core.testing.directory_sink import DirectorySink, read_files
from connectors_core.testing.driver import run_driver
from connectors_core.testing.faults import (
    COMPACTING_POINTS,
    Fault,
    FaultAction,
    FaultPoint,
    crash_chain,
)


@pytest.fixture
def setup(tmp_path):
    return Setup(tmp_path, CompactingDirectorySink)


def test_files_of_several_epochs_are_merged_and_the_end_of_the_input_drains_the_rest(setup):
    status = setup.run(setup.sink())
    setup.assert_complete()
    merged = [each for each in setup.decisions() if each.sinks["out"].compacted]
    assert len(setup.files()) < len(setup.decisions()) - len(merged)
    assert status.counters["mergedFiles"] > len(setup.files())
    assert status.gauges["heldCommittables"] == status.gauges["pendingCompactions"] == 0


def test_rows_keep_their_order(setup):
    sink = setup.sink(files=100)
    pipeline = setup.pipeline(sink, source=NumberSequenceSource(0, ROWS - 1, split_rows=ROWS))
    with pipeline:
        assert pipeline.run(timeout=SECONDS)
    assert len(setup.files()) == 1
    assert sink.read()["value"].to_pylist() == list(range(ROWS))


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("point", COMPACTING_POINTS)
def test_a_crash_at_any_step_loses_and_doubles_nothing(setup, point, nth):
    setup.crash_at(point, nth)


def test_killed_drivers_lose_and_double_nothing(tmp_path):
    job, _ = numbers_job(tmp_path, "state")
    sink = CompactingDirectorySink(tmp_path / "out", files=3)
    job.sinks["out"] = sink
    faults = crash_chain(tmp_path, [f"{each}" for each in COMPACTING_POINTS])
    for _ in range(len(faults) + 2):
        code = run_driver(job, tmp_path / "log", *faults)
        if code == 0:
            break
    assert code == 0, (tmp_path / "log").read_text()
    assert all(fault.fired for fault in faults)
    assert sorted(sink.read()["value"].to_pylist()) == list(range(200))
    assert sink.staged() == []


def test_an_idle_stream_commits_what_waits_too_long(setup):
    decided = setup.commit_while_idle(setup.sink(files=1000, max_wait=timedelta(0)))
    assert decided == [False, True, True]


def test_epochs_wait_while_too_much_is_held(setup, monkeypatch):
    seen = held_counts(monkeypatch)
    setup.run(setup.sink(files=1000, max_held=5))
    setup.assert_complete()
    assert 5 < max(seen) <= 5 + 2  # an epoch adds at most a file of each reader


class TestChangedSinks:
    """Restarts with another compaction."""

    @pytest.fixture
    def held(self, setup):
        """Stop a pipeline that holds files."""
        fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, where={"epoch": 3})
        with pytest.raises(Exception, match="fault injected"):
            setup.run(setup.sink(files=1000), fault)
        assert setup.decisions()[-1].holds_since == 0
        assert setup.values() == []
        return setup

    def test_a_sink_that_does_not_compact_is_refused(self, held):
        with pytest.raises(ConfigurationError, match="hold 6 committables") as raised:
            held.run(DirectorySink(held.root / "out"))
        assert "disable_compact()" in str(raised.value)
        held.run(held.sink())
        held.assert_complete()

    def test_a_disabled_compaction_commits_what_was_held_as_it_is(self, held):
        status = held.run(held.sink(holds=False))
        held.assert_complete()
        assert status.counters["numCompactions"] == 6
        assert "mergedFiles" not in status.counters

    def test_a_disabled_compaction_drops_open_requests(self, setup):
        fault = Fault(FaultPoint.BEFORE_COMPACTION, action=FaultAction.RAISE)
        with pytest.raises(Exception, match="fault injected"):
            setup.run(setup.sink(), fault)
        assert any(each.sinks["out"].requests for each in setup.decisions())
        setup.run(setup.sink(holds=False))
        setup.assert_complete()
        setup.run(DirectorySink(setup.root / "out"))  # nothing is held any more
        setup.assert_complete()

    def test_compaction_can_be_enabled_later(self, setup):
        fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, where={"epoch": 3})
        with pytest.raises(Exception, match="fault injected"):
            setup.run(DirectorySink(setup.root / "out"), fault)
        before = setup.files()
        setup.run(setup.sink())
        setup.assert_complete()
        assert set(before) < set(setup.files())

    def test_the_state_shows_what_is_held(self, held):
        (query,) = view_state(StateStore(str(held.root / "state"))).queries
        (view,) = query.compaction
        assert (view.sink, view.committables, view.requests, view.since) == ("out", 6, 0, 0)
        shown = CliRunner().invoke(app, ["state", "show", str(held.root / "state")])
        assert "out holds 6 committables for later epochs since epoch 0" in shown.output

    def test_held_files_that_are_lost_can_be_given_up(self, held):
        lost, *_ = sorted(path for path in held.staged() if "0000000003" not in path.name)
        rows = read_files([lost])["value"].to_pylist()
        lost.unlink()
        with pytest.raises(ConnectorError):
            held.run(held.sink())
        with pytest.raises(ConnectorError, match="cannot commit"):
            held.run(held.sink(holds=False))
        epoch = held.decisions()[-1].epoch
        location = str(held.root / "state")
        given_up = CliRunner().invoke(app, ["state", "give-up", location, str(epoch), "--yes"])
        assert given_up.exit_code == 0, given_up.output
        held.run(held.sink(holds=False))
        assert held.values() == sorted(set(range(ROWS)) - set(rows))

    def test_a_restored_copy_continues_with_what_is_held(self, held):
        state, copy = StateStore(str(held.root / "state")), str(held.root / "copy")
        locations = Locations(state, state)
        back_up(locations, plan_backup(locations, running=False), copy, {})
        shutil.rmtree(held.root / "state")
        restore(copy, {}, locations)
        held.run(held.sink())
        assert held.values() == list(range(ROWS))
        # A restored pipeline does not sweep the epoch that failed before the copy.
        assert {path.parent.name for path in held.staged()} == {"0000000003"}

    def test_a_gap_before_the_newest_decision_is_found(self, held):
        purge(held.store, plans_below=0, epochs_below=1)
        with pytest.raises(ConnectorError, match="decision 0 is missing"):
            held.run(held.sink())


def test_a_committer_that_cannot_keep_files_is_refused(setup):
    class Forgetful(CompactingDirectorySink):
        def create_committer(self, context):
            return DirectorySink(self.path).create_committer(context)

    with pytest.raises(UnsupportedError, match="SupportsHeldCommittables"):
        setup.run(Forgetful(setup.root / "out"))


def test_a_sink_with_compaction_cannot_rewrite(setup):
    class Both(CompactingDirectorySink, SupportsRewriting):
        pass

    with pytest.raises(ConfigurationError, match="compacts committables that may be lost"):
        setup.run(Both(setup.root / "out"))


def test_a_compaction_without_compactors_is_refused(tmp_path):
    compaction = CompactingDirectorySink(tmp_path).create_compaction()
    with pytest.raises(ConfigurationError, match="the number of compactors is out of range"):
        replace(compaction, compactors=0)


# --- The fold of decisions ------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=30),
    st.booleans(),
)
def test_every_committable_is_settled_once_and_in_order(steps, holds):
    """Each step adds files, perhaps ends the jobs, and perhaps restarts the driver."""
    sink = CompactingDirectorySink("unused", files=3, holds=holds)
    own = SinkCompaction("out", sink, sink.create_compaction())
    held, given_, settled, log = HeldSet(), [], [], []
    for epoch, (new, ends, restarts) in enumerate([*steps, (0, True, False), (0, True, False)]):
        if restarts:
            own = SinkCompaction("out", sink, sink.create_compaction())
            held = HeldSet()
            for number, each in enumerate(log):
                held = held.after(number, each)
        if ends:
            for request in own.open_requests(held):
                members = held.requests[request.ref]
                own.results[request.ref] = tuple(members.values())  # merged, but countable
        files = tuple(a_file(len(given_) + number) for number in range(new))
        given_ += files
        decision = own.step(
            held, epoch, SinkDecision(committables=files), everything=epoch >= len(steps)
        )
        log.append(decision)
        held = held.after(epoch, decision)
        own.decided(held)
        settled += decision.committables
        assert len(held) == len(given_) - len(settled)
        assert held.since is None or held.since <= epoch
    assert settled == given_
    assert held.is_empty


@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=30),
    st.integers(1, 6),
)
def test_whole_epochs_are_settled_together(steps, files):
    """Each step adds files and perhaps ends the oldest job."""
    sink = CompactingDirectorySink("unused", files=files, whole_epochs=True)
    own = SinkCompaction("out", sink, sink.create_compaction())
    held, epoch_of, settled = HeldSet(), {}, []
    for epoch, (new, ends) in enumerate([*steps, (0, False)]):
        last = epoch == len(steps)
        for request in own.open_requests(held)[: None if last else int(ends)]:
            own.results[request.ref] = tuple(held.requests[request.ref].values())
        added = tuple(a_file(len(epoch_of) + number) for number in range(new))
        epoch_of |= dict.fromkeys(added, epoch)
        decision = own.step(held, epoch, SinkDecision(committables=added), everything=last)
        held = held.after(epoch, decision)
        own.decided(held)
        settled += decision.committables
        still = {epoch_of[each] for _, each in held}
        assert not still & {epoch_of[each] for each in settled}
        assert own.is_ready(held) is False
    for request in own.open_requests(held):
        own.results[request.ref] = tuple(held.requests[request.ref].values())
    settled += own.step(held, len(steps) + 1, SinkDecision(), everything=True).committables
    assert settled == list(epoch_of)


def test_the_end_cancels_a_job_that_has_not_started_yet(tmp_path):
    submitting, canceled_first, canceled_again = (threading.Event() for _ in range(3))

    def run(_task):
        submitting.set()
        assert canceled_first.wait(SECONDS)  # nothing to cancel yet
        assert canceled_again.wait(SECONDS)
        raise OSError("canceled")

    def cancel():
        (canceled_again if canceled_first.is_set() else canceled_first).set()

    compactions = Compactions(
        {"out": CompactingDirectorySink(tmp_path)},
        held=HeldSets(),
        run=run,
        cancel=cancel,
        pipeline_id="p",
        metrics=lambda _uid: MetricGroup(),
    )
    asked = SinkDecision(held=(a_file(0), a_file(1)), requests=((HeldRef(0, 0), HeldRef(0, 1)),))
    compactions.decided(a_decision(0, sinks={"out": asked}))
    assert submitting.wait(SECONDS)
    compactions.close()
    assert canceled_again.is_set()


def test_a_restart_reads_from_the_oldest_decision_that_holds():
    held = HeldSets()
    held.decided(a_decision(0, sinks={"a": SinkDecision(held=(a_file(0),))}))
    held.decided(a_decision(1, sinks={"b": SinkDecision(held=(a_file(1), a_file(2)))}))
    assert held.since_after(2, {}) == 0
    request = SinkDecision(requests=((HeldRef(0, 0),),), compacted=(HeldRef(2, 0),))
    assert held.since_after(2, {"a": request}) == 1
    held.decided(a_decision(2, sinks={"a": request}))
    assert held.since_after(3, {}) == 1
    assert held.merged_by(2, "a").epochs == {0}
    assert list(held.holding()) == ["b"]
