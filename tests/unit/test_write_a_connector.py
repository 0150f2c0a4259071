# SPDX-License-Identifier: Apache-2.0
"""The guide, followed from top to bottom as far as it needs no JVM."""

from __future__ import annotations

import importlib.util

import pytest

NEWEST = importlib.util.find_spec("pyspark.sql.datasource") is not None
# Nothing here depends on the Spark line: on the newest for every change, else in a full run.
pytestmark = [] if NEWEST else [pytest.mark.slow]


def test_a_connector_passes_the_suites_until_it_is_broken(follower) -> None:
    follower.follow("Generate")
    follower.follow("Client")
    follower.follow("Split")
    follower.follow("Enumerator")
    follower.follow("Reader")
    follower.follow("Source and options")
    follower.follow("External context")
    follower.follow("The suites")
    follower.follow("Break it")
