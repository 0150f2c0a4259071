# SPDX-License-Identifier: Apache-2.0
"""Tests hybrid sources: members are read once, in order, also with restarts around a switch."""

from __future__ import annotations

import itertools
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from toy_driver import Driver
from toy_log import LogEnumerator, LogSource, LogSplit
from toy_model import DriverModel
from toy_source import (
    MONOTONOUS,
    Behaviour,
    Discovering,
    OnRequest,
    Ping,
    Pushing,
    ToySource,
    aligned,
    continued,
    entry_of,
    fresh_store,
    read,
    reader_task,
    report_of,
    rows_of,
)

from connectors_core.engine.coordinator.enumeration import (
    Enumeration,
    batch_entries,
    digest_of,
    enumerate_splits,
)
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.reader_task import read_entry
from connectors_core.errors import (
    ConfigurationError,
    DataLossError,
    FatalError,
    StateCorruptedError,
    UnsupportedError,
)
from connectors_core.source import (
    Boundedness,
    HybridSource,
    InputStatus,
    NumberSequenceSource,
    ReadLimits,
    SplitTraits,
    SupportsSwitchInfo,
)
from connectors_core.source.hybrid.enumerator import _MemberContext
from connectors_core.source.hybrid.split import HybridSplit
from connectors_core.source.hybrid.switches import Switch
from connectors_core.source.sequence import NumberRangeSplit
from connectors_core.source.watermarks import END_OF_TIME
from connectors_core.testing.source_unit import Reading

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNBOUNDED = Boundedness.CONTINUOUS_UNBOUNDED


def toy(prefix, *sizes, first=10, **fields):
    rows = {f"{prefix}{i}": list(range(first, first + size)) for i, size in enumerate(sizes)}
    return ToySource(rows, **fields)


def log(prefix, *sizes, first=10, **fields):
    rows = {f"{prefix}{i}": list(range(first, first + size)) for i, size in enumerate(sizes)}
    return LogSource(rows, **fields)


def chain(first, *later, **options):
    builder = HybridSource.builder(first)
    for source in later:
        builder = builder.add_source(source, **options)
    return builder.build()


class Recorded:
    """A factory of a source with this many rows that records the contexts of its calls."""

    def __init__(self, rows):
        self.rows = rows
        self.contexts = []

    def __call__(self, switch):
        self.contexts.append(switch)
        return log("p", self.rows, first=40)


def driver_of(source, *, available_now=False, **fields):
    return Driver(fresh_store(), {"s": {"source": source} | fields}, available_now=available_now)


def assert_all_read(driver, *members):
    rows = {split: times for member in members for split, times in member.rows.items()}
    assert driver.emitted("s") == {s: list(range(len(t))) for s, t in rows.items() if t}


def all_rows(*members):
    rows = {split: times for member in members for split, times in member.rows.items()}
    return sorted((split, n) for split, times in rows.items() for n in range(len(times)))


def members_by_plan(driver):
    """Return the members that each plan reads, in order."""
    return [
        {split_id.partition(":")[0] for split_id in plan.sources["s"].planned_splits()}
        for _, plan in sorted(driver.plans.items())
    ]


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [None, MONOTONOUS, aligned(5)])
@pytest.mark.parametrize("enumerator", [OnRequest, Discovering, Pushing])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_members_are_read_one_after_another_and_then_the_query_ends(
    strategy, enumerator, parallelism
):
    members = [
        toy("a", 7, 12, enumerator=enumerator),
        toy("b", enumerator=enumerator),
        toy("c", 5, 1, first=40, enumerator=enumerator),
    ]
    source = chain(*members)
    assert source.boundedness() is Boundedness.BOUNDED
    driver = driver_of(source, strategy=strategy, limits=ReadLimits(rows=6)).start(parallelism)
    driver.run()
    assert_all_read(driver, *members)
    order = [index for index, _ in itertools.groupby(filter(None, members_by_plan(driver)))]
    assert order == [{"0"}, {"2"}]
    if strategy is not None:
        marks = [mark for mark in driver.watermarks("s") if mark is not None]
        assert marks == sorted(marks)
        assert marks[-1] == END_OF_TIME


