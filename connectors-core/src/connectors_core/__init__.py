# SPDX-License-Identifier: Apache-2.0
"""Connectors for Apache Spark in Python, after Flink's model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from connectors_core.spark import Pipeline

__all__ = ["Pipeline"]


def __getattr__(name: str) -> Any:
    # Late, so that connectors can be used and tested without Spark.
    if name == "Pipeline":
        from connectors_core.spark import Pipeline

        return Pipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
