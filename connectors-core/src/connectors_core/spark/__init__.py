# SPDX-License-Identifier: Apache-2.0
"""Runs pipelines on Spark. The only package of the core that imports pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from connectors_core.errors import MissingDependencyError

if TYPE_CHECKING:
    from connectors_core.spark.pipeline import Pipeline

__all__ = ["Pipeline"]


def __getattr__(name: str) -> Any:
    # Imported late: Spark's reader processes import the carriers and need nothing else from here.
    if name == "Pipeline":
        try:
            from connectors_core.spark.pipeline import Pipeline
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("pyspark"):
                raise
            raise MissingDependencyError(
                "pyspark", install="pip install 'connectors-core[spark]'", feature="a Pipeline"
            ) from error
        return Pipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