def test_members_may_have_splits_with_the_same_id():
    first, second = NumberSequenceSource(0, 9), NumberSequenceSource(0, 4)
    source = chain(first, second)
    splits = enumerate_splits(SourceSettings(uid="s", source=source, parallelism=1))
    assert [split.split.split_id for split in splits] == ["0:0", "1:0"]


def test_files_are_followed_by_a_log_with_planned_stops():
    files, topic = toy("f", 9, 9), log("p", 4, 0, first=30)
    driver = driver_of(chain(files, topic), limits=ReadLimits(rows=4)).start(2)
    driver.run_until(lambda: sum(map(len, driver.emitted("s").values())) == 22)
    topic.rows["p1"] += [50, 51]
    driver.run_until(lambda: sum(map(len, driver.emitted("s").values())) == 24)
    assert_all_read(driver, files, topic)
    entries = [e for plan in driver.plans.values() for e in driver.entries(plan) if e.splits]
    assert {(e.splits[0].split_id[0], e.claim) for e in entries} == {("0", True), ("1", False)}


def test_the_split_of_the_member_decides_how_many_rows_to_skip():
    before, sent_back = (HybridSplit(1, (), LogSplit("p0", position=at)) for at in (5, 3))
    assert before.still_to_skip(4, before) == 4
    assert sent_back.still_to_skip(4, before) == 0


def test_a_batch_reads_all_members():
    members = [toy("a", 7, 3), toy("b", 2), log("p", 4, bounded=True)]
    settings_ = SourceSettings(uid="s", source=chain(*members), parallelism=2)
    entries = batch_entries(settings_, enumerate_splits(settings_), pipeline_id="p", run_id="r")
    task = reader_task(settings_.source, fresh_store())
    rows = [row for entry in entries for row in rows_of(read_entry(task, entry))]
    assert sorted(rows) == all_rows(*members)


def test_the_version_of_the_input_is_that_of_all_members():
    def version(*members):
        settings_ = SourceSettings(uid="s", source=chain(*members), parallelism=2)
        with closing(Enumeration(settings_)) as enumeration:
            return digest_of(settings_, enumeration.source_splits)

    ten, few, more = (NumberSequenceSource(0, 9, split_rows=rows) for rows in (10, 3, 4))
    eleven = NumberSequenceSource(0, 10)
    assert version(ten, few) == version(more, ten) is not None
    assert len({version(ten, eleven), version(eleven, ten), version(ten, ten), version(ten)}) == 4
    nothing = NumberSequenceSource(0, 9)
    nothing.input_version = lambda splits: None
    assert version(ten, nothing) is None


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("can_pause", [True, False])
def test_a_batch_task_reads_splits_of_several_members_and_repeats_them_after_a_failure(
    ordered, can_pause
):
    fields = {"traits": SplitTraits(ordered=ordered)}
    members = [
        toy(prefix, 9, 4, behaviour=Behaviour(seed=7, can_pause=can_pause), **fields)
        for prefix in "abc"
    ]
    settings_ = SourceSettings(uid="s", source=chain(*members), parallelism=1)
    splits = [record.split for record in enumerate_splits(settings_)]
    task, entry = reader_task(settings_.source, fresh_store()), entry_of(splits)
    assert sorted(read(task, entry)) == all_rows(*members)
    assert sorted(read(task, entry)) == all_rows(*members)  # to the recorded stops
    limited = entry_of(splits, plan=1, limits=ReadLimits(rows=17), claim=True)
    first = read(task, limited)
    assert len(first) == 17
    assert sorted(read(task, limited)) == sorted(first)
    rest = read(task, continued(limited, report_of(task, limited), limits=ReadLimits()))
    assert sorted(first + rest) == all_rows(*members)


