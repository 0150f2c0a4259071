# SPDX-License-Identifier: Apache-2.0
"""Metrics: names after Flink's FLIP-33, and the group in which connectors record them.

Reports and summaries carry the numbers of executors, and the driver counts them when it accepts
these messages. A retry, a replay, or a speculative copy is therefore never counted twice. All
counters start with the driver.
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
    """Metrics of a source. Times and lags are in milliseconds."""

    NUM_RECORDS_IN = "numRecordsIn"
    """Rows emitted. The core counts them; a reader must not."""
    NUM_BYTES_IN = "numBytesIn"
    """Bytes read from the external system if the reader counts them, else of Arrow buffers."""
    NUM_RECORDS_IN_ERRORS = "numRecordsInErrors"
    """Records that could not be read. The core counts them; a reader must not."""
    NUM_RECORDS_SKIPPED = "numRecordsSkipped"
    """Failed records that the record policy dropped (not in FLIP-33)."""
    NUM_DEAD_LETTERS = "numDeadLetters"
    """Failed records that went to the dead letters (not in FLIP-33)."""
    UNREADABLE_SPLITS = "unreadableSplits"
    """Splits whose rest is skipped because it cannot be read (not in FLIP-33)."""
    PENDING_RECORDS = "pendingRecords"
    """Records not read yet; set by readers (and summed) or by the enumerator."""
    PENDING_BYTES = "pendingBytes"
    """Bytes not read yet; set by readers (and summed) or by the enumerator."""
    CURRENT_FETCH_EVENT_TIME_LAG = "currentFetchEventTimeLag"
    """Fetch time minus event time of the last record; set by readers."""
    CURRENT_EMIT_EVENT_TIME_LAG = "currentEmitEventTimeLag"
    """Emit time minus event time of the newest record; set by readers, or by the core if a
    watermark strategy uses the built-in generator.
    """
    WATERMARK_LAG = "watermarkLag"
    """Now minus the watermark of the source."""
    SOURCE_IDLE_TIME = "sourceIdleTime"
    """Time since the last plan that returned a row."""


class EnumeratorMetric(StrEnum):
    """Metrics of the enumerator of a source."""

    UNASSIGNED_SPLITS = "unassignedSplits"
    """Discovered splits that are not assigned to a reader; set by the enumerator."""


class SplitMetric(StrEnum):
    """Metrics of a split that is being read."""

    CURRENT_WATERMARK = "currentWatermark"
    """Its watermark, milliseconds since the epoch."""
    SPLIT_RECORDS_IN = "splitRecordsIn"
    """Rows taken from it. Not ``numRecordsIn``: a sum over all attributes would count twice."""


class SinkMetric(StrEnum):
    """Metrics of a sink's writers, counted when an epoch is decided.

    If a writer counts one of the first three itself, its number is used.
    """

    NUM_RECORDS_SEND = "numRecordsSend"
    """Rows written."""
    NUM_BYTES_SEND = "numBytesSend"
    """Bytes written to the external system if the writer counts them, else of Arrow buffers."""
    NUM_RECORDS_SEND_ERRORS = "numRecordsSendErrors"
    """Rows that could not be written."""
    NUM_RECORDS_SKIPPED = "numRecordsSkipped"
    """Failed records that the record policy dropped (not in FLIP-33)."""
    NUM_DEAD_LETTERS = "numDeadLetters"
    """Failed records that went to the dead letters (not in FLIP-33)."""
    CURRENT_SEND_TIME = "currentSendTime"
    """Milliseconds of the last epoch's writing job, including the read of its rows."""
    NUM_REQUESTS = "numRequests"
    """Requests of an ``AsyncSink`` (not in FLIP-33)."""
    NUM_RETRIES = "numRetries"
    """Entries that were retried (not in FLIP-33)."""
    NUM_EPOCHS_COMMITTED = "numEpochsCommitted"
    """Epochs that the sink has committed (not in FLIP-33)."""
    HELD_COMMITTABLES = "heldCommittables"
    """Committables that wait for a later epoch, such as for a compaction (not in FLIP-33)."""
    PENDING_COMPACTIONS = "pendingCompactions"
    """Compaction requests without a decided result (not in FLIP-33)."""
    NUM_COMPACTIONS = "numCompactions"
    """Combinations of held committables, such as compactions, that are decided (not in FLIP-33)."""


class CommitterMetric(StrEnum):
    """Metrics of a sink's committers."""

    TOTAL_COMMITTABLES = "totalCommittables"
    SUCCESSFUL_COMMITTABLES = "successfulCommittables"
    ALREADY_COMMITTED_COMMITTABLES = "alreadyCommittedCommittables"
    FAILED_COMMITTABLES = "failedCommittables"
    RETRIED_COMMITTABLES = "retriedCommittables"
    PENDING_COMMITTABLES = "pendingCommittables"
    """Decided and neither committed nor failed."""
    LOST_COMMITTABLES = "lostCommittables"
    """Lost after the decision; their rows are rewritten (not in Flink)."""
    COMMIT_TASKS = "commitTasks"
    """Spark tasks that committed large epochs (not in Flink)."""


class LookupMetric(StrEnum):
    """Metrics of a lookup join, after Flink's FLIP-221.

    Worker processes count them, and each finished task sends them to the driver. A task that runs
    again is counted again. Gauges have the value of the process that reported last.
    """

    HIT_COUNT = "hitCount"
    """Keys found in a cache; a key counts once for each batch of rows."""
    MISS_COUNT = "missCount"
    """Keys that were not in the cache."""
    LOAD_COUNT = "loadCount"
    """Successful requests, or reloads of a full cache."""
    NUM_LOAD_FAILURE = "numLoadFailure"
    """Failed requests or reloads; each retry counts."""
    LATEST_LOAD_TIME = "latestLoadTime"
    """Milliseconds of the last request or reload."""
    LOAD_TIME = "loadTime"
    """Milliseconds of all requests or reloads (not in FLIP-221)."""
    NUM_LOOKUP_KEYS = "numLookupKeys"
    """Distinct keys of batches of rows (not in FLIP-221)."""
    NUM_CACHED_RECORD = "numCachedRecord"
    """Rows in the cache."""
    NUM_CACHED_BYTES = "numCachedBytes"
    """Bytes of the columns in the cache."""


# One lock for all: it is held for nanoseconds, and groups remain plain, picklable data.
_lock = threading.Lock()


@dataclass
class MetricGroup:
    """Counters and gauges of one source, reader, writer, or committer. Thread safe.

    These are plain numbers: a reader's are in its report, a writer's in its summary, and the driver
    passes them to OpenTelemetry. Counters of a report are added, gauges are replaced. Standard
    names are in :class:`SourceMetric` and the classes next to it; the same meaning must have the
    same name.
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
        """Return the current numbers."""
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
        """Count current events."""
        with self._lock:
            now = self._clock()
            self._forget(now)
            self._marks.append((now, count))
            self._sum += count

    def rate(self) -> float:
        """Return the events per second."""
        with self._lock:
            now = self._clock()
            self._forget(now)
            seconds = min(self._window, now - self._began)
            return self._sum / seconds if seconds > 0 else 0.0

    def _forget(self, now: float) -> None:
        while self._marks and self._marks[0][0] <= now - self._window:
            self._sum -= self._marks.popleft()[1]
