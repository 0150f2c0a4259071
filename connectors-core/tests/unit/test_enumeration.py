# SPDX-License-Identifier: Apache-2.0
"""Tests the enumerators of a batch run: their metrics, and the events of their readers."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
from toy_source import (
    Discovering,
    OnRequest,
    Ping,
    ToySource,
    fresh_store,
    read,
    reader_task,
    report_of,
)

from connectors_core.engine.coordinator.enumeration import (
    Enumeration,
    batch_entries,
    enumerate_splits,
    number_of_tasks,
    resumed_splits,
)
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.errors import InvalidOptionError, UnsupportedError
from connectors_core.metrics import EnumeratorMetric
from connectors_core.source import (
    BatchTasks,
    DynamicParallelismInference,
    HybridSource,
    SupportsBatchSnapshot,
    SupportsCommittedPositions,
)
from connectors_core.source.event_codec import encode_event
from connectors_core.source.hybrid.events import HybridSourceEvent


class Counting(Discovering):
    def discovered(self, result, error):
        super().discovered(result, error)
        self.context.metric_group.inc("found", len(self.found))
        self.context.metric_group.set(EnumeratorMetric.UNASSIGNED_SPLITS, len(self.known()))


def source_of(*splits, enumerator=Counting):
    return ToySource({split: [10, 11, 12] for split in splits}, enumerator=enumerator)


def enumeration_of(source, parallelism=1):
    settings = SourceSettings(uid="s", source=source, parallelism=parallelism)
    return settings, Enumeration(settings)


def reports(settings, splits, event):
    """Yield the reports of the tasks that read these splits, whose readers answer the event."""
    task = reader_task(settings.source, fresh_store())
    for entry in batch_entries(settings, splits, pipeline_id="p", run_id="r"):
        entry = replace(entry, events=(encode_event(event),))
        read(task, entry)
        yield report_of(task, entry)


def reports_of_members(settings, splits):
    """Yield the reports of tasks of a hybrid source, one for each split, as in `reports`."""
    serializer = settings.source.split_serializer()
    for record in splits:
        state = record.split.state
        split = serializer.deserialize(state.version, state.data)
        event = HybridSourceEvent.of(split.member, split.switches, Ping(split.member))
        yield from reports(settings, [record], event)


def test_the_metrics_of_the_enumerator_are_kept():
    _, enumeration = enumeration_of(source_of("a", "b"))
    enumeration.close()
    assert enumeration.metrics.counters["found"] == 2
    assert enumeration.metrics.gauges[EnumeratorMetric.UNASSIGNED_SPLITS.value] == 2


def test_an_enumerator_receives_the_events_of_each_reader_under_a_subtask_id_it_knows():
    source = source_of("a", "b", "c", "d")
    settings, enumeration = enumeration_of(source, parallelism=2)
    for report in reports(settings, enumeration.splits, Ping(1)):
        enumeration.hear(report)
    heard = [each for each in source.last_enumerator.log if each[0] == "event"]
    assert heard == [("event", reader, Ping(101)) for reader in (0, 1, 0, 1)]


class Greeting(Counting):
    def discovered(self, result, error):
        super().discovered(result, error)
        for reader in range(self.context.current_parallelism):
            self.context.send_event_to_source_reader(reader, Ping(reader))


@pytest.mark.parametrize("hybrid", [False, True])
def test_readers_receive_the_events_of_the_enumerator_before_they_read(hybrid):
    toys = [source_of("a", "b", "c", "d", enumerator=Greeting) for _ in range(1 + hybrid)]
    source = HybridSource.builder(toys[0]).add_source(toys[1]).build() if hybrid else toys[0]
    settings, enumeration = enumeration_of(source, parallelism=2)
    task = reader_task(source, fresh_store())
    for entry in batch_entries(
        settings, enumeration.splits, 4, pipeline_id="p", run_id="r", events=enumeration.events
    ):
        read(task, entry)
        enumeration.hear(report_of(task, entry))
    for toy in toys:
        heard = [each for each in toy.last_enumerator.log if each[0] == "event"]
        assert heard == [("event", reader, Ping(100 + reader)) for reader in (0, 1, 0, 1)]


class Inferring(ToySource, DynamicParallelismInference):
    def infer_parallelism(self, context):
        self.context = context
        return context.tasks_for(self.volume)


@pytest.mark.parametrize(
    ("volume", "tasks"),
    [(0, 1), (1, 1), (5 << 20, 2), (8 << 20, 2), (200 << 20, 2), (257 << 20, 3), (1 << 40, 5)],
)
def test_a_source_infers_the_number_of_tasks_from_what_the_enumerator_found(volume, tasks):
    source = Inferring({split: [10] for split in "abcde"}, enumerator=Counting)
    source.volume = volume
    settings, enumeration = enumeration_of(source, parallelism=2)
    entries = batch_entries(settings, enumeration.splits, pipeline_id="p", run_id="r")
    assert [split.split_id for split in source.context.splits] == list("abcde")
    assert len(entries) == tasks
    assert sorted(split.split_id for each in entries for split in each.splits) == list("abcde")


@pytest.mark.parametrize(("limit", "tasks"), [(None, 4), (1, 1), (5, 5), (9, 5)])
def test_a_source_without_inference_has_a_task_for_each_split_up_to_a_limit(limit, tasks):
    settings, enumeration = enumeration_of(source_of(*"abcde"), parallelism=1)
    settings = replace(settings, batch_tasks=BatchTasks(max_tasks=limit))
    assert number_of_tasks(settings, enumeration.source_splits) == tasks


@pytest.mark.parametrize(
    ("limits", "tasks"),
    [
        ({"bytes_per_task": 2 << 20}, 4),
        ({"bytes_per_task": 2 << 20, "max_tasks": 3}, 3),
        ({"bytes_per_task": 1 << 30}, 2),
    ],
)
def test_the_volume_of_a_task_and_the_number_of_tasks_are_bounded(limits, tasks):
    source = Inferring({split: [10] for split in "abcde"}, enumerator=Counting)
    source.volume = 8 << 20
    settings, enumeration = enumeration_of(source, parallelism=2)
    settings = replace(settings, batch_tasks=BatchTasks(**limits))
    assert number_of_tasks(settings, enumeration.source_splits) == tasks
    assert source.context.upper_bound == limits.get("max_tasks", 8)


@pytest.mark.parametrize("limits", [{"max_tasks": 0}, {"bytes_per_task": -1}, {"max_tasks": "2"}])
def test_limits_of_tasks_that_allow_none_are_refused(limits):
    (name,) = limits
    with pytest.raises(InvalidOptionError) as caught:
        BatchTasks(**limits)
    assert caught.value.option == f"batch_tasks.{name}"


def test_a_run_that_can_be_resumed_has_an_entry_for_each_split_whatever_the_tasks():
    settings, enumeration = enumeration_of(source_of(*"abcde"), parallelism=1)
    entries = batch_entries(settings, enumeration.splits, 5, pipeline_id="p", run_id="r")
    assert [len(entry.splits) for entry in entries] == [1] * 5


def test_the_enumerator_is_closed_only_once_and_also_by_garbage_collection():
    first, second = source_of("a"), source_of("a")
    _, enumeration = enumeration_of(first)
    assert "closed" not in first.last_enumerator.log
    enumeration.close()
    enumeration.close()
    enumerate_splits(SourceSettings(uid="s", source=second, parallelism=1))
    third = source_of("a")
    enumeration_of(third)
    gc.collect()
    for source in (first, second, third):
        assert source.last_enumerator.log.count("closed") == 1


def test_splits_assigned_after_the_read_are_refused_and_not_lost():
    class Late(OnRequest):
        def handle_source_event(self, subtask_id, event):
            self.source.rows["late"] = [1]
            self.context.assign_split(self.source.split("late"), subtask_id)

    settings, enumeration = enumeration_of(source_of("a", enumerator=Late))
    (report,) = reports(settings, enumeration.splits, Ping(1))
    with pytest.raises(UnsupportedError, match="streaming=True") as caught:
        enumeration.hear(report)
    assert "late" in str(caught.value)


def test_each_member_of_a_hybrid_source_receives_the_events_of_its_own_readers():
    first, second = source_of("a"), source_of("b")
    settings, enumeration = enumeration_of(HybridSource.builder(first).add_source(second).build())
    for report in reports_of_members(settings, enumeration.splits):
        enumeration.hear(report)
    for number, member in enumerate((first, second)):
        heard = [each for each in member.last_enumerator.log if each[0] == "event"]
        assert heard == [("event", 0, Ping(number + 100))]


class Resuming(Counting, SupportsBatchSnapshot):
    """Declares that a batch run can be resumed with it."""


def resumed(settings, enumeration, **fields):
    """Return the enumeration of a later driver."""
    entries = batch_entries(settings, enumeration.splits, pipeline_id="p", run_id="r")
    later = replace(settings, **fields)
    return Enumeration(later, resumed_splits(later, entries, enumeration.snapshot()))


class Committing(Resuming, SupportsCommittedPositions):
    def positions_committed(self, checkpoint_id, splits, finished):
        raise AssertionError("a batch run reports no positions")


@pytest.mark.parametrize("enumerator", [Resuming, Committing])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_an_interrupted_run_resumes_with_the_same_splits_and_hears_its_readers(
    parallelism, enumerator
):
    source = source_of("a", "b", "c", "d", enumerator=enumerator)
    settings, enumeration = enumeration_of(source, parallelism=2)
    found = [record.split for record in enumeration.splits]
    later = resumed(settings, enumeration, parallelism=parallelism)
    assert sorted(each.split.split_id for each in later.splits) == ["a", "b", "c", "d"]
    assert {each.split.split_id for each in later.splits} == {each.split_id for each in found}
    for report in reports(settings, enumeration.splits, Ping(1)):
        later.hear(report)
    heard = [each for each in source.last_enumerator.log if each[0] == "event"]
    assert len(heard) == 4
    assert {reader for _, reader, _ in heard} <= set(range(parallelism))


class Repeating(Resuming):
    """Assigns everything again when it resumes, and tells each reader that there is no more."""

    def __init__(self, context, source, state):
        super().__init__(context, source, state)
        self.repeated = state.assigned

    def add_reader(self, subtask_id):
        for split_id in self.repeated:
            self.context.assign_split(self.source.split(split_id), subtask_id)
        if self.repeated:
            self.context.signal_no_more_splits(subtask_id)


@pytest.mark.parametrize("enumerator", [Resuming, Repeating])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_each_member_of_a_hybrid_source_resumes_and_hears_its_own_readers(parallelism, enumerator):
    members = [source_of(*ids, enumerator=enumerator) for ids in ("ab", "c", "d")]
    switches = []

    def last(context):
        switches.append(context.switch)
        return members[-1]

    builder = HybridSource.builder(members[0]).add_source(members[1])
    source = builder.add_source(last, boundedness="bounded").build()
    settings, enumeration = enumeration_of(source, parallelism=2)
    settings = replace(settings, parallelism=parallelism)
    later = resumed(settings, resumed(settings, enumeration))  # two drivers have crashed
    splits = [record.split.split_id for record in later.splits]
    assert sorted(splits) == ["0:a", "0:b", "1:c", "2:d"]
    for report in reports_of_members(settings, enumeration.splits):
        later.hear(report)
    later.close()
    for number, member in enumerate(members):
        log = member.last_enumerator.log
        assert {each[2] for each in log if each[0] == "event"} == {Ping(number + 100)}
        assert log.count("closed") == 1
    assert switches
    assert all(each == switches[0] for each in switches)


@pytest.mark.parametrize("place", [0, 1])
def test_a_member_of_a_hybrid_source_without_batch_snapshots_is_refused(place):
    members = [source_of(name, enumerator=Resuming) for name in "ab"]
    members[place].enumerator = Counting
    source = HybridSource.builder(members[0]).add_source(members[1]).build()
    _, enumeration = enumeration_of(source)
    with pytest.raises(UnsupportedError, match="cannot resume a batch run") as caught:
        enumeration.snapshot()
    assert caught.value.found == "Counting"


def test_an_enumerator_without_batch_snapshots_is_refused():
    _, enumeration = enumeration_of(source_of("a"))
    with pytest.raises(UnsupportedError, match="cannot resume a batch run") as caught:
        enumeration.snapshot()
    assert "SupportsBatchSnapshot" in str(caught.value)


def test_an_enumerator_that_finds_more_when_its_run_is_resumed_is_refused():
    class Curious(Resuming):
        def start(self):
            super().start()
            for split_id in self.source.rows.keys() - {"a"}:
                self.context.assign_split(self.source.split(split_id), 0)

    source = source_of("a", enumerator=Curious)
    settings, enumeration = enumeration_of(source)
    entries = batch_entries(settings, enumeration.splits, pipeline_id="p", run_id="r")
    snapshot = resumed_splits(settings, entries, enumeration.snapshot())
    source.rows["late"] = [1]
    with pytest.raises(UnsupportedError, match="only when its run is resumed"):
        Enumeration(settings, snapshot)