def test_limits_are_those_of_the_first_member_and_traits_the_weakest_of_all():
    source = chain(toy("a", 1), toy("b", 1))
    assert source.default_limits() == ReadLimits()
    assert source.split_traits() == SplitTraits()
    weak = ToySource({}, traits=SplitTraits(end=False, replayable=False), bounded=False)
    assert chain(toy("a", 1), weak).split_traits() == SplitTraits(end=False, replayable=False)


# --- the switch -----------------------------------------------------------------------------------


class Telling(OnRequest, SupportsSwitchInfo):
    """Returns a different value at every call."""

    told = itertools.count()

    def switch_info(self):
        return {"read": sorted(self.assigned), "number": next(self.told)}


def test_a_factory_receives_the_end_of_the_previous_member():
    make = Recorded(3)
    files = toy("f", 9, 30, enumerator=Telling)
    source = HybridSource.builder(files).add_source(make).build()
    assert source.boundedness() is UNBOUNDED
    driver = driver_of(source, strategy=MONOTONOUS).start(1)
    driver.run_until(lambda: "p0" in driver.emitted("s"))
    (switch,) = make.contexts
    assert switch.max_event_time == EPOCH + timedelta(microseconds=39)
    assert switch.previous_source is files
    assert switch.info["read"] == ["f0", "f1"]


def test_after_a_restart_the_factory_receives_the_recorded_switch():
    make = Recorded(9)

    def started():
        files = toy("f", 9, enumerator=Telling)
        return HybridSource.builder(files).add_source(make).build()

    driver = driver_of(started(), strategy=MONOTONOUS, limits=ReadLimits(rows=4)).start(1)
    driver.run_until(lambda: members_by_plan(driver)[-1:] == [{"1"}])
    assert driver.newest.sources["s"].snapshot is not None
    for _ in range(2):
        driver.crash()
        driver.sources["s"]["source"] = started()
        driver.start(1)
        driver.mailbox.run()
        if driver.coordinator._outstanding is not None:
            driver.consume(driver.newest)
            driver.mailbox.run()
    records = [each.switch for each in make.contexts]
    assert len(records) == 3
    assert records[1:] == records[:1] * 2


def test_a_restart_before_the_switch_was_recorded_switches_again():
    make = Recorded(3)

    def started():
        return HybridSource.builder(toy("f", 9)).add_source(make).build()

    driver = driver_of(started(), strategy=MONOTONOUS).start(1)
    driver.mailbox.run()
    driver.consume(driver.newest)
    driver.mailbox.actions.popleft()()  # all is read and switched, but not planned
    assert len(make.contexts) == 1
    driver.crash()
    driver.sources["s"]["source"] = started()
    driver.start(1)
    driver.run_until(lambda: "p0" in driver.emitted("s"))
    times = [each.max_event_time for each in make.contexts]
    assert times == [times[0]] * 2
    assert len(driver.emitted("s")["f0"]) == 9


def test_an_aligned_group_waits_for_the_discovery_of_the_next_member():
    late = toy("b", 30, first=20, enumerator=Discovering)
    hybrid, other = chain(toy("a", 10), late), toy("o", 200)
    driver = Driver(
        fresh_store(),
        {
            "s": {"source": hybrid, "strategy": aligned(5)},
            "other": {"source": other, "strategy": aligned(5), "limits": ReadLimits(rows=7)},
        },
    ).start(2)
    driver.run()
    assert_all_read(driver, hybrid._chain.first, late)
    second_begins = members_by_plan(driver).index({"1"})
    times = [
        other.rows[split][n]
        for (number, uid, _), rows in driver.rows.items()
        if uid == "other" and number < second_begins
        for split, n in rows
    ]
    assert max(times) <= 19 + 5 + 1  # end of the first member + drift + a row at the watermark


