# SPDX-License-Identifier: Apache-2.0
"""Reads the partitions of a task with one reader for each cluster. Executor."""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from connector_kafka.dynamic.metrics import ClusterMetrics
from connector_kafka.dynamic.split import ClusterEvent, DynamicKafkaSplit
from connector_kafka.source.reader import KafkaSourceReader
from connectors_core.metrics import MetricGroup
from connectors_core.source import (
    InputStatus,
    MemberReaderContext,
    ReaderOutput,
    SourceEvent,
    SourceOutput,
    SourceReader,
    SourceReaderContext,
)

__all__ = ["DynamicKafkaSourceReader", "ReaderFactory"]

# While a task reads several clusters, it waits this long for one before it looks at the next.
_TURN_SECONDS: Final = 0.005

ReaderFactory = Callable[[SourceReaderContext, str, Mapping[str, str]], KafkaSourceReader]
"""Creates the reader of a cluster from its ID and its properties in the metadata."""


@dataclass(eq=False, repr=False)
class _ClusterContext(MemberReaderContext):
    """The context of the reader of one cluster."""

    cluster: str
    properties: Mapping[str, str]
    metrics: ClusterMetrics

    @property
    def metric_group(self) -> MetricGroup:
        return self.metrics

    def wrapped(self, event: SourceEvent) -> ClusterEvent:
        return ClusterEvent.of(self.cluster, self.properties, event)


@dataclass(eq=False, repr=False)
class _Cluster:
    """The reader of one cluster, and the IDs of its splits."""

    reader: KafkaSourceReader
    cluster: str
    properties: Mapping[str, str]
    _: KW_ONLY
    ids: dict[str, str] = field(default_factory=dict)
    """The IDs of splits by those of their partitions."""
    is_done: bool = False

    def add(self, splits: Sequence[DynamicKafkaSplit]) -> None:
        self.is_done = False
        self.ids |= {each.split.split_id: each.split_id for each in splits}
        self.reader.add_splits([each.split for each in splits])

    def own_ids(self, split_ids: Sequence[str]) -> list[str]:
        return [own for own, split_id in self.ids.items() if split_id in split_ids]

    def splits(self) -> list[DynamicKafkaSplit]:
        return [
            DynamicKafkaSplit.of(self.cluster, self.properties, each)
            for each in self.reader.snapshot_state()
        ]

    def moved_splits(self) -> dict[str, DynamicKafkaSplit | None]:
        moved = self.reader.moved_splits() or {}
        return {
            self.ids[own]: None
            if each is None
            else DynamicKafkaSplit.of(self.cluster, self.properties, each)
            for own, each in moved.items()
        }


@dataclass(eq=False, repr=False)
class _ClusterOutput:
    """Output for the rows of the splits of one cluster."""

    cluster: _Cluster
    output: ReaderOutput

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        return self.output.create_output_for_split(self.cluster.ids[split_id])


class DynamicKafkaSourceReader(SourceReader[DynamicKafkaSplit]):
    """Polls the readers of its clusters in turn.

    Args:
        context: The context of the reader.
        create: Creates the reader of a cluster.
    """

    def __init__(self, context: SourceReaderContext, create: ReaderFactory) -> None:
        self._context = context
        self._create = create
        self._metrics: dict[str, ClusterMetrics] = {}
        self._clusters: dict[str, _Cluster] = {}
        self._turn: list[_Cluster] = []
        self._no_more_splits = False

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit at most one batch of the next cluster that has one."""
        for cluster in list(self._turn):
            status = cluster.reader.poll_next(_ClusterOutput(cluster, output))
            cluster.is_done = status is InputStatus.END_OF_INPUT
            if status is InputStatus.MORE_AVAILABLE:
                self._turn.remove(cluster)
                self._turn.append(cluster)
                return status
        return InputStatus.END_OF_INPUT if self._has_ended else InputStatus.NOTHING_AVAILABLE

    def snapshot_state(self) -> list[DynamicKafkaSplit]:
        """Return the unfinished splits of all clusters."""
        return [split for cluster in self._turn for split in cluster.splits()]

    def moved_splits(self) -> Mapping[str, DynamicKafkaSplit | None] | None:
        """Return the splits of all clusters that moved."""
        moved = [each.moved_splits() for each in self._turn]
        return dict(ChainMap(*moved))

    def wait_available(self, timeout: float) -> bool:
        """Wait for each unfinished cluster in turn."""
        if self._has_ended:
            return True
        deadline = time.monotonic() + timeout
        waiting = [each.reader for each in self._turn if not each.is_done]
        turn = timeout if len(waiting) < 2 else min(timeout, _TURN_SECONDS)
        if not waiting:
            time.sleep(timeout)
        while waiting and time.monotonic() < deadline:
            if any(reader.wait_available(turn) for reader in waiting):
                return True
        return False

    def has_fetched(self) -> bool:
        """Ask the readers of all clusters."""
        return all(each.reader.has_fetched() for each in self._turn)

    def add_splits(self, splits: Sequence[DynamicKafkaSplit]) -> None:
        """Give the splits to the readers of their clusters, which are created when needed."""
        by_cluster: dict[str, list[DynamicKafkaSplit]] = {}
        for each in splits:
            by_cluster.setdefault(each.cluster, []).append(each)
        for name, own in by_cluster.items():
            if name not in self._clusters:
                self._open(name, own[0].properties)
            self._clusters[name].add(own)

    def _open(self, name: str, properties: Mapping[str, str]) -> None:
        metrics = ClusterMetrics(
            source=self._context.metric_group, cluster=name, siblings=self._metrics
        )
        context = _ClusterContext(self._context, name, properties, metrics)
        reader = self._create(context, name, properties)
        reader.start()
        if self._no_more_splits:
            reader.notify_no_more_splits()
        self._clusters[name] = _Cluster(reader, name, properties)
        self._turn.append(self._clusters[name])

    def notify_no_more_splits(self) -> None:
        """See `SourceReader`."""
        self._no_more_splits = True
        for each in self._turn:
            each.reader.notify_no_more_splits()

    def pause_or_resume_splits(
        self, splits_to_pause: Sequence[str], splits_to_resume: Sequence[str]
    ) -> None:
        """See `SourceReader`."""
        for each in self._turn:
            each.reader.pause_or_resume_splits(
                each.own_ids(splits_to_pause), each.own_ids(splits_to_resume)
            )

    def close(self) -> None:
        """Close the readers of all clusters."""
        with ExitStack() as stack:
            for each in self._turn:
                stack.callback(each.reader.close)

    @property
    def _has_ended(self) -> bool:
        return self._no_more_splits and all(each.is_done for each in self._turn)
