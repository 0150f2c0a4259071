# SPDX-License-Identifier: Apache-2.0
"""Follows the guide from top to bottom, as far as it needs no JVM."""

from __future__ import annotations

import importlib.util

import pytest

NEWEST = importlib.util.find_spec("pyspark.sql.datasource") is not None
# The result does not depend on the Spark line: each change tests the newest, a full run both.
pytestmark = [] if NEWEST else [pytest.mark.slow]


def test_a_connector_passes_the_suites_until_it_is_broken(follower) -> None:
    follower.follow("Generate the project")
    follower.follow("Write the client")
    follower.follow("Define the split")
    follower.follow("Write the enumerator")
    follower.follow("Write the reader")
    follower.follow("Assemble the source and its options")
    follower.follow("Describe the system to the test suites")
    follower.follow("Run the suites")
    follower.follow("Break it")
