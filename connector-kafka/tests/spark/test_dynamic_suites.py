# SPDX-License-Identifier: Apache-2.0
"""Runs the core's source suites for the dynamic source, in this process and on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from dynamic_suites import DynamicKafkaSourceSuite, OfDynamicSource

from connector_kafka import DynamicKafkaSplit, KafkaPartitionSplit
from connector_kafka.dynamic import ClusterState, DynamicKafkaState
from connectors_core.testing import (
    SerializerTestSuite,
    SourceReaderTestSuite,
    SplitEnumeratorTestSuite,
)

# State files of earlier releases, which later releases must read. Each layout has one file, which
# `pytest --connector-write-state` writes once.
STATE = Path(__file__).parents[1] / "unit" / "dynamic_state"


@pytest.mark.slow
class TestDynamicKafkaSource(DynamicKafkaSourceSuite):
    pass


@pytest.mark.slow
class TestDynamicKafkaSourceOnSpark(DynamicKafkaSourceSuite):
    on_spark = True


@pytest.mark.line("3.5")
class TestDynamicKafkaReader(OfDynamicSource, SourceReaderTestSuite):
    pass


@pytest.mark.line("3.5")
class TestDynamicKafkaEnumerator(OfDynamicSource, SplitEnumeratorTestSuite):
    pass


@pytest.mark.line("3.5")
class TestDynamicKafkaSourceSerializers(OfDynamicSource, SerializerTestSuite):
    state_folder = STATE

    def examples(self) -> Mapping[str, list[object]]:
        live = KafkaPartitionSplit(
            split_id="flights-3", topic="flights", partition=3, offset=120, resumed=2
        )
        properties = {"bootstrap.servers": "east:9092"}
        state = DynamicKafkaState(
            clusters={
                "east": ClusterState(
                    topics=("flights",), properties=properties, is_later=True, version=1, data=b"{}"
                )
            },
            started=True,
        )
        split = DynamicKafkaSplit.of("east", properties, live)
        return {"split": [split], "enumerator-state": [state, DynamicKafkaState()]}