def test_events_travel_between_a_member_and_its_readers():
    class Talking(OnRequest):
        def start(self):
            self.context.send_event_to_source_reader(0, Ping(1))

    members = [toy("a", 4, enumerator=Talking), toy("b", 4, enumerator=Talking)]
    driver_of(chain(*members)).start(1).run()
    for member in members:
        assert ("event", 0, Ping(101)) in member.last_enumerator.log
        assert Ping(1) in member.behaviour.log


def test_an_event_that_a_member_does_not_declare_is_refused_on_the_driver():
    class Talking(OnRequest):
        def start(self):
            self.context.send_event_to_source_reader(0, Ping(1))

    first = toy("a", 4, enumerator=Talking)
    first.event_types = ()
    driver = driver_of(chain(first, toy("b", 1))).start(1)
    driver.mailbox.run()
    assert "Ping" in str(driver.errors[0])


def test_a_finished_member_is_notified_of_its_last_plan_and_closed():
    first, second = log("a", 5, bounded=True), toy("b", 5)
    driver = driver_of(chain(first, second), limits=ReadLimits(rows=4)).start(1)
    driver.run()
    numbers = [i for i, members in enumerate(members_by_plan(driver)) if members == {"0"}]
    enumerator = first.last_enumerator
    assert "closed" not in enumerator.log
    driver.coordinator.notify_complete(numbers[0])
    driver.mailbox.run()
    assert "closed" not in enumerator.log
    driver.coordinator.notify_complete(numbers[-1])
    driver.mailbox.run()
    assert enumerator.log[-2:] == [("complete", numbers[-1]), "closed"]
    assert enumerator.committed == [(numbers[0], {"a0": 4}), (numbers[-1], {"a0": 5})]
    assert second.last_enumerator.log[-1] == ("complete", numbers[-1])
    driver.coordinator.stop()
    assert enumerator.log.count("closed") == 1
    assert second.last_enumerator.log.count("closed") == 1


def test_the_discovery_and_the_limits_of_a_member_end_with_it():
    class Slow(Pushing):
        def start(self):
            super().start()
            self.context.set_reader_limit(0, ReadLimits(rows=2))

    second = toy("b", 9, enumerator=OnRequest)
    driver = driver_of(chain(toy("a", 4, enumerator=Slow), second)).start(1)
    driver.run()
    assert sorted(len(rows) for rows in driver.rows.values() if rows) == [2, 2, 9]
    for _ in range(5):  # a discovery that was in progress is the last one
        driver.mailbox.to_next_timer()
        driver.mailbox.run_calls()
    assert not driver.mailbox.calls
    assert not driver.mailbox.timers


def test_a_split_assigned_after_the_end_is_refused():
    class Late(Pushing):
        def handle_source_event(self, subtask_id, event):
            pass

    first = toy("a", 1, enumerator=Late)
    driver = driver_of(chain(first, toy("b", 1))).start(1).run()
    with pytest.raises(FatalError, match="after signal_no_more_splits"):
        first.last_enumerator.context.assign_split(first.split("a0"), 0)
    assert driver.finished


def refusal_of(source):
    driver = driver_of(source).start(2)
    driver.mailbox.run()
    (error,) = driver.errors
    assert isinstance(error, FatalError)
    return str(error)


def test_the_end_of_a_source_that_another_one_follows_is_not_final(monkeypatch):
    def signal(context, subtask_id):
        context.context.signal_no_more_splits(subtask_id)

    monkeypatch.setattr(_MemberContext, "signal_no_more_splits", signal)
    assert "another source follows" in refusal_of(chain(toy("a"), toy("b", 1)))


def test_the_end_of_the_last_source_is_final():
    class Expecting(OnRequest):
        def handle_split_request(self, subtask_id):
            self.context.signal_intermediate_no_more_splits(subtask_id)

    assert "no other source follows" in refusal_of(toy("a", enumerator=Expecting))


