# SPDX-License-Identifier: Apache-2.0
"""The settings of a source in a pipeline. Driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Self

from connectors_core.engine.coordinator import durations
from connectors_core.engine.coordinator.pipeline_checks import (
    check_parallelism,
    check_record_policy,
    check_type,
)
from connectors_core.records import RecordPolicy
from connectors_core.source.evaluator import RecordEvaluator
from connectors_core.source.rate_limiter import RateLimiterStrategy
from connectors_core.source.source import AnySource, BatchTasks, Source
from connectors_core.source.split import ReadLimits
from connectors_core.source.watermarks import WatermarkStrategy

FIRST_FETCH_TIMEOUT: Final = timedelta(seconds=30)


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """A source and its settings in a pipeline.

    Attributes:
        uid: Its name, stable across restarts.
        source: The source.
        parallelism: Number of readers.
        strategy: Event times and watermarks.
        limits: Maximum that one plan reads.
        rate_limiter: Rows over time, for the whole source.
        evaluator: Ends a split after a row.
        policy: Handles records that cannot be read.
        batch_tasks: Limits of the number of tasks of a batch run.
        first_fetch_timeout: Time in which a plan waits for the first response to each reader.
    """

    uid: str
    source: AnySource
    parallelism: int
    strategy: WatermarkStrategy | None = None
    limits: ReadLimits = field(default_factory=ReadLimits)
    rate_limiter: RateLimiterStrategy = field(default_factory=RateLimiterStrategy.none)
    evaluator: RecordEvaluator | None = None
    policy: RecordPolicy = field(default_factory=RecordPolicy.fail)
    batch_tasks: BatchTasks = field(default_factory=BatchTasks)
    first_fetch_timeout: timedelta = FIRST_FETCH_TIMEOUT

    @classmethod
    def of(
        cls,
        source: AnySource,
        *,
        uid: str,
        parallelism: int,
        watermark_strategy: WatermarkStrategy | None = None,
        limits: ReadLimits | None = None,
        rate_limiter: RateLimiterStrategy | None = None,
        record_evaluator: RecordEvaluator | None = None,
        record_policy: RecordPolicy | None = None,
        batch_tasks: BatchTasks | None = None,
        first_fetch_timeout: timedelta | str = FIRST_FETCH_TIMEOUT,
    ) -> Self:
        """Return the settings from the arguments of ``from_source``, with the source's defaults.

        Raises:
            InvalidOptionError: An argument has another type, or a number is not positive.
        """
        check_type("source", source, Source, example="FileSource('data/flights')")
        check_type(
            "watermark_strategy",
            watermark_strategy,
            WatermarkStrategy,
            example="WatermarkStrategy.for_monotonous_timestamps()",
            optional=True,
        )
        check_record_policy(record_policy)
        check_parallelism(parallelism)
        example = "ReadLimits(rows=100_000)"
        check_type("limits", limits, ReadLimits, example=example, optional=True)
        if limits is not None:
            limits.check_positive()
        example = "BatchTasks(max_tasks=100)"
        check_type("batch_tasks", batch_tasks, BatchTasks, example=example, optional=True)
        return cls(
            uid=uid,
            source=source,
            parallelism=parallelism,
            strategy=watermark_strategy,
            limits=limits if limits is not None else source.default_limits(),
            rate_limiter=rate_limiter or source.rate_limiter_strategy(),
            evaluator=record_evaluator,
            policy=record_policy or RecordPolicy.fail(),
            batch_tasks=batch_tasks or BatchTasks(),
            first_fetch_timeout=durations.FIRST_FETCH_TIMEOUT.accept(first_fetch_timeout),
        )
