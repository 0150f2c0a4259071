# SPDX-License-Identifier: Apache-2.0
"""Freezes a driver, which counts as dead, and resumes it next to its successor.

The frozen drivers are processes, stopped by SIGSTOP. Their leases last longer than the freeze,
so no check of the lease stops them when they resume.
"""

from __future__ import annotations

import pytest
from decisions import a_decision
from other_driver import HeldBy, assert_ends_when_taken_over_while_it_waits

from connectors_core.engine.coordinator.fences import fence_decisions, fence_plans
from connectors_core.engine.coordinator.plan_log import (
    decisions_since,
    newest_decision,
    newest_plan,
    plans_since_snapshot,
    read_decision,
    read_plan,
    rewrites_of,
)
from connectors_core.engine.protocol import (
    DECISIONS,
    PLANS,
    Plan,
    decision_path,
    plan_path,
)
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import LeaseError
from connectors_core.sink import Sink, SinkWriter
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing.compacting_sink import CompactingDirectorySink
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import DriverJob, run_driver
from connectors_core.testing.environment import InProcess
from connectors_core.testing.faults import (
    COMPACTING_POINTS,
    READING_FREEZES,
    SUCCESSORS,
    WRITING_FREEZES,
    Fault,
    FaultAction,
    FaultPoint,
)
from connectors_core.testing.leased_sink import LeasedDirectorySink
from connectors_core.testing.local_tasks import ATTEMPTS
from connectors_core.testing.meetings import meetings
from connectors_core.testing.trial import Trial

ROWS = 90
# The pairs that reveal the most. `make test-full` runs the whole product.
ALWAYS = {
    (FaultPoint.BEFORE_PLAN, "has ended"),
    (FaultPoint.BEFORE_REPORT, "writes"),
    (FaultPoint.AFTER_PREPARE, "decides"),
    (FaultPoint.BEFORE_DECISION, "has ended"),
    (FaultPoint.AFTER_DECISION, "commits"),
    (FaultPoint.BEFORE_SWEEP, "writes"),
}

COMPACTING_ALWAYS = {
    (FaultPoint.COMPACTOR_STAGED, "has ended"),
    (FaultPoint.AFTER_COMPACTION, "decides"),
}


class Case(Trial):
    """A pipeline of numbers into two folders, which several drivers run."""

    def __init__(self, root, sinks):
        super().__init__(InProcess(), root, 0)
        self.sinks = sinks

    @property
    def store(self):
        return StateStore(str(self.location / "query-0"))

    def job(self):
        return DriverJob(
            location=str(self.location),
            source=NumberSequenceSource(0, ROWS - 1, split_rows=30, batch_rows=5),
            sinks=self.sinks,
            settings={"limits": ReadLimits(rows=20)},
        )

    def assert_complete(self):
        for sink in self.sinks.values():
            assert sorted(sink.read()["value"].to_pylist()) == list(range(ROWS))

    def take_over(self, point, while_it, *more):
        self.take_over_from_frozen(
            self.job(), point, SUCCESSORS[while_it], self.assert_complete, *more
        )
        for sink in self.sinks.values():
            assert sink.staged() == []


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path, {name: DirectorySink(tmp_path / name) for name in ("one", "two")})


@pytest.mark.parametrize(
    ("point", "while_it"), meetings(READING_FREEZES, WRITING_FREEZES, always=ALWAYS)
)
def test_a_frozen_driver_resumes_next_to_its_successor(case, point, while_it):
    case.take_over(point, while_it)


@pytest.mark.parametrize("while_it", ["decides", "has ended"])
def test_a_driver_that_rolls_back_a_failed_epoch_resumes_next_to_its_successor(case, while_it):
    failures = [
        Fault(FaultPoint.BEFORE_PREPARE, action=FaultAction.RAISE, nth=number + 1)
        for number in range(2 * ATTEMPTS)
    ]
    case.take_over(FaultPoint.BEFORE_ROLL_BACK, while_it, *failures)


@pytest.mark.parametrize(
    "point", [FaultPoint.BEFORE_FENCE, FaultPoint.AFTER_FENCE, FaultPoint.BEFORE_RECOVERY]
)
@pytest.mark.parametrize("while_it", ["decides", pytest.param("has ended", marks=pytest.mark.slow)])
def test_a_driver_that_freezes_during_its_start_resumes_next_to_its_successor(
    case, tmp_path, point, while_it
):
    killed = Fault(FaultPoint.AFTER_PREPARE, nth=2, once=tmp_path / "killed")
    run_driver(case.job(), tmp_path / "first.log", killed)
    assert killed.fired
    case.take_over(point, while_it)


class Touched(Sink, SinkWriter):
    """Creates a file for each row. It has no committer, so no recovery checks the lease."""

    def __init__(self, folder):
        self.folder = folder

    def create_writer(self, context):
        return self

    def write(self, batch):
        for value in batch["value"].to_pylist():
            (self.folder / str(value)).touch()

    def flush(self):
        pass

    def close(self):
        pass