def test_readers_that_wait_for_the_next_source_are_not_asked_for_splits():
    class Counting(OnRequest):
        requests = 0

        def handle_split_request(self, subtask_id):
            Counting.requests += 1
            super().handle_split_request(subtask_id)

    first = toy("a", 30, enumerator=Counting)
    driver = driver_of(chain(first, toy("b", 1)), limits=ReadLimits(rows=5)).start(2)
    driver.run()
    assert_all_read(driver, first, toy("b", 1))
    assert Counting.requests == 3  # the split, then the end for each reader


def test_an_available_now_run_reads_all_members():
    files, topic = toy("f", 9), log("p", 4, first=30)
    driver = driver_of(chain(files, topic), available_now=True, strategy=MONOTONOUS).start(2)
    driver.run()
    assert_all_read(driver, files, topic)
    assert driver.watermarks("s")[-1] == END_OF_TIME


def test_an_available_now_run_needs_a_last_member_that_supports_it():
    last = ToySource({}, bounded=False)
    driver = driver_of(chain(toy("f", 1), last), available_now=True).start(1)
    driver.mailbox.run()
    driver.consume(driver.newest)
    driver.mailbox.run()
    assert isinstance(driver.errors[0], UnsupportedError)


# --- invalid chains ------------------------------------------------------------------------------


def switched(source, **fields):
    """Return the error of a pipeline at the switch, or None."""
    driver = driver_of(source, **({"strategy": MONOTONOUS} | fields)).start(1)
    for _ in range(20):
        driver.mailbox.run()
        driver.mailbox.run_calls()
        if driver.errors:
            return driver.errors[0]
        if driver.finished or driver.coordinator._outstanding is None:
            return None
        driver.consume(driver.newest)
    return None


def test_members_with_another_schema_are_refused_at_construction_or_at_the_switch():
    other = NumberSequenceSource(0, 9)
    with pytest.raises(ConfigurationError, match="schema") as caught:
        chain(toy("a", 1), other).schema()
    assert "value" in str(caught.value)
    bounded = {"boundedness": Boundedness.BOUNDED}
    traits = {"traits": SplitTraits(ordered=True)}
    late = chain(toy("a", 1), lambda switch: other, **bounded, **traits)
    assert late.schema() == toy("a").schema()
    assert "schema" in str(switched(late))
    nullable = toy("b", 1)
    nullable.schema = lambda: pa.schema([f.with_nullable(False) for f in toy("a").schema()])
    with pytest.raises(ConfigurationError, match="not null"):
        chain(toy("a", 1), nullable).schema()


def test_only_the_last_member_may_be_unbounded():
    with pytest.raises(ConfigurationError, match="follows an unbounded source"):
        chain(log("p", 1), toy("a", 1))
    with pytest.raises(ConfigurationError, match="follows an unbounded source"):
        chain(toy("a", 1), lambda switch: toy("b", 1), toy("c", 1))


def test_properties_that_a_source_declares_itself_cannot_be_passed():
    with pytest.raises(ConfigurationError, match="boundedness"):
        chain(toy("a", 1), toy("b", 1), boundedness=Boundedness.BOUNDED)
    with pytest.raises(ConfigurationError, match="traits"):
        chain(toy("a", 1), toy("b", 1), traits=SplitTraits())
    with pytest.raises(ConfigurationError, match="time zone"):
        chain(toy("a", 1), toy("b", 1), starts_at=datetime(2024, 1, 1))


def test_the_boundedness_of_a_factory_may_be_a_string():
    later = chain(toy("a", 1), lambda switch: toy("b", 1), boundedness="bounded")
    assert later.boundedness() is Boundedness.BOUNDED
    with pytest.raises(ConfigurationError, match="expected: 'bounded' or 'continuous unbounded'"):
        chain(toy("a", 1), lambda switch: toy("b", 1), boundedness="endless")


