# SPDX-License-Identifier: Apache-2.0
"""Tests that all sinks of a task write the same rows, and that a failure leaves no data."""

from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_source import fresh_store

from connectors_core.engine.execution.dead_letter_spools import read_spool
from connectors_core.engine.execution.task_messages import MESSAGE_SCHEMA
from connectors_core.engine.execution.writer_task import (
    BRANCH_COLUMN,
    WRITER_MESSAGES,
    SinkTask,
    WriteTask,
    branch_column,
    conform,
    write_task,
)
from connectors_core.errors import BadRecordError
from connectors_core.records import BadRecord, RecordPolicy
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.sink import CommittingSinkWriter, Sink, SinkWriter, TwoPhaseCommittingSink

NUMBERS = pa.schema([("n", pa.int64())])
NAMES = pa.schema([("name", pa.string()), ("n", pa.int64())])


@dataclass(frozen=True)
class Staged:
    rows: tuple[int, ...]


class Writer(SinkWriter):
    def __init__(self, sink, context):
        self.sink, self.context, self.rows = sink, context, []
        sink.log.append("open")
        sink.contexts.append(context)

    def write(self, batch):
        assert batch.num_rows
        assert batch.schema.equals(self.context.schema)
        for row in batch.to_pylist():
            if row["n"] in self.sink.fail_at:
                raise OSError("disk full")
            if row["n"] in self.sink.bad:
                record = BadRecord(reason="too odd", source_uid=self.context.sink_uid)
                self.context.record_errors.handle(record)
            else:
                self.rows.append(row["n"])
        self.context.metric_group.inc("batches")

    def flush(self):
        self.sink.log.append("flush")
        if self.sink.fail_in_flush:
            raise OSError("no answer")

    def close(self):
        self.sink.log.append("close")
        if self.sink.fail_in_close:
            raise OSError("still busy")


class CommittingWriter(Writer, CommittingSinkWriter):
    def prepare_commit(self):
        self.sink.log.append("prepare")
        return [Staged(tuple(self.rows))]


class Plain(Sink):
    writer = Writer

    def __init__(self, bad=(), fail_at=(), fail_in_flush=False, fail_in_close=False):
        self.bad, self.fail_at = bad, fail_at
        self.fail_in_flush, self.fail_in_close = fail_in_flush, fail_in_close
        self.log, self.contexts = [], []

    def create_writer(self, context):
        return self.writer(self, context)


class Committing(Plain, TwoPhaseCommittingSink):
    writer = CommittingWriter

    def create_committer(self, context):
        raise NotImplementedError

    def committable_serializer(self):
        return JsonDataclassSerializer(Staged)


def task_of(*sinks, store=None):
    return WriteTask(pipeline_id="p", epoch=7, store=store or fresh_store(), sinks=tuple(sinks))


def sink_task(uid, sink, schema=NUMBERS, **fields):
    return SinkTask(uid=uid, sink=sink, schema=schema, **fields)


def numbers(*values):
    return pa.record_batch([pa.array(values, pa.int64())], schema=NUMBERS)


def run(task, batches):
    (batch,) = write_task(task, 4, 2, batches)
    assert batch.schema.equals(MESSAGE_SCHEMA)
    return {m.sink: m for m in map(WRITER_MESSAGES.decode, batch.column("payload").to_pylist())}


def staged(message):
    serializer = JsonDataclassSerializer(Staged)
    return [serializer.deserialize(c.version, c.data).rows for c in message.committables]


def test_all_sinks_receive_the_same_rows_and_each_reports_its_results():
    plain, committing = Plain(), Committing()
    task = task_of(sink_task("a", plain), sink_task("b", committing))
    messages = run(task, [numbers(1, 2), numbers(3)])
    assert (messages["a"].rows, messages["a"].bytes, messages["a"].committables) == (3, 24, ())
    assert (messages["b"].subtask, messages["b"].counters) == (4, {"batches": 2})
    assert staged(messages["b"]) == [(1, 2, 3)]
    assert plain.log == ["open", "flush", "close"]
    assert committing.log == ["open", "flush", "prepare", "close"]
    (context,) = committing.contexts
    assert (context.checkpoint_id, context.subtask_id, context.attempt_number) == (7, 4, 2)


def test_attempts_and_sinks_never_share_a_name():
    first, second = Plain(), Plain()
    task = task_of(sink_task("a", first), sink_task("b", second))
    for _ in range(2):
        run(task, [numbers(1)])
    names = {context.attempt_name for sink in (first, second) for context in sink.contexts}
    assert len(names) == 4


