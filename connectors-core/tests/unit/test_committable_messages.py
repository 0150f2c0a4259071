# SPDX-License-Identifier: Apache-2.0
"""Tests that the messages of an epoch are complete, whoever creates them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.errors import FatalError
from connectors_core.sink import (
    CommittableSummary,
    CommittableWithLineage,
    committables_of,
    messages_in_order,
    messages_of,
)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers())), st.booleans())
def test_each_writer_has_a_summary_before_its_committables(committables, committed):
    messages = messages_of(committables, checkpoint_id=7, number_of_subtasks=5, committed=committed)
    summaries = [each for each in messages if isinstance(each, CommittableSummary)]
    assert [each.subtask_id for each in summaries] == list(range(5))
    at = 0
    for summary in summaries:
        assert messages[at] is summary
        own = messages[at + 1 : at + 1 + summary.number_of_committables]
        assert [each.committable for each in own] == [
            committable for subtask, committable in committables if subtask == summary.subtask_id
        ]
        assert {(each.checkpoint_id, each.subtask_id) for each in own} <= {(7, summary.subtask_id)}
        pending = 0 if committed else summary.number_of_committables
        assert (summary.number_of_pending_committables, summary.number_of_subtasks) == (pending, 5)
        at += 1 + len(own)
    assert at == len(messages)
    assert sorted(committables_of(messages)) == sorted(each for _, each in committables)


def test_a_writer_beyond_their_number_is_refused():
    with pytest.raises(FatalError, match="does not exist"):
        messages_of([(2, "x")], checkpoint_id=1, number_of_subtasks=2)


def test_lineage_of_another_epoch_is_refused():
    one = CommittableWithLineage(committable="x", checkpoint_id=1, subtask_id=0)
    assert committables_of(messages_in_order([one], checkpoint_id=1, number_of_subtasks=1)) == ["x"]
    with pytest.raises(FatalError, match="another epoch"):
        list(messages_in_order([one], checkpoint_id=2, number_of_subtasks=1))


@pytest.mark.parametrize("left_out", [0, 1, 2, 3])
def test_messages_of_which_one_is_left_out_are_refused(left_out):
    messages = messages_of([(0, "x"), (0, "y"), (1, "z")], checkpoint_id=1, number_of_subtasks=2)
    incomplete = [each for at, each in enumerate(messages) if at != left_out]
    with pytest.raises(FatalError, match="incomplete"):
        committables_of(incomplete)


def test_a_committable_that_its_summary_does_not_count_is_refused_in_any_order():
    summary, *_ = messages_of([], checkpoint_id=1, number_of_subtasks=1)
    more = CommittableWithLineage(committable="x", checkpoint_id=1, subtask_id=0)
    for messages in ([summary, more], [more, summary]):
        with pytest.raises(FatalError, match="incomplete"):
            committables_of(messages)