def test_a_factory_whose_source_breaks_the_declared_properties_is_refused():
    weak = ToySource({}, traits=SplitTraits(replayable=False), bounded=False)
    assert "traits" in str(switched(chain(toy("a", 1), lambda switch: weak)))
    assert "bounded" in str(switched(chain(toy("a", 1), lambda switch: toy("b", 1))))


def test_a_gap_between_members_is_an_error_unless_it_is_allowed():
    def with_start(micros, **options):
        start = EPOCH + timedelta(microseconds=micros)
        return chain(toy("a", 5), toy("b", 1, first=90), starts_at=start, **options)

    assert switched(with_start(14)) is None  # the last row of the first member is at 14
    error = switched(with_start(15))
    assert isinstance(error, DataLossError)
    assert "allow_gap" in str(error)
    assert switched(with_start(15, allow_gap=True)) is None


def test_an_unknown_end_of_a_member_is_reported():
    start = EPOCH + timedelta(microseconds=5)
    unknown = chain(toy("a", 5), toy("b", 1), starts_at=start)
    assert "watermark_strategy" in str(switched(unknown, strategy=None))
    nothing_read = chain(toy("a", 0), lambda switch: log("p", 1, first=switch.max_event_time.hour))
    assert isinstance(switched(nothing_read), ConfigurationError)


def test_splits_that_a_finished_member_discovers_again_are_ignored():
    source = chain(toy("a", 0, enumerator=Pushing), log("p", first=60))
    other = {"source": toy("o", 0)}
    driver = Driver(fresh_store(), {"s": {"source": source}, "other": other}).start(2)
    driver.run_steps(2)
    driver.crash()
    driver.start(1)
    driver.mailbox.run_calls()  # a late discovery after the restart has switched to the log
    driver.run_steps(5)
    assert not driver.errors


def test_the_state_of_other_members_is_refused():
    members = toy("a", 4), toy("b", 9)
    driver = driver_of(chain(*members), limits=ReadLimits(rows=4)).start(1)
    driver.run_until(lambda: members_by_plan(driver)[-1:] == [{"1"}])
    driver.crash()
    driver.sources["s"]["source"] = chain(members[0])
    driver.start(1)
    driver.mailbox.run()
    assert isinstance(driver.errors[0], StateCorruptedError)


# --- random histories ----------------------------------------------------------------------------

small = st.none() | st.integers(1, 6)
sizes = st.lists(st.integers(0, 9), max_size=4)
enumerators = st.sampled_from([OnRequest, Discovering, Pushing])


class HybridModel(DriverModel):
    """Crashes occur at any time, also at switches. Restarts have any parallelism."""

    @initialize(
        members=st.lists(st.tuples(sizes, enumerators), min_size=1, max_size=3),
        partitions=sizes,
        strategy=st.sampled_from([None, MONOTONOUS, aligned(20), aligned(500, lag=30)]),
        limits=st.builds(ReadLimits, rows=small, bytes=small, splits=small),
        other=st.integers(0, 20),
        seed=st.integers(0, 1000),
    )
    def start(self, members, partitions, strategy, limits, other, seed):
        behaviour = Behaviour(seed=seed)
        self.members = [
            toy(
                f"m{number}-",
                *each,
                first=10 * number + 10,
                enumerator=enumerator,
                behaviour=behaviour,
            )
            for number, (each, enumerator) in enumerate(members)
        ]
        self.members.append(log("p", *partitions, first=60, behaviour=behaviour))
        self.contexts = {}
        self.driver = Driver(
            fresh_store(),
            {
                "s": {"strategy": strategy, "limits": limits, "source": self.source()},
                "other": {"strategy": strategy, "source": toy("o", other)},
            },
        )
        self.driver.start(2)

    def source(self):
        builder = HybridSource.builder(self.members[0])
        for place, member in enumerate(self.members[1:], 1):
            builder = builder.add_source(
                lambda switch, place=place, member=member: self.made(place, member, switch),
                boundedness=member.boundedness(),
            )
        return builder.build()

    def made(self, place, member, switch):
        self.contexts.setdefault(place, switch.switch)
        assert self.contexts[place] == switch.switch  # depends only on the rows read
        return member

    @rule(which=st.integers(0, 3), rows=st.integers(1, 4))
    def rows_appear(self, which, rows):
        partition = self.members[-1].rows.setdefault(f"p{which}", [])
        partition += [60 + len(partition)] * rows

    @rule(parallelism=st.integers(1, 4))
    def the_driver_crashes(self, parallelism):
        self.driver.sources["s"]["source"] = self.source()
        super().the_driver_crashes(parallelism)

    def read_to_the_end(self):
        self.driver.crash()
        self.driver.options["available_now"] = True
        self.driver.start().run()
        assert_all_read(self.driver, *self.members)
        order = [index for index, _ in itertools.groupby(members_by_plan(self.driver)) if index]
        assert all(len(members) == 1 for members in order)
        assert [*map(min, order)] == sorted(min(members) for members in order)
        marks = [mark for mark in self.driver.watermarks("s") if mark is not None]
        assert marks == sorted(marks)


