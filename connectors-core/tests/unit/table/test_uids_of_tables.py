# SPDX-License-Identifier: Apache-2.0
"""Tests the uids of the tables of a statement."""

from __future__ import annotations

import pytest

from connectors_core.engine.coordinator.identity import check_uid
from connectors_core.spark.tables.query_planner import QueryPlanner


@pytest.mark.parametrize("name", ["into.t", "into.#t", "x" * 100, "x" * 101])
def test_a_table_can_be_written_several_times(name):
    planner = QueryPlanner(None, None, None, None, "")
    uids = [planner.unique_uid(name) for _ in range(3)]
    assert len({*uids}) == 3
    for uid in uids:
        check_uid(uid, (), "p")
