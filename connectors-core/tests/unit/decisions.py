# SPDX-License-Identifier: Apache-2.0
"""Decisions of a pipeline that never ran."""

from __future__ import annotations

from typing import Any

from connectors_core.engine.protocol import Decision


def a_decision(epoch: int, **fields: Any) -> Decision:
    """Return the decision of an epoch whose plan and batch have the same number."""
    usual = {
        "pipeline_id": "p",
        "epoch": epoch,
        "incarnation": 1,
        "spark_query_id": "q",
        "batch_id": epoch,
        "plan": epoch,
        "sinks": {},
    }
    return Decision(**usual | fields)
