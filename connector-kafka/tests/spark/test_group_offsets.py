# SPDX-License-Identifier: Apache-2.0
"""The offsets of a consumer group say how far a pipeline has come; nothing depends on them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from numbered_records import NumberedRecords, wait

from connector_kafka import KafkaSource
from connector_kafka.client.config import CONSUMER_PROPERTIES, ClientConfig
from connector_kafka.client.metadata import Cluster, TopicPartition
from connector_kafka.client.wire import Wire
from connector_kafka.testing import KafkaBroker

pytestmark = pytest.mark.line("3.5")  # no Spark in them


def committed(broker: KafkaBroker, group: str, topic: str) -> int | None:
    """What another client finds committed for the only partition."""
    given = {"bootstrap.servers": broker.bootstrap_servers}
    wire = Wire(ClientConfig.of(given, CONSUMER_PROPERTIES))
    try:
        partition = TopicPartition(topic, 0)
        return Cluster(wire).committed(group, [partition]).get(partition)
    finally:
        wire.close()


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_of_the_group_follow_the_epochs_and_the_last_one_is_not_forgotten(
    broker: KafkaBroker, topic: str, tmp_path: Path, commits: bool
) -> None:
    records = NumberedRecords(broker, topic, tmp_path)
    group = f"group-of-{topic}"
    source = KafkaSource(
        broker.bootstrap_servers,
        topics=topic,
        group_id=group,
        commit_offsets_on_checkpoint=commits,
        poll_interval=timedelta(milliseconds=20),
    )
    records.write(100)
    with records.pipeline(source) as pipeline:
        pipeline.start()
        records.wait_for_all(pipeline)
        records.write(50)  # the next epoch: now the one before is over
        records.wait_for_all(pipeline)
        if commits:  # an epoch may hold any part of what was written at once
            wait(lambda: (committed(broker, group, topic) or 0) >= 100, "the group", pipeline)
        pipeline.stop()
    with records.pipeline(source) as pipeline:
        pipeline.run(available_now=True)
    assert committed(broker, group, topic) == (150 if commits else None)
