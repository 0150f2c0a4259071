# SPDX-License-Identifier: Apache-2.0
"""The clusters that an enumerator reads, each with an enumerator of its own. Driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from connector_kafka.dynamic.metrics import ClusterMetrics
from connector_kafka.dynamic.split import DynamicKafkaSplit
from connector_kafka.source.enumerator import KafkaEnumerator
from connector_kafka.source.split import KafkaPartitionSplit
from connectors_core.metrics import MetricGroup
from connectors_core.source import MemberEnumeratorContext, SourceEvent

__all__ = ["ClusterContext", "KnownCluster"]


@dataclass(eq=False, repr=False)
class ClusterContext(MemberEnumeratorContext[KafkaPartitionSplit, DynamicKafkaSplit]):
    """The context of the enumerator of one cluster.

    Args:
        context: The coordinator.
        cluster: The ID of the cluster.
        properties: The properties that the metadata has of it.
        metrics: Its metrics.
        on_complete: Called when a reader gets no more splits of the cluster.
    """

    _: KW_ONLY
    cluster: str
    properties: Mapping[str, str]
    metrics: ClusterMetrics
    on_complete: Callable[[], None]
    complete: set[int] = field(default_factory=set, init=False)

    def wrapped(self, split: KafkaPartitionSplit) -> DynamicKafkaSplit:
        """Return the split with its cluster."""
        return DynamicKafkaSplit.of(self.cluster, self.properties, split)

    @property
    def metric_group(self) -> MetricGroup:
        """The metrics of the cluster."""
        return self.metrics

    def signal_no_more_splits(self, subtask_id: int) -> None:
        """The source ends when no cluster has more splits."""
        self.complete.add(subtask_id)
        self.on_complete()

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        """See `SplitEnumeratorContext`."""
        raise NotImplementedError("the readers of a cluster receive no events")


@dataclass(eq=False, repr=False, kw_only=True)
class KnownCluster:
    """A cluster that is read, or whose removed topics are still read to their end.

    Attributes:
        topics: Its topics in the metadata.
        is_later: Whether it was found later than the first ones.
        context: The context of its enumerator.
        enumerator: Its enumerator.
        is_running: Whether the enumerator was started.
    """

    topics: frozenset[str]
    is_later: bool
    context: ClusterContext
    enumerator: KafkaEnumerator
    is_running: bool = field(default=False, init=False)

    def start(self) -> None:
        """Start the enumerator."""
        self.is_running = True
        self.enumerator.start()

    def retire(self) -> None:
        """Close the enumerator, whose pending calls are dropped, and clear its gauges."""
        self.context.is_over = True
        self.context.metrics.clear()
        self.context.metrics.siblings.pop(self.context.cluster, None)
        self.enumerator.close()
