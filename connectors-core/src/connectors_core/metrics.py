# SPDX-License-Identifier: Apache-2.0
"""Metric names after Flink's FLIP-33, and the group that connectors record them in."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class MetricGroup:
    """Counters and gauges of one source, reader, writer or committer.

    Plain numbers: a reader's travel in its report, a writer's in its summary, and the driver hands
    them to OpenTelemetry. Counters of a report are added up, gauges replaced.
    """

    counters: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)

    def inc(self, name: str, value: int = 1) -> None:
        """Add to a counter."""
        self.counters[name] = self.counters.get(name, 0) + value

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""
        self.gauges[name] = value
