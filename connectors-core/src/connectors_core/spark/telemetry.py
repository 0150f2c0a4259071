# SPDX-License-Identifier: Apache-2.0
"""Hands the metrics of running pipelines to OpenTelemetry, through its API only. Driver.

Without an SDK all of this costs nothing. Instruments exist once per process and observe whichever
pipelines run; a stopped pipeline is no longer observed. What travels is names and numbers. For
OpenTelemetry the names of instruments have no case, and its SDK shows them in lower case.
"""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter

from connectors_core.metrics import (
    CommitterMetric,
    EnumeratorMetric,
    LookupMetric,
    SinkMetric,
    SourceMetric,
    SplitMetric,
)
from connectors_core.spark.status import (
    LookupStatus,
    PipelineStatus,
    SinkStatus,
    SourceStatus,
)

__all__ = ["METER_NAME", "Instruments", "Telemetry"]

METER_NAME: Final = "connectors_core"
CONNECTOR_COUNTER: Final = "connectorCounter"
CONNECTOR_GAUGE: Final = "connectorGauge"
_FRESH_SECONDS: Final = 0.5  # all instruments of one collection observe the same status

_COUNTERS: Final = {
    **{
        metric.value: unit
        for metric, unit in {
            SourceMetric.NUM_RECORDS_IN: "{record}",
            SourceMetric.NUM_BYTES_IN: "By",
            SourceMetric.NUM_RECORDS_IN_ERRORS: "{record}",
            SourceMetric.NUM_RECORDS_SKIPPED: "{record}",
            SourceMetric.NUM_DEAD_LETTERS: "{record}",
            SplitMetric.SPLIT_RECORDS_IN: "{record}",
            SinkMetric.NUM_RECORDS_SEND: "{record}",
            SinkMetric.NUM_BYTES_SEND: "By",
            SinkMetric.NUM_RECORDS_SEND_ERRORS: "{record}",
            SinkMetric.NUM_EPOCHS_COMMITTED: "{epoch}",
            LookupMetric.HIT_COUNT: "{key}",
            LookupMetric.MISS_COUNT: "{key}",
            LookupMetric.NUM_LOOKUP_KEYS: "{key}",
            LookupMetric.LOAD_COUNT: "{load}",
            LookupMetric.NUM_LOAD_FAILURE: "{load}",
            LookupMetric.LOAD_TIME: "ms",
        }.items()
    },
    **{
        metric.value: "{committable}"
        for metric in CommitterMetric
        if metric is not CommitterMetric.PENDING_COMMITTABLES
    },
}
_GAUGES: Final = {
    SourceMetric.PENDING_RECORDS.value: "{record}",
    SourceMetric.PENDING_BYTES.value: "By",
    SourceMetric.CURRENT_FETCH_EVENT_TIME_LAG.value: "ms",
    SourceMetric.CURRENT_EMIT_EVENT_TIME_LAG.value: "ms",
    SourceMetric.WATERMARK_LAG.value: "ms",
    SourceMetric.SOURCE_IDLE_TIME.value: "ms",
    EnumeratorMetric.UNASSIGNED_SPLITS.value: "{split}",
    SplitMetric.CURRENT_WATERMARK.value: "ms",
    SinkMetric.CURRENT_SEND_TIME.value: "ms",
    CommitterMetric.PENDING_COMMITTABLES.value: "{committable}",
    LookupMetric.LATEST_LOAD_TIME.value: "ms",
    LookupMetric.NUM_CACHED_RECORD.value: "{record}",
    LookupMetric.NUM_CACHED_BYTES.value: "By",
}


@dataclass(frozen=True)
class Measurement:
    """One number of a pipeline.

    Attributes:
        instrument: The instrument it belongs to.
        value: The number.
        attributes: ``pipeline``, ``uid`` and, where it applies, ``split``, ``subtask``; ``name``
            of a metric that only the connector knows.
    """

    instrument: str
    value: float
    attributes: dict[str, str | int]


