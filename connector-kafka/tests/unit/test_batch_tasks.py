# SPDX-License-Identifier: Apache-2.0
"""Tests how many tasks read a topic in a batch run."""

from __future__ import annotations

import pytest

from connector_kafka import KafkaSource
from connector_kafka.source.split import KafkaPartitionSplit
from connectors_core.source import ParallelismInferenceContext


@pytest.mark.parametrize(
    ("records", "tasks"), [(10, 1), (3_000, 8), (100_000, 10), (50_000_000, 32)]
)
def test_partitions_with_few_records_share_a_task(records, tasks):
    splits = [
        KafkaPartitionSplit(
            split_id=f"t-{partition}",
            topic="t",
            partition=partition,
            offset=7,
            stop=7 + records,
        )
        for partition in range(12)
    ]
    context = ParallelismInferenceContext(splits=splits, parallelism=8, upper_bound=32)
    assert KafkaSource("broker:9092", topics=["t"]).infer_parallelism(context) == tasks
