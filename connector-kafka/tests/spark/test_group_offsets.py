# SPDX-License-Identifier: Apache-2.0
"""Tests that a consumer group shows the progress of a pipeline, which does not depend on it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from numbered_records import NumberedRecords, wait

from connector_kafka import (
    KafkaSource,
)
from connector_kafka.client.config import CONSUMER_PROPERTIES, ClientConfig
from connector_kafka.client.metadata import Cluster, TopicPartition
from connector_kafka.client.wire import Wire
from connector_kafka.testing import KafkaBroker
from connectors_core import Pipeline
from connectors_core.testing import DirectorySink, LocalPipeline


def committed(broker: KafkaBroker, group: str, topic: str) -> int | None:
    """Return the committed offset of the only partition, as another client reads it."""
    given = {"bootstrap.servers": broker.bootstrap_servers}
    wire = Wire(ClientConfig.of(given, CONSUMER_PROPERTIES))
    try:
        partition = TopicPartition(topic, 0)
        return Cluster(wire).committed(group, [partition]).get(partition)
    finally:
        wire.close()


def lag(pipeline: LocalPipeline | Pipeline, topic: str) -> float:
    """Return the lag that the pipeline reports for the only partition."""
    ((source,),) = (query.sources for query in pipeline.status().queries)
    return source.gauges[f"topic.{topic}.partition.0.recordsLag"]


@pytest.mark.line("3.5")  # this test does not use Spark
@pytest.mark.parametrize("commits", [True, False])
def test_the_group_offsets_follow_the_epochs(
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
        if commits:
            wait(lambda: committed(broker, group, topic) == 100, "the group", pipeline)
        pipeline.stop()
    records.write(50)
    with records.pipeline(source) as pipeline:
        pipeline.run(available_now=True)
        assert lag(pipeline, topic) == 0
    assert committed(broker, group, topic) == (150 if commits else None)


def test_an_idle_topic_has_no_lag_on_spark(
    spark: Any, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    records, group = NumberedRecords(broker, topic, tmp_path), f"group-of-{topic}"
    source = KafkaSource(
        broker.bootstrap_servers,
        topics=topic,
        group_id=group,
        poll_interval=timedelta(milliseconds=20),
    )
    location = str(tmp_path / "checkpoint")
    with Pipeline(spark, "quiet", checkpoint_location=location) as pipeline:
        rows = pipeline.from_source(source, uid="topic")
        pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid="out")
        pipeline.start()
        records.write(100)
        wait(lambda: committed(broker, group, topic) == 100, "the group", pipeline)
        wait(lambda: lag(pipeline, topic) == 0, "no lag", pipeline)
