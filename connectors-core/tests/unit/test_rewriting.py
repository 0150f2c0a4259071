# SPDX-License-Identifier: Apache-2.0
"""Tests that rows that a sink loses after the decision are rewritten once."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_committing import (
    HeldLease,
    Part,
    Target,
    TargetCommitter,
    committer_of,
    decision,
    sink_decision,
)
from toy_source import fresh_store
from two_sinks import SECONDS, TwoSinks

from connectors_core.engine.coordinator.dead_letters import DeadLetters
from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.engine.coordinator.plan_log import decisions_since, is_done, rewrites_of
from connectors_core.engine.execution.claims import Claims
from connectors_core.engine.execution.writer_task import SinkTask, WriterMessage
from connectors_core.engine.protocol import (
    REWRITES,
    DecidedCommittable,
    Rewrite,
    SinkDecision,
    Versioned,
    claims_path,
    rewrite_path,
)
from connectors_core.engine.query.rewriter import Rewriter
from connectors_core.engine.state import StateStore
from connectors_core.errors import CommitError, DataLossError, FatalError, LeaseError
from connectors_core.records import DEAD_LETTER_SCHEMA, BadRecord, RecordPolicy
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.sink import SupportsLeases, SupportsRewriting
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing.directory_sink import DirectorySink, DirectoryWriter
from connectors_core.testing.faults import (
    REWRITING_POINTS,
    Fault,
    FaultAction,
    FaultInjected,
    FaultPoint,
    injected,
)
from connectors_core.testing.leased_sink import LeasedDirectorySink
from connectors_core.testing.local_pipeline import LocalPipeline

ROWS = 60
RETRIES = CommitRetries(attempts=4, initial_seconds=0.0, max_seconds=0.0)


class Setup(TwoSinks):
    """A pipeline of known rows into a sink that loses rows on request."""

    def __init__(self, root):
        self.root = root
        self.sink = LeasedDirectorySink(root / "out")
        self.other = LeasedDirectorySink(root / "other")
        self.store = StateStore(str(root / "state")).child("query-0")

    def pipeline(self, parallelism=2):
        pipeline = LocalPipeline(
            "p",
            checkpoint_location=str(self.root / "state"),
            parallelism=parallelism,
            commit_retries=RETRIES,
        )
        source = NumberSequenceSource(0, ROWS - 1, split_rows=10, batch_rows=5)
        return self.connected(pipeline, source, rows=20)

    def assert_complete(self):
        for sink in (self.sink, self.other):
            assert Counter(sink.read()["value"].to_pylist()) == Counter(range(ROWS))
            assert sink.staged() == []
            assert sink.losses() == 0

    def rewrites(self):
        """Return the rewritten rows per epoch, in order."""
        return {
            epoch: [
                {uid: each.subtasks for uid, each in rewrite.sinks.items()} for rewrite in found
            ]
            for epoch in decisions_since(self.store, 0)
            if (found := rewrites_of(self.store, epoch))
        }


@pytest.fixture
def setup(tmp_path):
    return Setup(tmp_path)


def test_lost_rows_are_rewritten_in_the_same_epoch(setup):
    setup.sink.lose()
    status = setup.run()
    setup.assert_complete()
    (rewrites,) = setup.rewrites().values()
    assert [list(each) for each in rewrites] == [["out"]]
    sink = next(each for each in status.sinks if each.uid == "out")
    assert (sink.counters["lostCommittables"], sink.pending, sink.failed) == (1, 0, 0)
    assert sink.rows == ROWS


def test_only_the_writer_that_lost_rows_rewrites_them(setup):
    setup.sink.lose(subtask=1)
    setup.run()
    setup.assert_complete()
    assert setup.rewrites() == {0: [{"out": (1,)}]}
    claimed = setup.store.list("claims/0000000000/out", recursive=True)
    assert sorted(Counter(name.split("/")[0] for name in claimed).values()) == [1, 2]


def test_several_sinks_with_losses_are_rewritten_together(setup):
    setup.sink.lose(2)
    setup.other.lose(subtask=0)
    setup.run()
    setup.assert_complete()
    assert setup.rewrites() == {0: [{"out": (0, 1), "other": (0,)}]}


def test_rows_that_are_lost_twice_are_rewritten_twice(setup):
    setup.sink.lose(3, subtask=0)
    setup.run()
    setup.assert_complete()
    assert setup.rewrites() == {0: [{"out": (0,)}] * 3}


def test_repeated_losses_end_in_an_error_and_a_restart_repairs_them(setup):
    setup.sink.lose(RETRIES.attempts + 1, subtask=0)
    with (
        setup.pipeline() as pipeline,
        pytest.raises(CommitError, match=r"(?s)lost after every rewrite.*state give-up"),
    ):
        pipeline.run(timeout=SECONDS)
    assert setup.sink.losses() == 0
    setup.run()
    setup.assert_complete()


def test_rows_lost_while_no_driver_ran_are_rewritten_by_the_replay(setup, tmp_path):
    fault = Fault(FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, once=tmp_path / "failed")
    with pytest.raises(FaultInjected):
        setup.run(fault)
    (staged,) = [path for path in setup.sink.staged() if path.name.endswith("slot-0")]
    staged.unlink()
    setup.run()
    setup.assert_complete()
    assert [len(each) for each in setup.rewrites().values()] == [1]


def test_writers_that_fail_during_a_rewrite_take_other_slots(setup, tmp_path):
    setup.sink.lose(subtask=0)
    fault = Fault(
        FaultPoint.AFTER_PREPARE, action=FaultAction.RAISE, nth=3, once=tmp_path / "failed"
    )
    setup.run(fault)
    assert fault.fired
    setup.assert_complete()


def test_the_slots_of_failed_attempts_are_not_reused(setup, tmp_path):
    faults = [
        Fault(FaultPoint.AFTER_PREPARE, action=FaultAction.RAISE, once=tmp_path / str(number))
        for number in range(3)
    ]
    setup.run(*faults)
    assert all(fault.fired for fault in faults)
    setup.assert_complete()


@pytest.mark.parametrize(
    "point", [*REWRITING_POINTS, FaultPoint.WRITER_WROTE, FaultPoint.AFTER_COMMIT]
)
@pytest.mark.parametrize("after_restart", [False, True])
def test_a_driver_that_fails_during_a_rewrite_is_recovered(setup, tmp_path, point, after_restart):
    setup.sink.lose(subtask=0)
    first = Fault(FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, once=tmp_path / "first")
    if after_restart:
        with pytest.raises(FaultInjected):
            setup.run(first)
    # The sink's first commit loses rows and does not finish.
    where = {"sink": "out"} if point is FaultPoint.AFTER_COMMIT else {}
    faults = [Fault(point, action=FaultAction.RAISE, once=tmp_path / "failed", where=where)]
    if point is FaultPoint.WRITER_WROTE:  # all attempts of a job after a loss
        before = 0 if after_restart else 4
        faults = [
            Fault(point, action=FaultAction.RAISE, once=tmp_path / f"{n}", nth=before + 1)
            for n in range(4)
        ]
    with pytest.raises(FaultInjected):
        setup.run(*faults)
    assert all(fault.fired for fault in faults)
    setup.run()
    setup.assert_complete()


@given(
    losses=st.lists(st.sampled_from([None, 0, 1]), max_size=4),
    crashes=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    FaultPoint.BEFORE_DECISION,
                    FaultPoint.AFTER_DECISION,
                    FaultPoint.BEFORE_COMMIT,
                    FaultPoint.AFTER_COMMIT,
                    FaultPoint.AFTER_DONE,
                    FaultPoint.AFTER_PREPARE,
                    FaultPoint.BEFORE_SPARK_COMMIT,
                    "directory_sink.committed",
                    *REWRITING_POINTS,
                ]
            ),
            st.integers(1, 4),
        ),
        max_size=3,
    ),
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_after_any_losses_and_crashes_every_row_exists_once(tmp_path_factory, losses, crashes):
    root = tmp_path_factory.mktemp("run")
    setup = Setup(root)
    for subtask in losses:
        setup.sink.lose(subtask=subtask)
    for number, (point, nth) in enumerate(crashes):
        fault = Fault(point, action=FaultAction.RAISE, nth=nth, once=root / f"fault-{number}")
        try:
            setup.run(fault)
        except FaultInjected:
            continue
    setup.run()
    for sink in (setup.sink, setup.other):
        assert Counter(sink.read()["value"].to_pylist()) == Counter(range(ROWS))
        assert sink.staged() == []


# --- Changed batches -----------------------------------------------------------------------------


class Lossy(Target, SupportsRewriting):
    """A sink whose committer loses the committables with the name `lost`."""

    def create_committer(self, context):
        self.script = [lose_named] * 9
        return super().create_committer(context)


def lose_named(requests):
    for request in requests:
        if request.committable.name == "lost":
            request.signal_lost()


class Engine:
    """Writes the rows of two subtasks by default."""

    def __init__(self, rows=(3, 4), bad=0):
        self.rows = rows
        self.bad = bad
        self.tasks = []

    def write(self, batch, task, leases):
        self.tasks.append(task)
        return [
            WriterMessage(
                sink=sink.uid,
                subtask=subtask,
                rows=rows,
                bytes=0,
                skipped=self.bad,
                committables=(stored("again"),) if sink.written_by(subtask) else (),
            )
            for subtask, rows in enumerate(self.rows)
            for sink in task.sinks
        ]


def stored(name):
    serializer = JsonDataclassSerializer(Part)
    return Versioned(version=serializer.version, data=serializer.serialize(Part(name)))


def finish(engine, target, store, *names):
    """Commit an epoch with these committables of 3 and 4 rows, and rewrite the lost ones."""
    committer = committer_of(store, a=target)
    rewriter = Rewriter(
        engine,
        sinks=[SinkTask(uid="a", sink=target, schema=pa.schema([]))],
        committer=committer,
        store=store,
        lease=HeldLease(),
        dead_letters=DeadLetters({}, store=store, pipeline_id="p"),
    )
    decided = SinkDecision(
        committables=tuple(
            DecidedCommittable(subtask=subtask, committable=stored(name), rows=rows)
            for (subtask, name), rows in zip(enumerate(names), (3, 4), strict=True)
        ),
        number_of_subtasks=2,
    )
    epoch = decision(7, a=decided)
    rewriter.finish(None, epoch, committer.commit(epoch))


def test_only_lost_committables_are_committed_again():
    target, store, engine = Lossy(), fresh_store(), Engine()
    finish(engine, target, store, "x", "lost")
    assert [[name for name, _ in each] for each in target.of("commit")] == [
        ["x", "lost"],
        ["again"],
    ]
    (task,) = engine.tasks
    assert (task.epoch, task.sinks[0].subtasks) == (7, {1})
    assert is_done(store, 7, "a")
    last = [each.committable.name for each in target.posted[-1] if hasattr(each, "committable")]
    assert last == ["x", "again"]


def test_a_batch_with_different_partitions_is_refused_and_swept():
    target, store = Lossy(), fresh_store()
    with pytest.raises(FatalError, match=r"(?s)different partitions.*state give-up"):
        finish(Engine(rows=(3, 4, 0)), target, store, "x", "lost")
    assert not is_done(store, 7, "a")
    assert target.of("sweep") == [7, 7]  # after the commit, and after the failure


@pytest.mark.parametrize("rows", [(7,), (1, 0, 6), (4, 3)])
def test_a_sink_that_lost_everything_may_have_other_writers_afterwards(rows):
    target, store = Lossy(), fresh_store()
    finish(Engine(rows=rows), target, store, "lost", "lost")
    assert [name for name, _ in target.of("commit")[-1]] == ["again"] * len(rows)
    assert is_done(store, 7, "a")
    (rewrite,) = rewrites_of(store, 7)
    assert set(rewrite.sinks["a"].subtasks) == {0, 1, *range(len(rows))}


def test_a_sink_that_lost_everything_refuses_other_rows():
    store = fresh_store()
    with pytest.raises(DataLossError, match=r"(?s)different rows.*7 rows.*6 rows.*give-up"):
        finish(Engine(rows=(6,)), Lossy(), store, "lost", "lost")
    assert rewrites_of(store, 7) == []


@pytest.mark.parametrize("engine", [Engine(rows=(9, 5)), Engine(bad=1)])
def test_a_writer_that_rewrites_different_rows_is_refused(engine):
    store = fresh_store()
    with pytest.raises(DataLossError, match=r"(?s)writer 1 has different rows.*state give-up"):
        finish(engine, Lossy(), store, "x", "lost")
    assert rewrites_of(store, 7) == []


def test_a_loss_in_a_sink_that_does_not_support_rewriting_is_a_commit_error():
    target, store = Target(lose_named), fresh_store()
    with pytest.raises(CommitError, match=r"(?s)has lost Part.*state give-up") as caught:
        committer_of(store, a=target).commit(decision(0, a=sink_decision("lost")))
    assert "SupportsRewriting" in str(caught.value)
    assert not is_done(store, 0, "a")


def test_a_rewrite_of_another_driver_is_detected():
    store, target = fresh_store(), Lossy()
    other = Rewrite(pipeline_id="p", epoch=7, number=0, incarnation=2, sinks={})

    def steal(name, **_labels):
        if name == "before_rewrite_record":
            assert REWRITES.create(store, rewrite_path(7, 0), other)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("connectors_core.engine.query.rewriter.fault_point", steal)
        with pytest.raises(LeaseError, match="incarnation 2"):
            finish(Engine(), target, store, "x", "lost")
    assert not is_done(store, 7, "a")


# --- Restarts, dead letters, claims ---------------------------------------------------------------


def test_a_loss_in_a_batch_that_is_not_run_again_prevents_the_start(setup, tmp_path):
    fault = Fault(FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, once=tmp_path / "failed")
    with pytest.raises(FaultInjected):
        setup.run(fault)
    setup.store.create("spark-0/commits/0", b"")  # as if the batch had finished
    setup.sink.lose(subtask=0)
    with pytest.raises(
        FatalError, match=r"(?s)epoch 0 of out is lost, and Spark does not run.*state give-up"
    ):
        setup.run()


class PickyWriter(DirectoryWriter):
    """Rejects multiples of seven."""

    def __init__(self, path, context):
        super().__init__(path, context)
        self.errors, self.uid = context.record_errors, context.sink_uid

    def write(self, batch):
        values = batch["value"].to_pylist()
        for value in values:
            if value % 7 == 0:
                self.errors.handle(
                    BadRecord(reason="seven", source_uid=self.uid, position=str(value))
                )
        super().write(batch.filter(pa.array([value % 7 != 0 for value in values])))


class Picky(DirectorySink):
    def create_writer(self, context):
        return PickyWriter(self.path, context)


@pytest.mark.parametrize("after_restart", [False, True])
def test_lost_dead_letters_are_rewritten(tmp_path, after_restart):
    letters = LeasedDirectorySink(tmp_path / "letters")
    letters.lose(2)

    def run(*faults):
        pipeline = LocalPipeline(
            "p", checkpoint_location=str(tmp_path / "state"), commit_retries=RETRIES
        )
        source = NumberSequenceSource(0, ROWS - 1, split_rows=10, batch_rows=5)
        rows = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=20))
        policy = RecordPolicy.dead_letter(letters)
        pipeline.sink_to(rows, Picky(tmp_path / "out"), uid="out", record_policy=policy)
        with injected(*faults), pipeline:
            assert pipeline.run(timeout=SECONDS)

    if after_restart:
        fault = Fault(FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, once=tmp_path / "failed")
        with pytest.raises(FaultInjected):
            run(fault)
    run()
    assert letters.losses() == 0
    found = letters.read()
    assert found.schema.names == DEAD_LETTER_SCHEMA.names
    assert Counter(map(int, found["position"].to_pylist())) == Counter(range(0, ROWS, 7))
    assert letters.staged() == []


def test_claims_are_kept_only_while_a_late_attempt_may_request_them():
    store, target = fresh_store(), Leasing()
    committer = committer_of(store, a=target)
    for epoch in range(33):
        assert Claims(store=store, folder=claims_path(epoch, "a", "job"))("tx")
        committer.commit(decision(epoch, a=sink_decision(f"x{epoch}")))
    kept = {int(name.split("/")[0]) for name in store.list("claims", recursive=True)}
    assert kept == set(range(17, 33))


class Leasing(Target):
    def create_committer(self, context):
        return LeasingCommitter(self)


class LeasingCommitter(TargetCommitter, SupportsLeases):
    def lease(self, checkpoint_id, number_of_writers):
        self.target.log.append(("lease", (checkpoint_id, number_of_writers)))


def test_only_committers_that_support_leases_receive_them():
    target = Leasing()
    leases = committer_of(a=target, b=Target()).leases(5)
    assert leases.keys() == {"a"}
    leases["a"](3)
    assert target.of("lease") == [(5, 3)]
