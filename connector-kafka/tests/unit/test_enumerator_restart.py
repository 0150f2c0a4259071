# SPDX-License-Identifier: Apache-2.0
"""Tests what the enumerator assigns after a restart."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from connector_kafka import KafkaPartitionSplit, OffsetsInitializer
from connector_kafka.client.config import ClientConfig
from connector_kafka.client.metadata import IsolationLevel, TopicPartition
from connector_kafka.source.enumerator import (
    EnumerationSettings,
    KafkaEnumerator,
    KafkaEnumeratorState,
)
from connector_kafka.source.split import PartitionPaused
from connectors_core.metrics import MetricGroup

PARTITION = TopicPartition("flights", 0)


class OnePartition:
    """A subscription that finds one partition."""

    def find(self, cluster):
        return {PARTITION: "id"}

    def check_complete(self, found):
        assert set(found) == {PARTITION}


class Context:
    """A coordinator with one reader. A test decides when asynchronous calls run."""

    registered_readers = frozenset({0})
    current_parallelism = 1
    event_time_order = False

    def __init__(self):
        self.metric_group = MetricGroup()
        self.assigned = []
        self._calls = []

    def call_async(self, call, handler, *, initial_delay=timedelta(0), period=None):
        self._calls.append((call, handler))

    def discover(self):
        """Run the first call, which looks for partitions."""
        call, handler = self._calls[0]
        handler(call(), None)

    def assign_splits(self, assignment):
        self.assigned += [split for splits in assignment.values() for split in splits]


def enumerator_of(context):
    settings = EnumerationSettings(
        config=ClientConfig({"bootstrap.servers": "127.0.0.1:9"}),
        subscription=OnePartition(),
        start=OffsetsInitializer.offsets({("flights", 0): 3}),
        stop=None,
        bounded=False,
        isolation=IsolationLevel.READ_COMMITTED,
        on_data_loss="fail",
        discovery_interval=timedelta(minutes=5),
        poll_interval=timedelta(seconds=1),
        commit_offsets=False,
    )
    return KafkaEnumerator(context, settings, KafkaEnumeratorState())


@pytest.mark.cell
def test_a_paused_partition_waits_until_it_is_found_again():
    context = Context()
    enumerator = enumerator_of(context)
    enumerator.start()
    enumerator.add_reader(0)
    found = KafkaPartitionSplit(
        split_id=str(PARTITION), topic="flights", partition=0, topic_id="id", offset=3
    )
    paused = replace(found, offset=8)
    enumerator.handle_source_event(0, PartitionPaused(paused))
    assert context.assigned == []
    assert enumerator.snapshot_state(1).waiting == (paused,)
    context.discover()
    assert context.assigned == [found, paused]
