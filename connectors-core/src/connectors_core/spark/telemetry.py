# SPDX-License-Identifier: Apache-2.0
"""Exports the metrics of running pipelines to OpenTelemetry, through its API only. Driver.

Without an SDK this costs nothing. Instruments exist once per process and observe all running
pipelines, but no stopped ones. `exported_metrics` lists their names.
"""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter

from connectors_core.engine.query.status import (
    LookupStatus,
    PipelineStatus,
    SinkStatus,
    SourceStatus,
)
from connectors_core.metrics import SplitMetric
from connectors_core.spark.exported_metrics import (
    CUSTOM_COUNTER,
    CUSTOM_GAUGE,
    LOOKUP_METRICS,
    SINK_METRICS,
    SOURCE_METRICS,
    SPLIT_METRICS,
    ExportedMetric,
    exported_metrics,
)

__all__ = ["METER_NAME", "Instruments", "Telemetry"]

METER_NAME: Final = "connectors_core"
_Metrics = Mapping[str, ExportedMetric]
_FRESH_SECONDS: Final = 0.5  # all instruments of one collection observe the same status


@dataclass(frozen=True)
class Measurement:
    """One number of a pipeline.

    Attributes:
        instrument: The instrument it belongs to.
        value: The number.
        attributes: ``pipeline``, ``uid``, and, if applicable, ``split``, ``subtask``, and the
            ``name`` of a metric that only the connector has.
    """

    instrument: str
    value: float
    attributes: dict[str, str | int]


def measurements(status: PipelineStatus) -> Iterator[Measurement]:
    """Yield all metrics of a pipeline."""
    units: list[tuple[SourceStatus | SinkStatus | LookupStatus, _Metrics]] = [
        *((source, SOURCE_METRICS) for source in status.sources),
        *((sink, SINK_METRICS) for sink in status.sinks),
        *((lookup, LOOKUP_METRICS) for lookup in status.lookups),
    ]
    for unit, metrics in units:
        where: dict[str, str | int] = {"pipeline": status.name, "uid": unit.uid}
        for name, number in unit.counters.items():
            yield _measurement(name, number, where, metrics, CUSTOM_COUNTER)
        for name, value in unit.gauges.items():
            yield _measurement(name, value, where, metrics, CUSTOM_GAUGE)
    for source in status.sources:
        where = {"pipeline": status.name, "uid": source.uid}
        for subtask, gauges in source.reader_gauges.items():
            own = where | {"subtask": subtask}
            for name, value in gauges.items():
                yield _measurement(name, value, own, SOURCE_METRICS, CUSTOM_GAUGE)
        for split in source.splits:
            own = where | {"split": split.split_id}
            rows = SplitMetric.SPLIT_RECORDS_IN
            yield _measurement(rows, split.rows, own, SPLIT_METRICS, CUSTOM_COUNTER)
            if split.watermark is not None:
                name, millis = SplitMetric.CURRENT_WATERMARK, split.watermark // 1_000
                yield _measurement(name, millis, own, SPLIT_METRICS, CUSTOM_GAUGE)


def _measurement(
    name: str,
    value: float,
    where: dict[str, str | int],
    known: _Metrics,
    other: ExportedMetric,
) -> Measurement:
    """Measure a standard metric by its own instrument, a connector's metric by a shared one."""
    metric = known.get(name)
    if metric is not None and metric.is_counter == other.is_counter:
        return Measurement(metric.name, metric.value(value), where)
    return Measurement(other.name, value, where | {"name": name})


class Telemetry:
    """The metrics of one pipeline, observed from its start until :meth:`close`. Thread-safe.

    Args:
        status: Returns the pipeline's status.
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
        """Return the measurements of one instrument; none after :meth:`close`."""
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
        """Let the next observation read a new status."""
        with self._lock:
            self._measured_at = None

    def close(self) -> None:
        """Stop the observation."""
        with self._lock:
            self._closed = True
            self._measured = {}


class Instruments:
    """The instruments of one meter provider, shared by all pipelines.

    An SDK keeps only the callbacks of the first instrument with a name, so pipelines share one set.

    Args:
        provider: The meter provider; by default the global one, even if it is set later.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        self._observed: weakref.WeakSet[Telemetry] = weakref.WeakSet()
        meter = get_meter(METER_NAME, meter_provider=provider)
        for each in exported_metrics():
            create = meter.create_observable_gauge
            if each.is_counter:
                create = meter.create_observable_counter  # type: ignore[assignment]
            create(each.name, [self._callback(each.name)], each.unit, each.description)

    def add(self, telemetry: Telemetry) -> None:
        """Observe a pipeline as long as it is referenced."""
        self._observed.add(telemetry)

    def _callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            for telemetry in list(self._observed):
                for each in telemetry.observe(name):
                    yield Observation(each.value, each.attributes)

        return observe


@functools.cache
def global_instruments() -> Instruments:
    """Return the instruments of the global meter provider."""
    return Instruments()
