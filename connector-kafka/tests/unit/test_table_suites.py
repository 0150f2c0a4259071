# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suite for tables on topics, without a broker."""

from __future__ import annotations

from kafka_table_suites import KafkaTableSuite


class TestKafkaTables(KafkaTableSuite):
    pass
