# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites for Kafka on a cluster with two workers."""

from __future__ import annotations

from connectors_core.testing import SuitesOnCluster


class TestKafkaOnCluster(SuitesOnCluster):
    suites = (
        "test_source_suites.py::TestKafkaSourceOnSpark",
        "test_sink_suites.py::TestExactlyOnceOnSpark",
    )
