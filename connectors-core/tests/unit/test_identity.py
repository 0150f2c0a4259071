# SPDX-License-Identifier: Apache-2.0
"""Tests that a pipeline restarts unchanged, or is rejected with hints."""

from dataclasses import replace

import pytest
from toy_source import fresh_store

from connectors_core.engine.coordinator import identity as module
from connectors_core.engine.coordinator.identity import (
    QueryShape,
    assert_same_life,
    assert_unchanged,
    check_uid,
    first_identity,
    new_pipeline_id,
    newest_generation,
    read_identity,
    record_identity,
    uid_of,
)
from connectors_core.errors import IdentityError

SHAPES = (QueryShape(("a", "b", "a"), ("x", "y")), QueryShape(("c",), ("z",)))


def identity_of(**fields):
    fields = {"pipeline_id": "p", "name": "flights", "streaming": True, "shapes": SHAPES} | fields
    return first_identity(fields.pop("pipeline_id"), fields.pop("name"), **fields)


def test_an_identity_is_recorded_and_read_back():
    store, identity = fresh_store(), identity_of()
    assert read_identity(store) is None
    assert newest_generation(store) == -1
    record_identity(store, identity)
    assert read_identity(store) == identity
    newer = replace(
        identity, queries=tuple(replace(query, generation=1) for query in identity.queries)
    )
    record_identity(store, newer)
    assert newest_generation(store) == 1
    assert read_identity(store) == newer
    assert newer.queries[0].spark_folder == "query-0/spark-1"


def test_two_concurrent_first_starts_are_refused(monkeypatch):
    store = fresh_store()
    record_identity(store, identity_of())
    monkeypatch.setattr(module, "newest_generation", lambda _: -1)
    with pytest.raises(IdentityError, match="another driver"):
        record_identity(store, identity_of())


def test_each_query_has_its_own_folder_and_spark_id():
    identity = identity_of()
    assert [query.folder for query in identity.queries] == ["query-0", "query-1"]
    assert len({query.spark_query_id for query in identity.queries}) == 2
    assert len({new_pipeline_id() for _ in range(9)}) == 9


def test_the_query_of_a_source_is_found():
    identity = identity_of()
    assert identity.query_of("b").folder == "query-0"
    assert identity.query_of("c").folder == "query-1"
    with pytest.raises(IdentityError, match="no source 'd'"):
        identity.query_of("d")


def test_the_same_shape_may_start_again():
    assert_unchanged(identity_of(), "flights", streaming=True, shapes=list(SHAPES))


@pytest.mark.parametrize(
    ("shapes", "streaming"),
    [
        ((QueryShape(("b", "a", "a"), ("x", "y")), SHAPES[1]), True),  # swapped sources
        ((QueryShape(("a", "b"), ("x", "y")), SHAPES[1]), True),  # one branch fewer
        ((QueryShape(("a", "b", "a"), ("y", "x")), SHAPES[1]), True),  # swapped sinks
        (SHAPES[::-1], True),
        (SHAPES[:1], True),
        (SHAPES, False),
    ],
)
def test_another_shape_is_refused_with_both_shapes_and_the_ways_out(shapes, streaming):
    with pytest.raises(IdentityError) as caught:
        assert_unchanged(identity_of(), "flights", streaming=streaming, shapes=shapes)
    assert "a, b, a -> x, y" in str(caught.value)
    assert len(caught.value.ways_out) == 3


def test_a_change_between_batch_and_streaming_is_named():
    with pytest.raises(IdentityError, match="between batch and streaming") as caught:
        assert_unchanged(identity_of(), "flights", streaming=False, shapes=SHAPES)
    assert "streaming=True" in caught.value.ways_out[0]


def test_another_pipeline_in_the_same_location_is_refused():
    with pytest.raises(IdentityError, match="another pipeline"):
        assert_unchanged(identity_of(), "planes", streaming=True, shapes=SHAPES)


def query(first=-1):
    return replace(identity_of().queries[0], first=first, spark_query_id="mine")


@pytest.mark.parametrize(
    ("found", "newest", "logged"),
    [
        ("mine", -1, -1),  # killed before the first plan
        ("mine", 0, -1),  # killed before Spark logged the first batch
        ("mine", 7, 6),
        ("mine", 7, 7),
    ],
)
def test_checkpoint_and_state_of_the_same_life_are_accepted(found, newest, logged):
    assert_same_life(query(), found_query_id=found, newest_plan=newest, logged_batch=logged)


@pytest.mark.parametrize(
    ("found", "newest", "logged", "message"),
    [
        (None, 0, -1, "Spark's checkpoint of the pipeline is missing"),
        (None, -1, -1, "Spark's checkpoint of the pipeline is missing"),
        ("another", 3, 3, "not the one that this pipeline wrote"),
        ("another", -1, -1, "not the one that this pipeline wrote"),
        ("mine", -1, 0, "the plans of the pipeline are missing"),
    ],
)
def test_checkpoint_and_state_of_different_lives_are_refused(found, newest, logged, message):
    with pytest.raises(IdentityError, match=message) as caught:
        assert_same_life(query(), found_query_id=found, newest_plan=newest, logged_batch=logged)
    assert caught.value.ways_out


def test_a_new_generation_starts_after_the_plans_of_the_previous_one():
    assert_same_life(query(first=7), found_query_id="mine", newest_plan=7, logged_batch=-1)
    assert_same_life(query(first=7), found_query_id="mine", newest_plan=7, logged_batch=0)
    with pytest.raises(IdentityError, match="plans of the pipeline are missing"):
        assert_same_life(query(first=7), found_query_id="mine", newest_plan=6, logged_batch=-1)


@pytest.mark.parametrize("name", ["a", "default.flights", "default.a-b_c.2"])
def test_the_uid_of_a_table_is_its_name(name):
    assert uid_of(name) == name


def test_any_name_of_a_table_has_a_uid_of_its_own():
    names = ["d.a#b", "d.a%b", "d.a b", "d.a/b", "d.\u00e4", "_a", "", "x" * 120, "x" * 121]
    uids = [uid_of(name) for name in names]
    assert len({*uids}) == len(names)
    for uid in uids:
        check_uid(f"{uid}.2", (), "p")
    assert uids == [uid_of(name) for name in names]
