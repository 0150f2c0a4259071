# SPDX-License-Identifier: Apache-2.0
"""Tests that committables of a route pass the topologies of its sink, whatever stops the driver."""

from __future__ import annotations

import contextlib
from collections import Counter
from functools import partial

import pyarrow as pa
import pytest
from held_files import a_file, held_counts
from hypothesis import given
from hypothesis import strategies as st
from number_jobs import numbers_job
from two_sinks import SECONDS

from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.engine.coordinator.held_sets import HeldSet
from connectors_core.engine.coordinator.plan_log import decisions_since
from connectors_core.engine.coordinator.topologies import check_topologies
from connectors_core.engine.execution.routes import RouteSinks
from connectors_core.engine.protocol import HeldRef, SinkDecision
from connectors_core.engine.query.compactions import holding_of
from connectors_core.engine.query.route_topologies import RouteTopologies
from connectors_core.engine.state import StateStore
from connectors_core.errors import CommitError, ConfigurationError, UnsupportedError
from connectors_core.sink import (
    ColumnRouter,
    CombinedCommittables,
    DemultiplexingSink,
    SupportsCompaction,
    SupportsPreCommitTopologyOverEpochs,
)
from connectors_core.source import DataGeneratorSource, ReadLimits
from connectors_core.testing.compacting_sink import CompactingDirectorySink
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import run_driver
from connectors_core.testing.faults import (
    COMPACTING_POINTS,
    WRITING_POINTS,
    Fault,
    FaultAction,
    FaultInjected,
    FaultPoint,
    crash_chain,
    injected,
)
from connectors_core.testing.holding_sink import HoldingDirectorySink
from connectors_core.testing.local_pipeline import LocalPipeline
from connectors_core.testing.merging_sink import MergingDirectorySink

ROWS = 120
SCHEMA = pa.schema([("number", pa.int64()), ("target", pa.string())])
KINDS = {
    "compacts": partial(CompactingDirectorySink, files=3),
    "whole": partial(CompactingDirectorySink, files=3, whole_epochs=True),
    "holds": partial(HoldingDirectorySink, files=3),
    "merges": MergingDirectorySink,
    "plain": DirectorySink,
}
TARGETS = tuple(KINDS)


def rows_of(numbers):
    targets = pa.array([TARGETS[number % len(TARGETS)] for number in numbers.to_pylist()])
    return pa.RecordBatch.from_arrays([numbers, targets], schema=SCHEMA)


def folder_of(root, kinds, route):
    """Create the sink of a route, which differs by route."""
    return kinds[route](root / route)


class Setup:
    """A pipeline whose routes have sinks with different abilities."""

    def __init__(self, root):
        self.root = root

    def sink(self, **kinds):
        return DemultiplexingSink(
            ColumnRouter("target", partial(folder_of, self.root, KINDS | kinds))
        )

    def run(self, sink, *faults):
        pipeline = LocalPipeline(
            "p",
            checkpoint_location=str(self.root / "state"),
            parallelism=2,
            commit_retries=CommitRetries(attempts=2, initial_seconds=0.0, max_seconds=0.0),
        )
        source = DataGeneratorSource(rows_of, ROWS, SCHEMA, split_rows=30, batch_rows=10)
        rows = pipeline.from_source(source, uid="rows", limits=ReadLimits(rows=20))
        pipeline.sink_to(rows, sink, uid="out")
        with injected(*faults), pipeline:
            assert pipeline.run(timeout=SECONDS)
        return pipeline.status().sinks[0]

    def run_until_it_works(self, sink, *faults):
        for _ in range(10):
            with contextlib.suppress(FaultInjected):
                return self.run(sink, *faults)
        raise AssertionError("it never works")

    def of(self, route):
        return DirectorySink(self.root / route)

    def files(self, route):
        return list((self.root / route).glob("*.arrow"))

    def decisions(self):
        store = StateStore(str(self.root / "state")).child("query-0")
        return list(decisions_since(store, 0).values())

    def assert_complete(self):
        for at, target in enumerate(TARGETS):
            found = Counter(self.of(target).read()["number"].to_pylist())
            assert found == dict.fromkeys(range(at, ROWS, len(TARGETS)), 1), target
            assert self.of(target).staged() == [], target
        index = MergingDirectorySink(self.root / "merges").index()
        assert sorted(index) == sorted(path.name for path in self.files("merges"))
        assert self.decisions()[-1].holds_since is None


