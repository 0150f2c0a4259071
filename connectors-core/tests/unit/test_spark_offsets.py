# SPDX-License-Identifier: Apache-2.0
"""Tests the reading of Spark's offset log."""

from __future__ import annotations

import json

import pytest

from connectors_core.engine.coordinator.spark_offsets import logged_offsets, newest_offset
from connectors_core.errors import StateCorruptedError


def offset(uid: str, plan: int) -> str:
    return json.dumps({"uid": uid, "plan": plan})


def entry(version: str, *lines: str) -> str:
    return "\n".join([version, "{}", *lines])


BOTH = pytest.mark.parametrize(
    "text",
    [
        entry("v1", offset("a", 3), offset("b", 4), offset("a", 4)),
        entry("v2", f"2:{offset('a', 4)}", f"1:{offset('b', 4)}", f"0:{offset('a', 3)}"),
    ],
    ids=["v1", "v2"],
)
SOURCES = ("a", "b", "a")


@BOTH
def test_a_source_has_read_what_all_branches_of_a_self_join_have_read(text: str) -> None:
    assert logged_offsets(text, SOURCES, "offsets/7") == {"a": 3, "b": 4}


@BOTH
def test_the_newest_plan_is_that_of_any_branch(text: str) -> None:
    assert newest_offset(text, SOURCES, "offsets/7") == 4


def test_a_branch_that_knows_no_plan_has_read_none() -> None:
    text = entry("v1", offset("a", 0), "-")
    assert logged_offsets(text, ("a", "a"), "offsets/0") == {"a": None}
    assert logged_offsets(entry("v2"), ("a", "a"), "offsets/0") == {"a": None}
    assert newest_offset(entry("v1", "-", "-"), ("a", "a"), "offsets/0") is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (entry("v3"), "v3"),
        (entry("v1", "0"), "1"),
        (entry("v2", "5:0"), "5:0"),
        (entry("v1", offset("b", 0), offset("a", 0), "x"), "that of 'b'"),
        (entry("v1", "0", "1", "x"), "x"),
    ],
)
def test_an_entry_of_other_sources_is_refused(text: str, found: str) -> None:
    with pytest.raises(StateCorruptedError) as caught:
        logged_offsets(text, ("a", "b", "a"), "offsets/7")
    assert caught.value.found == found
