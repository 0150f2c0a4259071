# SPDX-License-Identifier: Apache-2.0
"""Tests that dead letters reach their sink with the epoch's decision, from its spools."""

import pytest
from test_writing import Committing, Plain, Staged, staged
from toy_source import fresh_store

from connectors_core.engine.coordinator.dead_letters import DeadLetters, check_dead_letters
from connectors_core.engine.execution.dead_letter_spools import spool_factory
from connectors_core.errors import ConfigurationError
from connectors_core.records import DEAD_LETTER_SCHEMA, BadRecord, RecordPolicy
from connectors_core.sink import CommittingSinkWriter, SinkWriter
from connectors_core.testing.merging_sink import MergingDirectorySink
from connectors_core.testing.stateful_sink import NumberingDirectorySink


class PlainLetterWriter(SinkWriter):
    def __init__(self, sink, context):
        self.sink, self.rows = sink, []
        sink.contexts.append(context)

    def write(self, batch):
        assert batch.schema.equals(DEAD_LETTER_SCHEMA)
        self.rows += [int(position) for position in batch.column("position").to_pylist()]
        if self.sink.fail_at:
            raise OSError("disk full")

    def flush(self):
        self.sink.log.append("flush")

    def close(self):
        self.sink.log.append("close")


class LetterWriter(PlainLetterWriter, CommittingSinkWriter):
    def prepare_commit(self):
        return [Staged(tuple(self.rows))]


class Letters(Committing):
    writer = LetterWriter


def spool(store, *positions):
    letters = spool_factory(store, "s", "0")()
    for position in positions:
        letters.append(BadRecord(reason="odd", source_uid="s", position=str(position)))
    letters.close()
    return letters.name


def letters_of(store, **sinks):
    policies = {uid: RecordPolicy.dead_letter(sink) for uid, sink in sinks.items()}
    return DeadLetters(policies, store=store, pipeline_id="p")


def test_the_named_spools_of_a_source_go_to_its_sink_in_one_decision():
    store, sink, other = fresh_store(), Letters(), Letters()
    dead_letters = letters_of(store, s=sink, t=other)
    assert set(dead_letters.sinks) == {"s.dead-letters", "t.dead-letters"}
    first, second, unnamed = spool(store, 1, 2), spool(store, 3), spool(store, 4)
    decided = dead_letters.write(7, [("s", first), ("s", second)])
    assert set(decided) == {"s.dead-letters"}
    each = decided["s.dead-letters"]
    assert (each.rows, each.number_of_subtasks, each.committables[0].subtask) == (3, 1, 0)
    assert staged(type("M", (), {"committables": [c.committable for c in each.committables]})) == [
        (1, 2, 3)
    ]
    assert (sink.log, other.contexts) == (["flush", "close"], [])
    assert sink.contexts[0].checkpoint_id == 7
    dead_letters.discard([("s", first), ("s", second)])
    assert [f"spool/{name}" for name in store.list("spool", recursive=True)] == [unnamed]


def test_an_epoch_without_dead_letters_opens_no_writer():
    sink = Letters()
    assert letters_of(fresh_store(), s=sink).write(0, []) == {}
    assert sink.contexts == []


def test_two_attempts_of_one_epoch_never_share_a_name():
    store, sink = fresh_store(), Letters()
    dead_letters = letters_of(store, s=sink)
    name = spool(store, 1)
    for _ in range(2):
        dead_letters.write(0, [("s", name)])
    assert len({context.attempt_name for context in sink.contexts}) == 2


def test_a_failed_writer_is_closed_and_the_spool_is_kept():
    store, sink = fresh_store(), Letters(fail_at=(1,))
    name = spool(store, 1)
    with pytest.raises(OSError, match="disk full"):
        letters_of(store, s=sink).write(0, [("s", name)])
    assert sink.log == ["close"]
    assert store.exists(name)


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        ("a folder", "'s' need a sink"),
        (NumberingDirectorySink("out"), "a sink whose writers keep state"),
        (MergingDirectorySink("out"), "a sink with a pre-commit topology"),
    ],
)
def test_an_unsuitable_sink_is_refused(sink, problem):
    with pytest.raises(ConfigurationError, match=problem):
        check_dead_letters({"s": RecordPolicy.dead_letter(sink)}, [])


def test_a_sink_with_the_uid_of_dead_letters_is_refused():
    policies = {"s": RecordPolicy.dead_letter(Letters()), "t": RecordPolicy.skip()}
    check_dead_letters(policies, ["s", "t.dead-letters"])
    with pytest.raises(ConfigurationError, match="the dead letters of 's'") as refused:
        check_dead_letters(policies, ["s", "s.dead-letters"])
    assert refused.value.option == "uid"


def test_policies_without_dead_letters_have_no_sink():
    policies = {"a": RecordPolicy.fail(), "b": RecordPolicy.skip()}
    assert DeadLetters(policies, store=fresh_store(), pipeline_id="p").sinks == {}


def test_a_sink_without_two_phases_can_receive_dead_letters():
    class Lines(Plain):
        writer = PlainLetterWriter

    store = fresh_store()
    decided = letters_of(store, s=Lines()).write(0, [("s", spool(store, 1))])
    assert decided["s.dead-letters"].committables == ()
    assert decided["s.dead-letters"].rows == 1