def measurements(status: PipelineStatus) -> Iterator[Measurement]:
    """All numbers of a pipeline."""
    units: list[SourceStatus | SinkStatus | LookupStatus] = [
        *status.sources,
        *status.sinks,
        *status.lookups,
    ]
    for unit in units:
        where: dict[str, str | int] = {"pipeline": status.name, "uid": unit.uid}
        for name, number in unit.counters.items():
            yield _measurement(name, number, where, _COUNTERS, CONNECTOR_COUNTER)
        for name, value in unit.gauges.items():
            yield _measurement(name, value, where, _GAUGES, CONNECTOR_GAUGE)
    for source in status.sources:
        where = {"pipeline": status.name, "uid": source.uid}
        for subtask, gauges in source.reader_gauges.items():
            for name, value in gauges.items():
                yield _measurement(
                    name, value, where | {"subtask": subtask}, _GAUGES, CONNECTOR_GAUGE
                )
        for split in source.splits:
            own = where | {"split": split.split_id}
            yield Measurement(SplitMetric.SPLIT_RECORDS_IN.value, split.rows, own)
            if split.watermark is not None:
                watermark = split.watermark // 1_000
                yield Measurement(SplitMetric.CURRENT_WATERMARK.value, watermark, own)


def _measurement(
    name: str, value: float, where: dict[str, str | int], known: dict[str, str], other: str
) -> Measurement:
    """A standard metric has an instrument of its own; the connector's own share one."""
    if name in known:
        return Measurement(name, value, where)
    return Measurement(other, value, where | {"name": name})


class Telemetry:
    """The numbers of one pipeline, observed from its start until :meth:`close`. Thread-safe.

    Args:
        status: Gives the pipeline's status.
        clock: Monotonic seconds.
    """

    def __init__(
        self, status: Callable[[], PipelineStatus], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._status = status
        self._clock = clock
        self._lock = threading.Lock()
        self._measured: dict[str, list[Measurement]] = {}
        self._measured_at: float | None = None
        self._closed = False

    def observe(self, instrument: str) -> list[Measurement]:
        """The numbers of one instrument; nothing after :meth:`close`."""
        with self._lock:
            if self._closed:
                return []
            now = self._clock()
            if self._measured_at is None or now - self._measured_at >= _FRESH_SECONDS:
                found: dict[str, list[Measurement]] = {}
                for each in measurements(self._status()):
                    found.setdefault(each.instrument, []).append(each)
                self._measured, self._measured_at = found, now
            return self._measured.get(instrument, [])

    def refresh(self) -> None:
        """What is observed next is new."""
        with self._lock:
            self._measured_at = None

    def close(self) -> None:
        """Be observed no more."""
        with self._lock:
            self._closed = True
            self._measured = {}


class Instruments:
    """The instruments of one meter provider; they observe what was added to them.

    An SDK keeps the callbacks of the first instrument of a name and drops those of later ones, so
    pipelines share one set.

    Args:
        provider: The meter provider; by default the global one, also when it is set later.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        self._observed: weakref.WeakSet[Telemetry] = weakref.WeakSet()
        meter = get_meter(METER_NAME, meter_provider=provider)
        for name, unit in {**_COUNTERS, CONNECTOR_COUNTER: "1"}.items():
            meter.create_observable_counter(name, callbacks=[self._callback(name)], unit=unit)
        for name, unit in {**_GAUGES, CONNECTOR_GAUGE: "1"}.items():
            meter.create_observable_gauge(name, callbacks=[self._callback(name)], unit=unit)

    def add(self, telemetry: Telemetry) -> None:
        """Observe a pipeline for as long as it is referred to."""
        self._observed.add(telemetry)

    def _callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            for telemetry in list(self._observed):
                for each in telemetry.observe(name):
                    yield Observation(each.value, each.attributes)

        return observe


@functools.cache
def global_instruments() -> Instruments:
    """The instruments of the global meter provider."""
    return Instruments()
