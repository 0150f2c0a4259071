# SPDX-License-Identifier: Apache-2.0
"""Carriers pass the entries of plans to Structured Streaming."""

from __future__ import annotations

import importlib.util
import inspect
import os
from typing import TYPE_CHECKING, Final

from connectors_core.errors import InvalidOptionError, UnsupportedError
from connectors_core.spark.carriers.base import (
    BEFORE_FIRST,
    ENTRIES,
    Carrier,
    PlanFeed,
    ReadEntry,
    Resume,
    checked,
    hand_on,
    spark_inputs_of,
    spark_leaves,
    spark_schema,
    stream_keys_of,
    streams_of,
    watermark_delays,
)
from connectors_core.spark.carriers.memory import MemoryCarrier
from connectors_core.spark.carriers.spark_log import SparkLog
from connectors_core.spark.internals.memory_stream import verify_contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "BEFORE_FIRST",
    "CARRIER_CONF",
    "CARRIER_ENV",
    "ENTRIES",
    "Carrier",
    "MemoryCarrier",
    "PlanFeed",
    "ReadEntry",
    "Resume",
    "SparkLog",
    "checked",
    "choose_carrier",
    "hand_on",
    "native_available",
    "spark_inputs_of",
    "spark_leaves",
    "spark_schema",
    "stream_keys_of",
    "streams_of",
    "watermark_delays",
]

CARRIER_CONF: Final = "spark.connectors.carrier"
CARRIER_ENV: Final = "CONNECTORS_CARRIER"


def native_available(spark: SparkSession) -> bool:
    """Return whether the session has the Python Data Source API with planned offsets.

    Args:
        spark: The session.
    """
    if not hasattr(spark, "dataSource") or not importlib.util.find_spec("pyspark.sql.datasource"):
        return False
    from pyspark.sql.datasource import (  # type: ignore[import-not-found, unused-ignore]
        DataSourceStreamReader,
    )

    return "limit" in inspect.signature(DataSourceStreamReader.latestOffset).parameters


def choose_carrier(spark: SparkSession) -> type[Carrier]:
    """Return the carrier for a session, chosen by the session's abilities.

    The Spark setting `spark.connectors.carrier` or the environment variable `CONNECTORS_CARRIER`
    (`native`, `memory` or `auto`) overrides the choice.

    Args:
        spark: The session.

    Raises:
        UnsupportedError: No carrier, or not the requested one, works with the session.
        InvalidOptionError: There is no carrier of that name.
    """
    wanted = spark.conf.get(CARRIER_CONF, None) or os.environ.get(CARRIER_ENV) or "auto"
    if wanted not in ("auto", "native", "memory"):
        raise InvalidOptionError(
            "unknown carrier", expected="auto, native or memory", found=wanted, option=CARRIER_CONF
        )
    if wanted != "memory" and native_available(spark):
        from connectors_core.spark.carriers.native import NativeCarrier

        return NativeCarrier
    if wanted == "native":
        raise UnsupportedError(
            "this Spark has no Python Data Source API with latestOffset(start, limit)",
            expected="Spark 4.2 or newer",
            found=spark.version,
            option=CARRIER_CONF,
            hint="remove the setting",
        )
    verify_contract(spark)
    return MemoryCarrier
