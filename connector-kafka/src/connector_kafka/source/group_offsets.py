# SPDX-License-Identifier: Apache-2.0
"""Shows positions to others: the offsets of a consumer group, and gauges. Driver."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final

from connector_kafka.client.metadata import Cluster, TopicPartition
from connector_kafka.source.split import KafkaPartitionSplit
from connectors_core.errors import ConnectorError
from connectors_core.metrics import MetricGroup, SourceMetric
from connectors_core.source import SplitEnumeratorContext

__all__ = ["GroupOffsets", "set_lags"]

_logger = logging.getLogger(__name__)

_LAST_COMMIT_SECONDS: Final = 5.0


class GroupOffsets:
    """The offsets of one group.

    Commits run one after another, and a failure does not affect the pipeline.

    Args:
        context: The coordinator.
        cluster: The client of the cluster.
        group: The group.
    """

    def __init__(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit], cluster: Cluster, group: str
    ) -> None:
        self._context = context
        self._cluster = cluster
        self._group = group
        self._uncommitted: dict[TopicPartition, int] = {}
        self._committing = False
        self._in_order = threading.Lock()
        self._closed = False

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets after the pending commit."""
        self._uncommitted |= offsets
        self._commit()

    def close(self) -> None:
        """Commit the last offsets. Pending calls are dropped."""
        # A pending commit has older offsets, so it must not complete last.
        ended = self._in_order.acquire(timeout=_LAST_COMMIT_SECONDS)
        self._closed = True
        try:
            if self._uncommitted and ended:
                self._cluster.commit(self._group, self._uncommitted, timeout=_LAST_COMMIT_SECONDS)
        except ConnectorError as error:
            self._not_committed(error)
        finally:
            if ended:
                self._in_order.release()

    def _commit(self) -> None:
        offsets = dict(self._uncommitted)
        if self._committing or not offsets:
            return
        self._committing = True

        def done(_: None, error: BaseException | None) -> None:
            self._committing = False
            for partition, offset in offsets.items():
                if self._uncommitted[partition] == offset:
                    del self._uncommitted[partition]
            metrics = self._context.metric_group
            if error is None:
                metrics.inc("commitsSucceeded")
                for partition, offset in offsets.items():
                    metrics.set(_gauge_of(partition, "committedOffset"), offset)
            else:
                metrics.inc("commitsFailed")
                self._not_committed(error)
            self._commit()

        def commit() -> None:
            with self._in_order:
                if not self._closed:
                    self._cluster.commit(self._group, offsets)

        self._context.call_async(commit, done)

    def _not_committed(self, error: BaseException) -> None:
        _logger.warning(
            "the offsets of group %r were not committed; the pipeline's own positions are not "
            "affected",
            self._group,
            exc_info=error,
        )


def set_lags(
    metrics: MetricGroup,
    ends: Mapping[TopicPartition, int],
    positions: Mapping[TopicPartition, int],
) -> None:
    """Set the gauges of the positions of partitions, and of the offsets after them.

    Args:
        metrics: The metrics of the enumerator.
        ends: The end offsets.
        positions: The next offsets to read. Partitions without one have no gauges yet.
    """
    lags = {each: max(0, end - positions[each]) for each, end in ends.items() if each in positions}
    for partition, lag in lags.items():
        metrics.set(_gauge_of(partition, "currentOffset"), positions[partition])
        metrics.set(_gauge_of(partition, "recordsLag"), lag)
    metrics.set(SourceMetric.PENDING_RECORDS, sum(lags.values()))


def _gauge_of(partition: TopicPartition, name: str) -> str:
    """Return the name of a partition's gauge, as in Flink's reader."""
    return f"topic.{partition.topic}.partition.{partition.partition}.{name}"