@pytest.fixture
def setup(tmp_path):
    return Setup(tmp_path)


def test_each_route_passes_the_topologies_of_its_sink(setup):
    status = setup.run(setup.sink())
    setup.assert_complete()
    plain = len(setup.files("plain"))
    assert len(setup.files("merges")) == 6 < plain
    assert len(setup.files("holds")) <= -(-plain // 3) + 1
    assert len(setup.files("compacts")) <= -(-plain // 3) + 1
    assert status.counters["mergedFiles"] > 0
    assert status.gauges["heldCommittables"] == status.gauges["pendingCompactions"] == 0


@pytest.mark.parametrize("point", dict.fromkeys((*WRITING_POINTS, *COMPACTING_POINTS)))
def test_a_crash_at_any_step_loses_doubles_and_leaves_nothing(setup, point):
    fault = Fault(point, action=FaultAction.RAISE, once=setup.root / "failed", nth=2)
    setup.run_until_it_works(setup.sink(), fault)
    assert fault.fired
    setup.assert_complete()


def numbers_of(root, route):
    return KINDS["compacts" if int(route) % 2 else "holds"](root / route)


def test_killed_drivers_lose_and_double_nothing(tmp_path):
    job, _ = numbers_job(tmp_path, "state")
    job.sinks["out"] = DemultiplexingSink(Remainders("value", partial(numbers_of, tmp_path)))
    faults = crash_chain(tmp_path, [f"{each}" for each in COMPACTING_POINTS])
    for _ in range(len(faults) + 2):
        code = run_driver(job, tmp_path / "log", *faults)
        if code == 0:
            break
    assert code == 0, (tmp_path / "log").read_text()
    assert all(fault.fired for fault in faults)
    for route in range(3):
        sink = DirectorySink(tmp_path / f"{route}")
        assert sorted(sink.read()["value"].to_pylist()) == list(range(route, 200, 3))
        assert sink.staged() == []


class Remainders(ColumnRouter):
    """Routes rows by a number modulo 3."""

    def routes(self, batch):
        numbers = batch["value"].to_numpy(zero_copy_only=False) % 3
        return pa.array(numbers).cast(pa.string())


def test_routes_together_hold_no_more_than_the_largest_limit(setup, monkeypatch):
    seen = held_counts(monkeypatch)
    kinds = {
        "compacts": partial(CompactingDirectorySink, files=1000, max_held=5),
        "whole": partial(CompactingDirectorySink, files=1000, max_held=2),
        "holds": partial(HoldingDirectorySink, files=1000, max_held=3),
    }
    setup.run(setup.sink(**kinds))
    setup.assert_complete()
    assert 2 < max(seen) <= 5 + 6  # an epoch adds at most a file of each reader and route


def test_routes_take_over_from_a_sink_without_them(setup):
    fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, where={"epoch": 3})
    with pytest.raises(FaultInjected):
        setup.run(DirectorySink(setup.root / "plain"), fault)
    setup.run(setup.sink())
    numbers = [n for route in TARGETS for n in setup.of(route).read()["number"].to_pylist()]
    assert sorted(numbers) == list(range(ROWS))


class TestChangedRoutes:
    @pytest.fixture
    def held(self, setup):
        fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, where={"epoch": 3})
        kinds = {
            "compacts": partial(CompactingDirectorySink, files=1000),
            "whole": partial(CompactingDirectorySink, files=1000),
            "holds": partial(HoldingDirectorySink, files=1000),
        }
        with pytest.raises(FaultInjected):
            setup.run(setup.sink(**kinds), fault)
        return setup

    def test_a_sink_that_cannot_hold_is_refused(self, held):
        with pytest.raises(ConfigurationError, match="'out/holds' cannot hold committables") as no:
            held.run(held.sink(holds=DirectorySink))
        assert "start with the sink that wrote them" in str(no.value)
        held.run(held.sink())
        held.assert_complete()

    def test_a_route_without_a_sink_is_refused(self, held):
        with pytest.raises(CommitError, match="decided route 'compacts' no longer exists") as gone:
            held.run(held.sink(compacts=lambda path: None))
        assert "let create_sink() return the former sink of this route" in str(gone.value.hint)
        held.run(held.sink())
        held.assert_complete()

    def test_a_disabled_compaction_commits_what_was_held_as_it_is(self, held):
        held.run(held.sink(compacts=partial(CompactingDirectorySink, holds=False)))
        held.assert_complete()
        assert len(held.files("compacts")) == len(held.files("plain"))