def test_a_driver_that_freezes_after_its_fence_makes_no_plan_after_its_successor(tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    case = Case(tmp_path, {"touched": Touched(rows)})

    def all_rows():
        assert {path.name for path in rows.iterdir()} == set(map(str, range(ROWS)))

    case.take_over_from_frozen(case.job(), FaultPoint.AFTER_FENCE, SUCCESSORS["decides"], all_rows)


@pytest.mark.parametrize(
    "point",
    [
        FaultPoint.BEFORE_REWRITE,
        pytest.param(FaultPoint.BEFORE_REWRITE_RECORD, marks=pytest.mark.slow),
        FaultPoint.AFTER_REWRITE_RECORD,
    ],
)
@pytest.mark.parametrize("while_it", ["commits", "has ended"])
def test_two_drivers_rewrite_lost_rows(tmp_path, point, while_it):
    sink = LeasedDirectorySink(tmp_path / "leased")
    sink.lose(2)
    case = Case(tmp_path, {"leased": sink})
    case.take_over(point, while_it)
    assert sink.losses() == 0


@pytest.mark.parametrize(
    ("point", "while_it"), meetings(COMPACTING_POINTS, always=ALWAYS | COMPACTING_ALWAYS)
)
def test_two_drivers_compact(tmp_path, point, while_it):
    case = Case(tmp_path, {"merged": CompactingDirectorySink(tmp_path / "merged", files=3)})
    case.take_over(point, while_it)


def test_a_former_driver_records_a_rewrite_right_before_its_successor(tmp_path):
    sink = LeasedDirectorySink(tmp_path / "leased")
    sink.lose(2)
    case = Case(tmp_path, {"leased": sink})
    point = FaultPoint.BEFORE_REWRITE_RECORD
    case.take_over_from_frozen(case.job(), point, point, case.assert_complete)
    first, *later = (each.incarnation for each in rewrites_of(case.store, 0))
    assert first == 1
    assert set(later) == {2}
    assert sink.staged() == []


def test_a_waiting_driver_ends_when_another_driver_takes_over(tmp_path):
    assert_ends_when_taken_over_while_it_waits(InProcess(), tmp_path)


# --- Fences ---------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    return StateStore(str(tmp_path))


def test_the_first_driver_of_a_pipeline_needs_no_fence(store):
    fence_decisions(store, HeldBy(1), pipeline_id="p")
    fence_plans(store, HeldBy(1), pipeline_id="p")
    assert store.list("", recursive=True) == []


def test_the_second_driver_fences_the_first_even_if_the_first_left_no_documents(store):
    fence_decisions(store, HeldBy(2), pipeline_id="p")
    fence_plans(store, HeldBy(2), pipeline_id="p")
    assert read_decision(store, 0).is_fence
    assert read_plan(store, 0).is_fence
    assert (newest_decision(store), newest_plan(store)) == (-1, -1)
    assert not DECISIONS.create(store, decision_path(0), a_decision(0))


def test_fences_follow_the_newest_document_and_point_to_the_last_one_that_is_not_a_fence(store):
    for epoch in range(3):
        DECISIONS.create(store, decision_path(epoch), a_decision(epoch))
    for incarnation in range(2, 5):
        fence_decisions(store, HeldBy(incarnation), pipeline_id="p")
    assert [read_decision(store, epoch).previous for epoch in (3, 4, 5)] == [2, 2, 2]
    assert newest_decision(store) == 2
    assert list(decisions_since(store, 1)) == [1, 2]


def test_a_decision_that_was_created_first_counts_and_the_next_number_is_fenced(store, monkeypatch):
    create = type(DECISIONS).create

    def after_the_former_driver(self, state, path, document):
        create(DECISIONS, store, decision_path(0), a_decision(0))
        return create(self, state, path, document)

    monkeypatch.setattr(type(DECISIONS), "create", after_the_former_driver)
    fence_decisions(store, HeldBy(2), pipeline_id="p")
    assert not read_decision(store, 0).is_fence
    assert read_decision(store, 1).is_fence
    assert newest_decision(store) == 0


def test_a_driver_that_is_taken_over_while_it_fences_stops(store):
    fence_decisions(store, HeldBy(3), pipeline_id="p")
    late = HeldBy(2, newest=3)
    create = type(DECISIONS).create

    def after_the_successor(self, state, path, document):
        create(DECISIONS, store, decision_path(1), a_decision(1, incarnation=3))
        return create(self, state, path, document)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(DECISIONS), "create", after_the_successor)
        with pytest.raises(LeaseError):
            fence_decisions(store, late, pipeline_id="p")


def test_a_restart_starts_from_the_snapshot_before_the_fences(case, tmp_path):
    killed = Fault(FaultPoint.BEFORE_DECISION, nth=2, once=tmp_path / "killed")
    run_driver(case.job(), tmp_path / "first.log", killed)
    store = case.store
    newest = newest_plan(store)
    for incarnation in range(7, 9):
        fence_plans(store, HeldBy(incarnation), pipeline_id="p")
    assert newest_plan(store) == newest
    plans = plans_since_snapshot(store, newest)
    assert plans[0].holds_snapshot
    assert all(isinstance(plan, Plan) and not plan.is_fence for plan in plans)
    with case.job().build(case.environment) as pipeline:
        case.run_to_end(pipeline)
    case.assert_complete()


def test_a_released_pipeline_is_fenced_too(case):
    for _ in range(2):
        with case.job().build(case.environment) as pipeline:
            case.run_to_end(pipeline)
    lease = Lease.acquire(StateStore(str(case.location)))
    lease.release()
    assert lease.incarnation == 3
    assert PLANS.read(case.store, plan_path(newest_plan(case.store) + 1)).is_fence
    case.assert_complete()
