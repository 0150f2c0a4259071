# SPDX-License-Identifier: Apache-2.0
"""Registers connectors as formats of Spark 4, such as `spark.read.format("connector_kafka")`."""

from __future__ import annotations

from connectors_core.errors import UnsupportedError

try:
    from connectors_core.spark.native_formats.data_source import NativeFormat
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("pyspark"):
        raise
    raise UnsupportedError(
        "this Spark has no Python data sources, so connectors are not formats",
        expected="Spark 4.3",
        hint="read with Pipeline.from_source, and write with Pipeline.sink_to",
    ) from error

__all__ = ["NativeFormat"]
