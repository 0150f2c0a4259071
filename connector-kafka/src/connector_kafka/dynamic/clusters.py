# SPDX-License-Identifier: Apache-2.0
"""The clusters that an enumerator reads, each with an enumerator of its own. Driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import TypeVar

from connector_kafka.dynamic.metrics import ClusterMetrics
from connector_kafka.dynamic.split import DynamicKafkaSplit
from connector_kafka.source.enumerator import KafkaEnumerator
from connector_kafka.source.split import KafkaPartitionSplit
from connectors_core.metrics import MetricGroup
from connectors_core.source import (
    ReadLimits,
    SourceEvent,
    SplitEnumeratorContext,
)

__all__ = ["ClusterContext", "KnownCluster"]

T = TypeVar("T")


@dataclass(eq=False, repr=False)
class ClusterContext(SplitEnumeratorContext[KafkaPartitionSplit]):
    """The context of the enumerator of one cluster.

    Args:
        context: The coordinator.
        cluster: The ID of the cluster.
        properties: The properties that the metadata has of it.
        metrics: Its metrics.
        on_complete: Called when a reader gets no more splits of the cluster.
    """

    context: SplitEnumeratorContext[DynamicKafkaSplit]
    _: KW_ONLY
    cluster: str
    properties: Mapping[str, str]
    metrics: ClusterMetrics
    on_complete: Callable[[], None]
    complete: set[int] = field(default_factory=set, init=False)
    is_over: bool = field(default=False, init=False)

    def wrapped(self, split: KafkaPartitionSplit) -> DynamicKafkaSplit:
        """Return the split with its cluster."""
        return DynamicKafkaSplit.of(self.cluster, self.properties, split)

    @property
    def current_parallelism(self) -> int:
        """See `SplitEnumeratorContext`."""
        return self.context.current_parallelism

    @property
    def registered_readers(self) -> frozenset[int]:
        """See `SplitEnumeratorContext`."""
        return self.context.registered_readers

    @property
    def event_time_order(self) -> bool:
        """See `SplitEnumeratorContext`."""
        return self.context.event_time_order

    @property
    def metric_group(self) -> MetricGroup:
        """See `SplitEnumeratorContext`."""
        return self.metrics

    def assign_splits(self, assignment: Mapping[int, Sequence[KafkaPartitionSplit]]) -> None:
        """See `SplitEnumeratorContext`."""
        self.context.assign_splits(
            {reader: [*map(self.wrapped, splits)] for reader, splits in assignment.items()}
        )

    def split_found(self, split: KafkaPartitionSplit) -> int | None:
        """See `SplitEnumeratorContext`."""
        return self.context.split_found(self.wrapped(split))

    def signal_no_more_splits(self, subtask_id: int) -> None:
        """The source ends when no cluster has more splits."""
        self.complete.add(subtask_id)
        self.on_complete()

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        """See `SplitEnumeratorContext`."""
        raise NotImplementedError("the readers of a cluster receive no events")

    def set_reader_limit(self, subtask_id: int, limits: ReadLimits | None) -> None:
        """See `SplitEnumeratorContext`."""
        self.context.set_reader_limit(subtask_id, limits)

    def call_async(
        self,
        call: Callable[[], T],
        handler: Callable[[T | None, BaseException | None], None],
        *,
        initial_delay: timedelta = timedelta(0),
        period: timedelta | None = None,
    ) -> None:
        """See `SplitEnumeratorContext`. Periodic calls end with the enumerator of the cluster."""

        def handle(result: T | None, error: BaseException | None) -> None:
            if self.is_over:
                return
            handler(result, error)
            if period is not None:
                self.call_async(call, handler, initial_delay=period, period=period)

        self.context.call_async(call, handle, initial_delay=initial_delay)

    def run_in_coordinator_thread(self, action: Callable[[], None]) -> None:
        """See `SplitEnumeratorContext`."""
        self.context.run_in_coordinator_thread(action)


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
