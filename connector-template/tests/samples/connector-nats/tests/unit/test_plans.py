# SPDX-License-Identifier: Apache-2.0
"""Tests how far plans read, and that lost messages are noticed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from connector_nats.client import StreamState
from connector_nats.enumerator import EnumeratorState, StreamEnumerator
from connector_nats.plans import plan
from connector_nats.source import NatsSource
from connector_nats.split import StreamSplit
from connectors_core.errors import DataLossError
from connectors_core.source import ReadLimits

BUSY = StreamSplit.of("busy", 1, None)
QUIET = StreamSplit.of("quiet", 5, None)


@pytest.mark.parametrize("rows", [2, 3, 100, 10_000])
def test_a_busy_stream_leaves_room_for_a_quiet_one(rows: int) -> None:
    reads = plan([BUSY, QUIET], {"busy": 5000, "quiet": 6}, {}, ReadLimits(rows=rows))
    planned = {each.split.stream: each.split.stop - each.split.position for each in reads.values()}
    assert planned["quiet"] == 1
    assert 1 <= planned["busy"] <= rows
    assert sum(planned.values()) <= rows + 1


def test_a_limit_below_the_number_of_streams_holds() -> None:
    reads = plan([BUSY, QUIET], {"busy": 5000, "quiet": 6}, {}, ReadLimits(rows=1))
    assert [each.split.stream for each in reads.values()] == ["busy"]


def test_a_stream_without_new_messages_is_empty() -> None:
    (read,) = plan([QUIET], {"quiet": 5}, {}, ReadLimits()).values()
    assert read.empty
    assert read.then == QUIET


def test_a_stream_that_is_not_known_yet_is_left_out() -> None:
    assert plan([BUSY], {}, {}, ReadLimits()) == {}


def test_a_run_up_to_the_available_messages_ends_each_split() -> None:
    reads = plan([BUSY, QUIET], {"busy": 9, "quiet": 9}, {"busy": 7, "quiet": 3}, ReadLimits())
    assert {each.split.stream: each.split.end for each in reads.values()} == {"busy": 7, "quiet": 5}
    assert [each.then for each in reads.values()] == [None, None]


class NoCoordinator:
    """The context of an enumerator without a pipeline."""

    registered_readers = frozenset({0})

    def assign_split(self, split: StreamSplit, subtask_id: int) -> None:
        """Assign nothing."""

    def call_async(self, call: Callable[[], Any], handler: Callable[..., None], **_: Any) -> None:
        handler(call(), None)


class KnownStreams:
    """Streams that a test knows."""

    def __init__(self, state: StreamState, *, fails_on_loss: bool = True) -> None:
        self.state = state
        self.fails_on_loss = fails_on_loss

    def states(self) -> dict[str, StreamState]:
        return {"busy": self.state}

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Acknowledge nothing."""

    def close(self) -> None:
        """Nothing is open."""


def planned(position: int, state: StreamState, *, fails_on_loss: bool = True) -> Any:
    enumerator = StreamEnumerator(
        NoCoordinator(),
        KnownStreams(state, fails_on_loss=fails_on_loss),
        interval=NatsSource.discovery_interval,
        state=EnumeratorState(next={"busy": None}),
    )
    enumerator.start()
    return enumerator.plan_reads([StreamSplit.of("busy", position, None)], ReadLimits())


def test_messages_that_were_removed_before_they_were_read_are_missed() -> None:
    state = StreamState(first=10, next=20, end=20, retention="limits")
    with pytest.raises(DataLossError) as failure:
        planned(5, state)
    assert failure.value.option == "source.fail-on-data-loss"
    (read,) = planned(5, state, fails_on_loss=False).values()
    assert read.split.stop == 20


def test_messages_that_were_removed_after_they_were_read_are_not_missed() -> None:
    state = StreamState(first=20, next=20, end=20, retention="limits")
    (read,) = planned(20, state).values()
    assert read.empty


def test_a_stream_that_was_created_again_is_noticed() -> None:
    state = StreamState(first=1, next=3, end=3, retention="limits")
    with pytest.raises(DataLossError, match="created again"):
        planned(5, state, fails_on_loss=False)
