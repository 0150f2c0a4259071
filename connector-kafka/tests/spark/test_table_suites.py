# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites for tables and changelogs against a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka_table_suites import (
    ChangedTopic,
    KafkaCatalogSuite,
    KafkaChangelogSuite,
    KafkaTables,
    KafkaTableSuite,
    Topics,
)

from connector_kafka.testing import KafkaBroker


class _WithBroker:
    @pytest.fixture(autouse=True)
    def _with_broker(self, broker: KafkaBroker) -> None:
        self.broker = broker


class TestKafkaTablesOnSpark(_WithBroker, KafkaTableSuite):
    on_spark = True

    def external_context(self, folder: Path) -> KafkaTables:
        return KafkaTables(self.broker)


@pytest.mark.line("3.5")  # without Spark
class TestKafkaChangelogs(_WithBroker, KafkaChangelogSuite):
    def external_context(self, folder: Path) -> ChangedTopic:
        return ChangedTopic(self.broker)


@pytest.mark.line("3.5")  # without Spark
class TestKafkaCatalog(_WithBroker, KafkaCatalogSuite):
    def external_context(self, folder: Path) -> Topics:
        return Topics(self.broker, folder)
