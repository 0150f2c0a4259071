# SPDX-License-Identifier: Apache-2.0
"""Runs the core's sink suites against a real broker, in this process and on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka_sink_suites import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    SUITES,
    AtLeastOnceSuite,
    KafkaSinkSuite,
    WithBroker,
)

from connector_kafka.sink import KafkaCommittable
from connectors_core.sink import DeliveryGuarantee
from connectors_core.testing import CommitterTestSuite, SerializerTestSuite


@pytest.mark.line("3.5")  # without Spark
class TestExactlyOnce(KafkaSinkSuite):
    pass


class TestExactlyOnceOnSpark(KafkaSinkSuite):
    on_spark = True


@pytest.mark.slow
class TestAtLeastOnce(AtLeastOnceSuite):
    pass


@pytest.mark.line("3.5")  # without Spark
class TestCommitter(WithBroker, CommitterTestSuite):
    written_for = SUITES
    capabilities = EXACTLY_ONCE


@pytest.mark.line("3.5")  # without Spark
class TestAtLeastOnceCommitter(WithBroker, CommitterTestSuite):
    written_for = SUITES
    capabilities = AT_LEAST_ONCE
    guarantee = DeliveryGuarantee.AT_LEAST_ONCE


class TestCommittable(WithBroker, SerializerTestSuite):
    written_for = SUITES
    state_folder = Path(__file__).parents[1] / "unit" / "state"

    def examples(self) -> Mapping[str, list[object]]:
        prepared = KafkaCommittable(
            transactional_id="connectors-0123456789abcdef0123456789abcdef-out-3-1",
            producer_id=4711,
            producer_epoch=12,
            subtask_id=3,
            checkpoint_id=42,
            receipts_topic="connectors-receipts",
            prepared_at=datetime(2024, 1, 2, 3, 4, 5, 678, UTC),
        )
        return {"committable": [prepared]}
