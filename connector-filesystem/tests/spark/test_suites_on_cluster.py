# SPDX-License-Identifier: Apache-2.0
"""The suites of the core, on files, on a cluster with two workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors_core.testing.on_cluster import run_suites_on_cluster

SUITES = Path(__file__).with_name("test_suites_on_spark.py")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_case_fails_on_a_cluster(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    suites = dict.fromkeys(("TestFileSourceOnSpark", "TestFileSinkOnSpark"), SUITES)
    run_suites_on_cluster(suites, pytestconfig, tmp_path)
