# SPDX-License-Identifier: Apache-2.0
"""The names of exported metrics in OpenTelemetry and Prometheus.

In Python, metrics have Flink's names and use milliseconds. Exported metrics have lowercase names
with dots and use seconds and bytes. A Prometheus exporter appends the unit, and `_total` to a
counter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from connectors_core.metrics import (
    CommitterMetric,
    EnumeratorMetric,
    LookupMetric,
    SinkMetric,
    SourceMetric,
    SplitMetric,
)

__all__ = [
    "CUSTOM_COUNTER",
    "CUSTOM_GAUGE",
    "LOOKUP_METRICS",
    "SINK_METRICS",
    "SOURCE_METRICS",
    "SPLIT_METRICS",
    "ExportedMetric",
    "exported_metrics",
    "markdown",
]

_PROMETHEUS_UNITS: Final = {"s": "_seconds", "By": "_bytes"}


@dataclass(frozen=True)
class ExportedMetric:
    """An instrument.

    Attributes:
        name: Its name in OpenTelemetry.
        unit: Its unit in UCUM: `s`, `By`, or an annotation such as `{record}`.
        description: Its meaning, in one phrase.
        is_counter: Whether it is a counter, which only grows; all others are gauges.
        scale: Factor for the exported number, such as 0.001 for milliseconds.
    """

    name: str
    unit: str
    description: str
    is_counter: bool = True
    scale: float = 1

    @property
    def prometheus_name(self) -> str:
        """Its name in Prometheus."""
        unit = _PROMETHEUS_UNITS.get(self.unit, "")
        return self.name.replace(".", "_") + unit + ("_total" if self.is_counter else "")

    def value(self, number: float) -> float:
        """Convert a number to the exported unit."""
        return number if self.scale == 1 else number * self.scale


def _gauge(name: str, unit: str, description: str) -> ExportedMetric:
    return ExportedMetric(name, unit, description, is_counter=False)


def _seconds(name: str, description: str, *, is_counter: bool = False) -> ExportedMetric:
    return ExportedMetric(name, "s", description, is_counter, scale=0.001)


def _records(name: str, description: str) -> ExportedMetric:
    return ExportedMetric(name, "{record}", description)


def _committables(name: str, description: str) -> ExportedMetric:
    return ExportedMetric(f"connectors.sink.committables.{name}", "{committable}", description)


SOURCE_METRICS: Final[Mapping[str, ExportedMetric]] = {
    SourceMetric.NUM_RECORDS_IN: _records("connectors.source.records.read", "rows read"),
    SourceMetric.NUM_BYTES_IN: ExportedMetric("connectors.source.read", "By", "bytes read"),
    SourceMetric.NUM_RECORDS_IN_ERRORS: _records(
        "connectors.source.records.failed", "records that could not be read"
    ),
    SourceMetric.NUM_RECORDS_SKIPPED: _records(
        "connectors.source.records.skipped", "failed records that the record policy skipped"
    ),
    SourceMetric.NUM_DEAD_LETTERS: _records(
        "connectors.source.records.dead_lettered", "failed records that became dead letters"
    ),
    SourceMetric.UNREADABLE_SPLITS: ExportedMetric(
        "connectors.source.splits.unreadable", "{split}", "splits whose rest is skipped"
    ),
    SourceMetric.PENDING_RECORDS: _gauge(
        "connectors.source.records.pending", "{record}", "records not read yet"
    ),
    SourceMetric.PENDING_BYTES: _gauge("connectors.source.pending", "By", "bytes not read yet"),
    SourceMetric.CURRENT_FETCH_EVENT_TIME_LAG: _seconds(
        "connectors.source.fetch.lag", "fetch time minus event time of the last record"
    ),
    SourceMetric.CURRENT_EMIT_EVENT_TIME_LAG: _seconds(
        "connectors.source.emit.lag", "emit time minus event time of the newest record"
    ),
    SourceMetric.WATERMARK_LAG: _seconds(
        "connectors.source.watermark.lag", "now minus the watermark"
    ),
    SourceMetric.SOURCE_IDLE_TIME: _seconds(
        "connectors.source.idle.time", "time since the last micro-batch with a row"
    ),
    EnumeratorMetric.UNASSIGNED_SPLITS: _gauge(
        "connectors.source.splits.unassigned", "{split}", "splits that no reader has yet"
    ),
}
SPLIT_METRICS: Final[Mapping[str, ExportedMetric]] = {
    SplitMetric.SPLIT_RECORDS_IN: _records("connectors.split.records.read", "rows read of a split"),
    SplitMetric.CURRENT_WATERMARK: _seconds(
        "connectors.split.watermark.timestamp", "watermark of a split, since 1970"
    ),
}
SINK_METRICS: Final[Mapping[str, ExportedMetric]] = {
    SinkMetric.NUM_RECORDS_SEND: _records("connectors.sink.records.written", "rows written"),
    SinkMetric.NUM_BYTES_SEND: ExportedMetric("connectors.sink.written", "By", "bytes written"),
    SinkMetric.NUM_RECORDS_SEND_ERRORS: _records(
        "connectors.sink.records.failed", "rows that could not be written"
    ),
    SinkMetric.NUM_RECORDS_SKIPPED: _records(
        "connectors.sink.records.skipped", "failed rows that the record policy skipped"
    ),
    SinkMetric.NUM_DEAD_LETTERS: _records(
        "connectors.sink.records.dead_lettered", "failed rows that became dead letters"
    ),
    SinkMetric.CURRENT_SEND_TIME: _seconds(
        "connectors.sink.write.duration",
        "write time of the last micro-batch, including the read of its rows",
    ),
    SinkMetric.NUM_REQUESTS: ExportedMetric(
        "connectors.sink.requests", "{request}", "requests of an asynchronous sink"
    ),
    SinkMetric.NUM_RETRIES: ExportedMetric(
        "connectors.sink.entries.retried", "{entry}", "entries sent again"
    ),
    SinkMetric.NUM_EPOCHS_COMMITTED: ExportedMetric(
        "connectors.sink.epochs.committed", "{epoch}", "micro-batches committed"
    ),
    SinkMetric.HELD_COMMITTABLES: _gauge(
        "connectors.sink.committables.held",
        "{committable}",
        "committables that wait for a later epoch, such as for a compaction",
    ),
    SinkMetric.PENDING_COMPACTIONS: _gauge(
        "connectors.sink.compactions.pending",
        "{compaction}",
        "compactions without a decided result",
    ),
    SinkMetric.NUM_COMPACTIONS: ExportedMetric(
        "connectors.sink.compactions",
        "{compaction}",
        "combinations of held committables, such as compactions, that are decided",
    ),
    CommitterMetric.TOTAL_COMMITTABLES: _committables("received", "committables decided"),
    CommitterMetric.SUCCESSFUL_COMMITTABLES: _committables("succeeded", "committables committed"),
    CommitterMetric.ALREADY_COMMITTED_COMMITTABLES: _committables(
        "already_committed", "committables that an earlier attempt had committed"
    ),
    CommitterMetric.FAILED_COMMITTABLES: _committables("failed", "committables that failed"),
    CommitterMetric.RETRIED_COMMITTABLES: _committables("retried", "commits that were retried"),
    CommitterMetric.PENDING_COMMITTABLES: _gauge(
        "connectors.sink.committables.pending",
        "{committable}",
        "committables neither committed nor failed",
    ),
    CommitterMetric.LOST_COMMITTABLES: _committables(
        "lost", "committables lost after the decision; their rows are rewritten"
    ),
    CommitterMetric.COMMIT_TASKS: ExportedMetric(
        "connectors.sink.commit.tasks", "{task}", "Spark tasks that committed large epochs"
    ),
}
LOOKUP_METRICS: Final[Mapping[str, ExportedMetric]] = {
    LookupMetric.HIT_COUNT: ExportedMetric(
        "connectors.lookup.cache.hits", "{key}", "keys found in the cache"
    ),
    LookupMetric.MISS_COUNT: ExportedMetric(
        "connectors.lookup.cache.misses", "{key}", "keys missing in the cache"
    ),
    LookupMetric.LOAD_COUNT: ExportedMetric(
        "connectors.lookup.loads", "{load}", "requests answered, or reloads of a full cache"
    ),
    LookupMetric.NUM_LOAD_FAILURE: ExportedMetric(
        "connectors.lookup.load.failures", "{load}", "requests or reloads that failed"
    ),
    LookupMetric.LATEST_LOAD_TIME: _seconds(
        "connectors.lookup.load.duration", "duration of the last request or reload"
    ),
    LookupMetric.LOAD_TIME: _seconds(
        "connectors.lookup.load.time", "duration of all requests or reloads", is_counter=True
    ),
    LookupMetric.NUM_LOOKUP_KEYS: ExportedMetric(
        "connectors.lookup.keys", "{key}", "distinct keys of batches of rows"
    ),
    LookupMetric.NUM_CACHED_RECORD: _gauge(
        "connectors.lookup.cache.records", "{record}", "rows in the cache"
    ),
    LookupMetric.NUM_CACHED_BYTES: _gauge(
        "connectors.lookup.cache.size", "By", "bytes of the columns in the cache"
    ),
}
# Metrics of a single connector; the attribute `name` is the metric's name in Python.
CUSTOM_COUNTER: Final = ExportedMetric(
    "connectors.custom.counter", "", "a counter of a connector, by its attribute `name`"
)
CUSTOM_GAUGE: Final = _gauge(
    "connectors.custom.gauge", "", "a gauge of a connector, by its attribute `name`"
)
_GROUPS: Final = (SOURCE_METRICS, SPLIT_METRICS, SINK_METRICS, LOOKUP_METRICS)


def exported_metrics() -> Iterator[ExportedMetric]:
    """Yield all instruments."""
    for group in _GROUPS:
        yield from group.values()
    yield from (CUSTOM_COUNTER, CUSTOM_GAUGE)


def markdown() -> str:
    """Return the table of all metrics for the documentation."""
    named = [(f"`{name}`", each) for group in _GROUPS for name, each in group.items()]
    named += [("any other", CUSTOM_COUNTER), ("any other", CUSTOM_GAUGE)]
    rows = [
        f"| `{each.prometheus_name}` | `{each.name}` | {each.unit or '-'} | {name} "
        f"| {each.description} |"
        for name, each in named
    ]
    head = "| Prometheus | OpenTelemetry | Unit | In Python | Meaning |"
    return "\n".join([head, "| --- | --- | --- | --- | --- |", *rows, ""])
