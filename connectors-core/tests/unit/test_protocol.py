# SPDX-License-Identifier: Apache-2.0
"""Tests that plans, reports, and decisions are created once and validated when read."""

import orjson
import pytest
from decisions import a_decision
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_source import fresh_store

from connectors_core.engine.coordinator.identity import record_identity
from connectors_core.engine.coordinator.plan_log import StoredPlans, newest_plan, read_plan
from connectors_core.engine.protocol import (
    DECISIONS,
    PLANS,
    REPORTS,
    AssignedSplit,
    Entry,
    Plan,
    PlannedSplit,
    Report,
    SinkDecision,
    SourcePlan,
    SourceSnapshot,
    SplitRecord,
    SplitReport,
    Versioned,
    decision_path,
    decode_entry,
    done_path,
    encode_entry,
    plan_path,
    report_path,
)
from connectors_core.errors import IdentityError, StateCorruptedError, StateVersionError
from connectors_core.source.events import EventDocument
from connectors_core.source.split import ReadLimits

names = st.text(min_size=1, max_size=8)
numbers = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**40)
versioned = st.builds(Versioned, version=st.integers(1, 9), data=st.binary(max_size=20))
states = st.none() | st.dictionaries(names, numbers | names, max_size=2)
planned = st.builds(
    PlannedSplit, split_id=names, state=versioned, skip=counts, watermark_state=states
)
events = st.builds(EventDocument, name=names, data=st.binary(max_size=9))
limits = st.builds(
    ReadLimits,
    rows=st.none() | counts,
    bytes=st.none() | counts,
    splits=st.none() | counts,
    seconds=st.none() | st.floats(0, 1e6),
)


def tuples(of):
    return st.lists(of, max_size=2).map(tuple)


of_subtask = {
    "pipeline_id": names,
    "plan": counts,
    "nonce": names,
    "source": names,
    "subtask": counts,
}
entries = st.builds(
    Entry,
    **of_subtask,
    query=names,
    parallelism=counts,
    splits=tuples(planned),
    events=tuples(events),
    limits=limits,
    heartbeat=st.none() | numbers,
    max_watermark=st.none() | numbers,
    claim=st.booleans(),
)
snapshots = st.builds(
    SourceSnapshot,
    enumerator=versioned,
    splits=tuples(st.builds(SplitRecord, split=planned, subtask=counts, watermark=numbers)),
    suppressed=tuples(names),
    no_more_splits=tuples(counts),
    highest_finished=st.none() | numbers,
)
source_plans = st.builds(
    SourcePlan,
    entries=tuples(entries),
    assigned=tuples(st.builds(AssignedSplit, subtask=counts, split=planned)),
    no_more_splits=tuples(counts),
    watermark=st.none() | numbers,
    finished=st.booleans(),
    snapshot=st.none() | snapshots,
)
plans = st.builds(
    Plan,
    pipeline_id=names,
    number=counts,
    nonce=names,
    incarnation=counts,
    sources=st.dictionaries(names, source_plans, max_size=2),
    last=st.booleans(),
)
reports = st.builds(
    Report,
    **of_subtask,
    attempt=counts,
    splits=tuples(
        st.builds(
            SplitReport,
            split_id=names,
            state=versioned,
            skip=counts,
            finished=st.booleans(),
            rows=counts,
            asked=st.booleans(),
            watermark=st.none() | numbers,
            head=st.none() | numbers,
            watermark_state=states,
        )
    ),
    events=tuples(events),
    seconds=st.floats(0, 1e6),
    spool=st.none() | names,
    counters=st.dictionaries(names, counts, max_size=2),
    gauges=st.dictionaries(names, st.floats(-1e9, 1e9), max_size=2),
)


@given(entry=entries)
@settings(deadline=None, max_examples=50)
def test_an_entry_survives_encoding_for_the_carrier(entry):
    assert decode_entry(encode_entry(entry)) == entry


@given(plan=plans, report=reports)
@settings(deadline=None, max_examples=30)
def test_documents_are_read_back_unchanged(plan, report):
    assert PLANS.decode(PLANS.encode(plan), "p") == plan
    assert REPORTS.decode(REPORTS.encode(report), "r") == report


def a_plan(number=0, **sources):
    return Plan(pipeline_id="p", number=number, nonce="n", incarnation=1, sources=sources)


DECIDED = a_decision(0, batch_id=3, plan=5, sinks={"x": SinkDecision(rows=3)})


def test_the_first_writer_of_a_document_wins():
    store = fresh_store()
    assert PLANS.create(store, plan_path(0), a_plan())
    assert not PLANS.create(store, plan_path(0), a_plan(number=1))
    assert PLANS.read(store, plan_path(0)) == a_plan()
    assert DECISIONS.read(store, decision_path(0)) is None
    DECISIONS.create(store, decision_path(0), DECIDED)
    assert DECISIONS.read(store, decision_path(0)) == DECIDED


def test_a_truncated_or_altered_document_is_refused():
    data = PLANS.encode(a_plan())
    altered = orjson.loads(data)
    altered["payload"]["number"] = 7
    for broken in (data[:-9], b"", orjson.dumps(altered)):
        with pytest.raises(StateCorruptedError, match="some/path"):
            PLANS.decode(broken, "some/path")


def test_a_document_of_another_kind_or_a_newer_release_is_refused():
    with pytest.raises(StateCorruptedError, match="another kind"):
        DECISIONS.decode(PLANS.encode(a_plan()), "p")
    newer = orjson.loads(PLANS.encode(a_plan())) | {"format": 99}
    with pytest.raises(StateVersionError):
        PLANS.decode(orjson.dumps(newer), "p")


def test_paths_sort_by_number():
    for path in (plan_path, decision_path, lambda n: done_path(n, "x")):
        listed = [path(n) for n in (0, 9, 10, 99, 100, 123_456_789)]
        assert listed == sorted(listed)
    subtasks = [report_path(1, "s", n) for n in (0, 9, 10, 99_999)]
    assert subtasks == sorted(subtasks)


def test_carriers_see_the_plans_of_their_source_without_changing_anything():
    root = fresh_store()
    with pytest.raises(StateCorruptedError, match="does not know the source"):
        StoredPlans(root, "s").initial()
    from test_identity import identity_of

    record_identity(root, identity_of())
    stored = StoredPlans(root, "b")
    assert (stored.initial(), stored.newest_after(-1)) == (-1, -1)
    entry = Entry(
        pipeline_id="p", query="query-0", plan=0, nonce="n", source="b", subtask=0, parallelism=1
    )
    store = root.child("query-0")
    PLANS.create(
        store, plan_path(0), a_plan(a=SourcePlan(entries=()), b=SourcePlan(entries=(entry,)))
    )
    assert stored.newest_after(-1) == 0
    assert stored.newest_after(0) == 0
    assert [decode_entry(text) for text in stored.entries(0)] == [entry]
    assert StoredPlans(root, "a").entries(0) == []
    with pytest.raises(StateCorruptedError, match="plan 1 is missing"):
        stored.entries(1)
    with pytest.raises(IdentityError, match="no source"):
        StoredPlans(root, "unknown").initial()


def test_the_newest_plan_is_found_by_number():
    store = fresh_store()
    assert newest_plan(store) == -1
    for number in (0, 1, 2, 10):
        PLANS.create(store, plan_path(number), a_plan(number))
    assert newest_plan(store) == 10
    assert read_plan(store, 10).number == 10
