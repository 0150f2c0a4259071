# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites on files, on a cluster with two workers."""

from __future__ import annotations

from connectors_core.testing import SuitesOnCluster


class TestFilesOnCluster(SuitesOnCluster):
    suites = (
        "test_suites_on_spark.py::TestFileSourceOnSpark",
        "test_suites_on_spark.py::TestFileSinkOnSpark",
    )