def test_a_committer_that_cannot_keep_files_is_refused_before_it_sweeps(setup):
    class Forgetful(HoldingDirectorySink):
        def create_committer(self, context):
            return DirectorySink(self.path).create_committer(context)

    with pytest.raises(UnsupportedError, match="route 'holds' holds committables, but its"):
        setup.run(setup.sink(holds=Forgetful))
    assert setup.of("holds").staged()


@pytest.mark.parametrize("ability", [SupportsCompaction, SupportsPreCommitTopologyOverEpochs])
def test_only_the_sinks_of_routes_hold_committables(ability):
    methods = dict.fromkeys(("create_compaction", "add_pre_commit_topology_over_epochs"))
    both = type("Both", (DemultiplexingSink, ability), methods)
    with pytest.raises(ConfigurationError, match="sinks of its routes would hold the same"):
        check_topologies(both(ColumnRouter("at", {}.get)), "out")


def test_abilities_of_a_route_that_exclude_each_other_are_refused(setup):
    class Both(HoldingDirectorySink, SupportsCompaction):
        def create_compaction(self):
            return None

    with pytest.raises(ConfigurationError, match="sink 'out/holds' would hold the same"):
        setup.run(setup.sink(holds=Both))


# --- Decisions without a pipeline -----------------------------------------------------------------


class Chosen(HoldingDirectorySink):
    """Combines the held files with some numbers, one by one."""

    def __init__(self, chosen):
        super().__init__("unused")
        self.chosen = chosen

    def add_pre_commit_topology_over_epochs(self, held, checkpoint_id, *, everything):
        return [
            CombinedCommittables(held=(each,), committables=(each.committable,))
            for number, each in enumerate(held)
            if everything or number in self.chosen
        ]


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from("abc"), max_size=6),  # the routes of new files
            st.sets(st.integers(0, 5)),  # what the topologies choose
            st.booleans(),  # whether the driver restarts
        ),
        min_size=1,
        max_size=15,
    )
)
def test_every_committable_is_decided_once_whatever_the_routes_choose(steps):
    chosen = set()
    sinks = {"a": Chosen(chosen), "b": Chosen(chosen), "c": DirectorySink("unused")}
    sink = DemultiplexingSink(ColumnRouter("at", sinks.get))
    known, held, new, settled = RouteSinks(sink), HeldSet(), [], []
    own = RouteTopologies("out", sink, holding_of)
    for epoch, (routes, picks, restarts) in enumerate([*steps, ([], set(), False)]):
        if restarts:
            own = RouteTopologies("out", sink, holding_of)
            own.decided(held)
        chosen.clear()
        chosen.update(picks)
        files = tuple(known.put_on(route, a_file(len(new) + at)) for at, route in enumerate(routes))
        new += files
        decision = own.step(
            held, epoch, SinkDecision(committables=files), everything=epoch == len(steps)
        )
        settled += decision.committables
        held = held.after(epoch, decision)
        own.decided(held)
        assert Counter(settled) + Counter(each for _, each in held) == Counter(new)
    assert held.is_empty
    assert Counter(settled) == Counter(new)


def test_a_request_without_members_is_settled():
    own = RouteTopologies("out", DemultiplexingSink(ColumnRouter("at", {}.get)), holding_of)
    held = HeldSet(requests={HeldRef(3, 0): {}})
    own.decided(held)
    assert own.is_ready(held)
    decision = own.step(held, 5, SinkDecision(), everything=False)
    assert held.after(5, decision).is_empty
