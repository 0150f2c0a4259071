# SPDX-License-Identifier: Apache-2.0
"""Metrics: names after Flink's FLIP-33, and the group that connectors record them in.

Numbers of executors travel in reports and summaries and are counted when those are taken over, so a
retry, a replay or a speculative copy never counts twice. All counters begin with the driver.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = [
    "CommitterMetric",
    "EnumeratorMetric",
    "LookupMetric",
    "Meter",
    "MetricGroup",
    "SinkMetric",
    "SourceMetric",
    "SplitMetric",
]


class SourceMetric(StrEnum):
    """Of a source. Times and lags are milliseconds."""

    NUM_RECORDS_IN = "numRecordsIn"
    """Rows emitted. The core counts them; a reader must not."""
    NUM_BYTES_IN = "numBytesIn"
    """Bytes read: of the external system where the reader counts them, else of Arrow buffers."""
    NUM_RECORDS_IN_ERRORS = "numRecordsInErrors"
    """Records that could not be read. The core counts them; a reader must not."""
    NUM_RECORDS_SKIPPED = "numRecordsSkipped"
    """Those of them that the record policy dropped (not in FLIP-33)."""
    NUM_DEAD_LETTERS = "numDeadLetters"
    """Those of them that went to the dead letters (not in FLIP-33)."""
    PENDING_RECORDS = "pendingRecords"
    """Records not read yet; set by readers (they are added up) or by the enumerator."""
    PENDING_BYTES = "pendingBytes"
    """Bytes not read yet; set by readers (they are added up) or by the enumerator."""
    CURRENT_FETCH_EVENT_TIME_LAG = "currentFetchEventTimeLag"
    """Fetch time minus event time of the last record; set by readers."""
    CURRENT_EMIT_EVENT_TIME_LAG = "currentEmitEventTimeLag"
    """Emit time minus event time of the newest record; set by readers, or by the core where a
    watermark strategy with the built-in generator tells it."""
    WATERMARK_LAG = "watermarkLag"
    """Now minus the watermark of the source."""
    SOURCE_IDLE_TIME = "sourceIdleTime"
    """Time since the last plan that gave a row."""


class EnumeratorMetric(StrEnum):
    """Of the enumerator of a source."""

    UNASSIGNED_SPLITS = "unassignedSplits"
    """Splits discovered and not assigned to a reader; set by the enumerator."""


class SplitMetric(StrEnum):
    """Of a split that is being read."""

    CURRENT_WATERMARK = "currentWatermark"
    """Its watermark, milliseconds since the epoch."""
    SPLIT_RECORDS_IN = "splitRecordsIn"
    """Rows taken from it. Not ``numRecordsIn``: a sum over all attributes would count twice."""


class SinkMetric(StrEnum):
    """Of the writers of a sink, counted when an epoch is decided.

    Where a writer counts one of the first three itself, its number is taken.
    """

    NUM_RECORDS_SEND = "numRecordsSend"
    """Rows written."""
    NUM_BYTES_SEND = "numBytesSend"
    """Bytes written: of the external system where the writer counts them, else of Arrow buffers."""
    NUM_RECORDS_SEND_ERRORS = "numRecordsSendErrors"
    """Rows that could not be written."""
    NUM_RECORDS_SKIPPED = "numRecordsSkipped"
    """Those of them that the record policy dropped (not in FLIP-33)."""
    NUM_DEAD_LETTERS = "numDeadLetters"
    """Those of them that went to the dead letters (not in FLIP-33)."""
    CURRENT_SEND_TIME = "currentSendTime"
    """Milliseconds that the last epoch's writing job took, the reading of its rows included."""
    NUM_REQUESTS = "numRequests"
    """Requests of an ``AsyncSink`` (not in FLIP-33)."""
    NUM_RETRIES = "numRetries"
    """Entries that were to be sent again (not in FLIP-33)."""
    NUM_EPOCHS_COMMITTED = "numEpochsCommitted"
    """Epochs of which the sink has committed its part (not in FLIP-33)."""


class CommitterMetric(StrEnum):
    """Of the committers of a sink."""

    TOTAL_COMMITTABLES = "totalCommittables"
    SUCCESSFUL_COMMITTABLES = "successfulCommittables"
    ALREADY_COMMITTED_COMMITTABLES = "alreadyCommittedCommittables"
    FAILED_COMMITTABLES = "failedCommittables"
    RETRIED_COMMITTABLES = "retriedCommittables"
    PENDING_COMMITTABLES = "pendingCommittables"
    """Decided and neither committed nor failed."""
    LOST_COMMITTABLES = "lostCommittables"
    """Lost after the decision; their rows are written again (not in Flink)."""


class LookupMetric(StrEnum):
    """Of a lookup join, after Flink's FLIP-221.

    Counted in worker processes and brought to the driver with each task that ends: a task that
    runs again counts again. Gauges are those of the process that was heard last.
    """

    HIT_COUNT = "hitCount"
    """Keys that a cache knew; a key counts once for each batch of rows."""
    MISS_COUNT = "missCount"
    """Keys that it did not know."""
    LOAD_COUNT = "loadCount"
    """Requests that were answered, or reloads of a full cache."""
    NUM_LOAD_FAILURE = "numLoadFailure"
    """Requests or reloads that failed; a repetition counts again."""
    LATEST_LOAD_TIME = "latestLoadTime"
    """Milliseconds that the last request or reload took."""
    LOAD_TIME = "loadTime"
    """Milliseconds of all requests or reloads (not in FLIP-221)."""
    NUM_LOOKUP_KEYS = "numLookupKeys"
    """Distinct keys of batches of rows (not in FLIP-221)."""
    NUM_CACHED_RECORD = "numCachedRecord"
    """Rows in the cache."""
    NUM_CACHED_BYTES = "numCachedBytes"
    """Bytes of the columns in the cache."""


# One lock for all: it is held for some nanoseconds, and groups stay plain data that pickles.
_lock = threading.Lock()


@dataclass
class MetricGroup:
    """Counters and gauges of one source, reader, writer or committer. Thread-safe.

    Plain numbers: a reader's travel in its report, a writer's in its summary, and the driver hands
    them to OpenTelemetry. Counters of a report are added up, gauges replaced. Standard names are in
    :class:`SourceMetric` and its neighbours; the same meaning must have the same name.
    """

    counters: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)

    def inc(self, name: str, value: int = 1) -> None:
        """Add to a counter."""
        name = str(name)
        with _lock:
            self.counters[name] = self.counters.get(name, 0) + value

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""
        with _lock:
            self.gauges[str(name)] = value

    def copy(self) -> MetricGroup:
        """The numbers as they are now."""
        with _lock:
            return MetricGroup(dict(self.counters), dict(self.gauges))


class Meter:
    """Events per second over a sliding window; thread-safe.

    Args:
        window: Length of the window in seconds; a meter younger than that uses its age.
        clock: Monotonic seconds.
    """

    def __init__(self, window: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._window = window
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._marks: deque[tuple[float, int]] = deque()
        self._sum = 0

    def mark(self, count: int) -> None:
        """Count events that happened now."""
        with self._lock:
            now = self._clock()
            self._forget(now)
            self._marks.append((now, count))
            self._sum += count

    def rate(self) -> float:
        """Events per second."""
        with self._lock:
            now = self._clock()
            self._forget(now)
            seconds = min(self._window, now - self._began)
            return self._sum / seconds if seconds > 0 else 0.0

    def _forget(self, now: float) -> None:
        while self._marks and self._marks[0][0] <= now - self._window:
            self._sum -= self._marks.popleft()[1]
