# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a source for status and metrics, and its counters. Driver."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from connectors_core.engine.coordinator.split_ledger import SplitLedger
from connectors_core.engine.protocol import Report
from connectors_core.metrics import Meter, MetricGroup, SourceMetric
from connectors_core.secrets import mask_text
from connectors_core.source.watermarks import WatermarkStrategy

# The core counts these itself, more exactly than a reader can.
_COUNTED_HERE = {SourceMetric.NUM_RECORDS_IN, SourceMetric.NUM_RECORDS_IN_ERRORS}
_ADDED_UP = {SourceMetric.PENDING_RECORDS, SourceMetric.PENDING_BYTES}
_WORST = {SourceMetric.CURRENT_FETCH_EVENT_TIME_LAG, SourceMetric.CURRENT_EMIT_EVENT_TIME_LAG}


@dataclass(frozen=True, kw_only=True)
class SplitStatus:
    """An assigned, unfinished split at one moment; times are in microseconds since 1970.

    Attributes:
        split_id: The split.
        subtask: The reader it belongs to.
        read: Whether a reader has read from it.
        idle: Whether it has no rows and so does not hold back the watermark.
        rows: Rows taken from it since the driver started.
        watermark: Its watermark.
        head: The watermark that the first row held back by alignment would cause.
    """

    split_id: str
    subtask: int
    read: bool
    idle: bool
    rows: int
    watermark: int | None
    head: int | None


@dataclass(frozen=True, kw_only=True)
class SourceObservation:
    """A source at one moment, for status and metrics. Counts start with this driver.

    Attributes:
        splits: The assigned, unfinished splits.
        splits_finished: Splits read to their end.
        watermark: The source's watermark in microseconds.
        finished: Whether it is read to its end.
        rows_per_second: Average over the last 30 seconds.
        idle_seconds: Time since a plan last returned a row.
        metrics: Counters, and gauges of the source as a whole.
        reader_gauges: The connector's own gauges by reader.
        replayable: Whether its splits can be read again (see :class:`SplitTraits`).
    """

    splits: tuple[SplitStatus, ...]
    splits_finished: int
    watermark: int | None
    finished: bool
    rows_per_second: float
    idle_seconds: float
    metrics: MetricGroup
    reader_gauges: dict[int, dict[str, float]]
    replayable: bool = True


@dataclass(eq=False, repr=False)
class SourceCounts:
    """The counters of one source since the start of this driver.

    Args:
        metrics: The metrics of the enumerator; those of the readers are added to them.
        strategy: The watermark strategy of the source.
        clock: Monotonic seconds.
    """

    metrics: MetricGroup
    _: KW_ONLY
    strategy: WatermarkStrategy | None
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._splits_finished = 0
        self._rows = Meter(clock=self.clock)
        self._last_rows_at = self.clock()
        self._reader_gauges: dict[int, dict[str, float]] = {}

    def report(self, report: Report, ledger: SplitLedger) -> None:
        """Count a report once, but not the reports of an earlier driver."""
        count_report(self.metrics, report)
        gauges = self._reader_gauges.setdefault(report.subtask, {})
        if report.rows:
            self._rows.mark(report.rows)
            self._last_rows_at = self.clock()
            newest = self._newest_event_time(report)
            if newest is not None:
                lag = time.time() * 1e3 - newest / 1e3
                gauges[SourceMetric.CURRENT_EMIT_EVENT_TIME_LAG.value] = lag
        gauges.update(report.gauges)
        for read in report.splits:
            split = ledger.splits.get(read.split_id)
            if split is not None:
                split.rows += read.rows

    def finished_splits(self, number: int) -> None:
        """Count splits that were read to their end."""
        self._splits_finished += number

    def _newest_event_time(self, report: Report) -> int | None:
        if self.strategy is None:
            return None
        marks = [split.watermark for split in report.splits if split.watermark is not None]
        return self.strategy.max_event_time(max(marks)) if marks else None

    def observe(
        self, ledger: SplitLedger, *, watermark: int | None, finished: bool, replayable: bool
    ) -> SourceObservation:
        """Return the current state of the source."""
        metrics = self.metrics.copy()
        readers: dict[int, dict[str, float]] = {}
        for subtask, gauges in self._reader_gauges.items():
            for name, value in gauges.items():
                if name in _ADDED_UP:
                    metrics.gauges[name] = metrics.gauges.get(name, 0) + value
                elif name in _WORST:
                    metrics.gauges[name] = max(metrics.gauges.get(name, value), value)
                else:
                    readers.setdefault(subtask, {})[name] = value
        return SourceObservation(
            splits=tuple(
                SplitStatus(
                    split_id=mask_text(split_id),
                    subtask=split.subtask,
                    read=split.read,
                    idle=split.read and split.head is None and ledger.idleness.idle(split_id),
                    rows=split.rows,
                    watermark=split.watermark,
                    head=split.head,
                )
                for split_id, split in ledger.splits.items()
            ),
            splits_finished=self._splits_finished,
            watermark=watermark,
            finished=finished,
            rows_per_second=self._rows.rate(),
            idle_seconds=self.clock() - self._last_rows_at,
            metrics=metrics,
            reader_gauges=readers,
            replayable=replayable,
        )


def count_report(metrics: MetricGroup, report: Report) -> None:
    """Add the counters of a report; a reader's own byte count overrides that of the core."""
    counted = {
        SourceMetric.NUM_RECORDS_IN.value: report.rows,
        SourceMetric.NUM_BYTES_IN.value: report.bytes,
        SourceMetric.NUM_RECORDS_IN_ERRORS.value: report.skipped + report.dead_letters,
        SourceMetric.NUM_RECORDS_SKIPPED.value: report.skipped,
        SourceMetric.NUM_DEAD_LETTERS.value: report.dead_letters,
    }
    own = {name: number for name, number in report.counters.items() if name not in _COUNTED_HERE}
    for name, number in (counted | own).items():
        metrics.inc(name, number)
