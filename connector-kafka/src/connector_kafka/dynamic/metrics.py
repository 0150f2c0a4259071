# SPDX-License-Identifier: Apache-2.0
"""The metrics of the clusters of one source."""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors_core.metrics import MetricGroup

__all__ = ["ClusterMetrics"]


@dataclass
class ClusterMetrics(MetricGroup):
    """The metrics of one cluster, which also count for the source.

    As in Flink, the metrics of a cluster are in a group of their own: `kafkaCluster.<ID>.<name>`.
    A gauge without a topic in its name is a sum in the source.

    Args:
        source: The metrics of the source.
        cluster: The ID of the cluster.
        siblings: The metrics of all clusters of the source by ID, including these.
    """

    source: MetricGroup = field(default_factory=MetricGroup)
    cluster: str = ""
    siblings: dict[str, ClusterMetrics] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.siblings[self.cluster] = self

    def inc(self, name: str, value: int = 1) -> None:
        """Add to a counter of the cluster and of the source."""
        super().inc(name, value)
        self.source.inc(str(name), value)
        self.source.inc(self._own(name), value)

    def set(self, name: str, value: float) -> None:
        """Set a gauge of the cluster, and the sum of all clusters."""
        super().set(name, value)
        self.source.set(self._own(name), value)
        if not str(name).startswith("topic."):
            known = [each.gauges.get(str(name), 0) for each in list(self.siblings.values())]
            self.source.set(str(name), sum(known))

    def clear(self) -> None:
        """Set the gauges to 0, because the cluster is no longer read."""
        for name in list(self.gauges):
            self.set(name, 0)

    def _own(self, name: str) -> str:
        return f"kafkaCluster.{self.cluster}.{name}"
