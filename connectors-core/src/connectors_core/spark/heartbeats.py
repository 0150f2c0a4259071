# SPDX-License-Identifier: Apache-2.0
"""Drives Spark's watermark with the heartbeats of the plans. Driver."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from connectors_core.engine.coordinator.identity import is_spark_stream, shown, uids_of
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.reader_task import HEARTBEAT_COLUMN
from connectors_core.errors import ConfigurationError
from connectors_core.schema.ddl import quoted
from connectors_core.source.watermarks import EVENT_TIME_DELAY, WatermarkStrategy
from connectors_core.spark.carriers import streams_of, watermark_delays

_DRIVEN_BY_HEARTBEAT: Final = f"{EVENT_TIME_DELAY // timedelta(days=1)} days"


def with_heartbeats(df: DataFrame, strategy: WatermarkStrategy) -> DataFrame:
    """Set Spark's watermark with the heartbeats of a source, and return only its rows.

    Args:
        df: Rows and heartbeats.
        strategy: The watermark strategy of the source.
    """
    # Spark must not push a filter below the watermark node. Otherwise the node never sees a
    # heartbeat, whose columns are null. A filter on the event time stays above it. A filter that is
    # not deterministic keeps others, such as the IS NOT NULL of a join, from being pushed through
    # it.
    event_time = quoted(strategy.event_time_column)
    heartbeat = (
        F.col(HEARTBEAT_COLUMN)
        & (F.col(event_time) >= F.expr("TIMESTAMP '1900-01-01 00:00:00'"))
        & (F.spark_partition_id() >= 0)
    )
    return (
        df.withWatermark(event_time, _DRIVEN_BY_HEARTBEAT).where(~heartbeat).drop(HEARTBEAT_COLUMN)
    )


def check_watermarks(df: DataFrame, sources: Mapping[str, SourceSettings]) -> None:
    """Refuse a watermark of Spark, or a stream of Spark, in a query whose watermark is driven.

    Args:
        df: The rows of a query.
        sources: The sources of the pipeline by uid.

    Raises:
        ConfigurationError: The query has both.
    """
    streams = streams_of(df)
    driven = [uid for uid in uids_of(streams) if sources[uid].strategy is not None]
    foreign = [each for each in streams if is_spark_stream(each)]
    if driven and foreign:
        raise ConfigurationError(
            f"the query reads {', '.join(driven)}, whose watermark the pipeline drives, and a "
            "stream of Spark, which does not move that watermark: its rows could be lost as late",
            found=f"a stream of Spark: {shown(foreign)}",
            hint="remove the watermark_strategy of the sources and use withWatermark on each "
            "stream, or read the stream through a connector",
        )
    others = [delay for delay in watermark_delays(df) if delay != _DRIVEN_BY_HEARTBEAT]
    if driven and others:
        raise ConfigurationError(
            f"withWatermark on rows of {', '.join(sorted(set(driven)))}, whose watermark the "
            "pipeline drives: Spark has one watermark per query, so rows would be lost",
            found=f"a watermark with a delay of {', '.join(others)}",
            hint="remove withWatermark, and give every source of the query a watermark_strategy",
        )
