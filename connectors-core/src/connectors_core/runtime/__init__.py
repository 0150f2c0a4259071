# SPDX-License-Identifier: Apache-2.0
"""Runs pipelines on Spark. The only package of the core that imports pyspark."""

from connectors_core.runtime.pipeline import Pipeline

__all__ = ["Pipeline"]
