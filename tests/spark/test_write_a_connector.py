# SPDX-License-Identifier: Apache-2.0
"""Runs the connector of the guide on Spark: its suites, and the killed pipeline."""

from __future__ import annotations

import sys

import pytest

# Three Spark drivers run one after another.
pytestmark = [pytest.mark.timeout(900), pytest.mark.line("4.3")]
BEFORE = (
    "Write the client",
    "Define the split",
    "Write the enumerator",
    "Write the reader",
    "Assemble the source and its options",
)
# The guide runs all of these cases. Each has passed in process.
SOME_CASES = "a_single_split or a_limit_of_rows or a_batch_has_all_rows"


def test_the_connector_of_the_guide_loses_and_duplicates_no_rows(follower) -> None:
    follower.follow("Generate the project")
    for title in BEFORE:
        follower.follow(title, run=False)
    follower.environment |= {
        "PYTEST_ADDOPTS": f"-k '{SOME_CASES}'",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=false "
        "--driver-java-options -XX:TieredStopAtLevel=1 pyspark-shell",
    }
    follower.follow("Describe the system to the test suites")
    follower.follow("Run the suites on Spark")
    follower.follow("Kill a pipeline")
