# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites for Elasticsearch on a cluster with two workers."""

from __future__ import annotations

from connectors_core.testing import SuitesOnCluster


class TestElasticsearchOnCluster(SuitesOnCluster):
    suites = (
        "test_source_suites.py::TestElasticsearchSourceOnSpark",
        "test_sink_suites.py::TestIdsOnSpark",
    )