TestHybridModel = HybridModel.TestCase
TestHybridModel.settings = settings(deadline=None, max_examples=30, stateful_step_count=30)


def test_a_log_in_a_chain_is_notified_only_of_its_own_positions():
    files, topic = toy("f", 9), log("p", 4, first=30, enumerator=LogEnumerator)
    driver = driver_of(chain(files, topic)).start(1)
    driver.run_until(lambda: "p0" in driver.emitted("s"))
    driver.coordinator.notify_complete(driver.newest.number)
    driver.mailbox.run()
    assert topic.last_enumerator.committed == [(driver.newest.number, {"p0": 4})]


# --- the reader -----------------------------------------------------------------------------------


def reading_of_numbers():
    """Return a reader, and the split of each of two members with three numbers."""
    source = chain(NumberSequenceSource(1, 3), NumberSequenceSource(1, 3))
    first, second = (NumberRangeSplit("1", 1, 3) for _ in range(2))
    switch = Switch()
    return Reading(source, 10), HybridSplit(0, (), first), HybridSplit(1, (switch,), second)


def splits_read(reading):
    return [split_id for split_id, _ in reading.batches]


def test_splits_that_are_added_to_a_running_reader_are_read():
    reading, first, _ = reading_of_numbers()
    with reading:
        reading.add([first])
        assert reading.poll() is InputStatus.MORE_AVAILABLE
        later = HybridSplit(0, (), NumberRangeSplit("4", 4, 6))
        reading.add([later])
        assert reading.poll() is InputStatus.MORE_AVAILABLE
        assert splits_read(reading) == ["0:1", "0:4"]


def test_a_split_that_was_paused_while_another_member_was_read_resumes():
    reading, first, second = reading_of_numbers()
    with reading:
        reading.add([first, second])
        reading.reader.pause_or_resume_splits([first.split_id], [])
        reading.reader.notify_no_more_splits()
        assert reading.poll() is InputStatus.MORE_AVAILABLE
        reading.reader.pause_or_resume_splits([], [first.split_id])
        assert list(reading.steps())[-1] is InputStatus.END_OF_INPUT
        assert splits_read(reading) == ["1:1", "0:1"]


def test_a_split_of_a_later_member_can_be_paused_before_the_member_is_read():
    reading, first, second = reading_of_numbers()
    later = HybridSplit(1, second.switches, NumberRangeSplit("4", 4, 6))
    with reading:
        reading.add([first, second, later])
        reading.reader.pause_or_resume_splits([later.split_id], [])
        reading.reader.notify_no_more_splits()
        while reading.poll() is InputStatus.MORE_AVAILABLE:
            pass
        assert splits_read(reading) == ["0:1", "1:1"]
        assert reading.reader.snapshot_state() == [later]
