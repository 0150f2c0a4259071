# SPDX-License-Identifier: Apache-2.0
"""Tests that a plan in JSON has the columns that its nodes drop."""

from __future__ import annotations

from unittest.mock import Mock

from connectors_core.spark.internals.plan_rewrites import _add_dropped_columns
from connectors_core.spark.internals.plans import PlanNode


def sequence(items):
    """Return a sequence of Scala."""
    return Mock(**{"size.return_value": len(items), "apply.side_effect": items.__getitem__})


def java(kind, *children, dropped=()):
    return Mock(
        **{
            "nodeName.return_value": kind,
            "children.return_value": sequence(children),
            "unrequiredChildIndex.return_value": sequence(dropped),
        }
    )


def test_each_generator_has_the_positions_that_json_lacks():
    plan = java("Union", java("Generate", java("Range"), dropped=[1]), java("Generate"))
    nodes = [
        {"class": "org.Union"},
        {"class": "org.Generate", "unrequiredChildIndex": None},
        {"class": "org.Range"},
        {"class": "org.Generate", "unrequiredChildIndex": []},
    ]
    _add_dropped_columns(nodes, PlanNode(plan))
    assert [node.get("unrequiredChildIndex") for node in nodes] == [None, [1], None, []]