def test_a_task_without_rows_opens_no_writer_and_still_returns_messages():
    for batches in ([], [numbers()], [numbers(), numbers()]):
        sink = Committing()
        messages = run(task_of(sink_task("a", sink)), batches)
        assert (messages["a"].rows, messages["a"].committables, sink.log) == (0, (), [])


def union_batch(rows):
    """Return rows (branch, n) with one struct column per branch, null in the others."""
    schema = pa.schema(
        [
            (BRANCH_COLUMN, pa.int32()),
            (branch_column(0), pa.struct(NUMBERS)),
            (branch_column(1), pa.struct(NAMES)),
        ]
    )
    return pa.record_batch(
        [
            pa.array([branch for branch, _ in rows], pa.int32()),
            pa.array(
                [{"n": n} if branch == 0 else None for branch, n in rows], schema.field(1).type
            ),
            pa.array(
                [{"name": "x", "n": n} if branch == 1 else None for branch, n in rows],
                schema.field(2).type,
            ),
        ],
        schema=schema,
    )


@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 99)), max_size=8)),
    offset=st.integers(0, 3),
)
@settings(deadline=None)
def test_every_branch_of_a_union_receives_its_own_rows(batches, offset):
    left, right, other = Committing(), Committing(), Committing()
    task = task_of(
        sink_task("left", left, branch=0),
        sink_task("right", right, NAMES, branch=1),
        sink_task("other", other, branch=0),
    )
    messages = run(task, [union_batch(rows).slice(offset) for rows in batches])
    rows = [row for batch in batches for row in batch[offset:]]
    for uid, branch in (("left", 0), ("right", 1), ("other", 0)):
        wanted = tuple(n for of, n in rows if of == branch)
        assert messages[uid].rows == len(wanted)
        assert staged(messages[uid]) == ([wanted] if wanted else [])


@pytest.mark.parametrize(
    "failure", [{"fail_at": (3,)}, {"fail_in_flush": True}, {"fail_in_close": True}]
)
@pytest.mark.parametrize("position", [0, 1])
def test_a_failed_writer_closes_all_writers_and_leaves_no_spool(failure, position):
    store = fresh_store()
    sinks = [Committing(bad=(1,)), Committing(bad=(1,))]
    sinks.insert(position, Committing(**failure))
    policy = RecordPolicy.dead_letter(object())
    task = task_of(
        *(sink_task(f"s{i}", sink, policy=policy) for i, sink in enumerate(sinks)), store=store
    )
    with pytest.raises(OSError, match=r"disk full|no answer|still busy"):
        run(task, [numbers(1, 2), numbers(3)])
    assert [sink.log.count("close") for sink in sinks] == [1, 1, 1]
    assert store.list(recursive=True) == []


def test_an_error_in_the_rows_closes_the_writers():
    sink = Committing()

    def rows():
        yield numbers(1)
        raise ValueError("upstream")

    with pytest.raises(ValueError, match="upstream"):
        run(task_of(sink_task("a", sink)), rows())
    assert sink.log == ["open", "close"]


def test_bad_rows_follow_the_policy_of_their_sink():
    store = fresh_store()
    skipping, keeping = Committing(bad=(1, 2)), Committing(bad=(2,))
    task = task_of(
        sink_task("skip", skipping, policy=RecordPolicy.skip()),
        sink_task("keep", keeping, policy=RecordPolicy.dead_letter(object())),
        store=store,
    )
    messages = run(task, [numbers(1, 2, 3)])
    assert (messages["skip"].skipped, messages["skip"].spool) == (2, None)
    assert messages["keep"].dead_letters == 1
    (letters,) = read_spool(store, messages["keep"].spool)
    assert letters.column("reason").to_pylist() == ["too odd"]
    with pytest.raises(BadRecordError, match="too odd"):
        run(task_of(sink_task("fail", Committing(bad=(1,)))), [numbers(1)])


def test_the_sink_receives_exactly_the_promised_schema():
    promised = pa.schema([("t", pa.timestamp("us", tz="UTC")), ("n", pa.int64())])
    spark = pa.schema([("t", pa.timestamp("us", tz="Europe/Berlin")), ("n", pa.int32())])
    batch = pa.record_batch([pa.array([1], spark.field(0).type), pa.array([2], pa.int32())], spark)
    got = conform(batch, promised)
    assert got.schema.equals(promised)
    assert got.column("t").cast(pa.int64()).to_pylist() == [1]
    assert conform(got, promised) is got
    with pytest.raises(ValueError, match=r"shorter|longer"):
        conform(numbers(1), promised)
