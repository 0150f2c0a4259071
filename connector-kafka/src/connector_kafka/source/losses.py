# SPDX-License-Identifier: Apache-2.0
"""Decides about lost records, as `on-data-loss` says. Driver."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from connector_kafka.client.metadata import TopicPartition
from connector_kafka.source.split import KafkaPartitionSplit
from connectors_core.errors import DataLossError
from connectors_core.source import SplitEnumeratorContext

__all__ = ["Losses"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Losses:
    """Raises or counts losses.

    Args:
        context: The coordinator.
        on_data_loss: `fail`, `earliest`, or `latest`.
    """

    context: SplitEnumeratorContext[KafkaPartitionSplit]
    on_data_loss: str
    _recreated: dict[TopicPartition, str] = field(default_factory=dict, init=False)

    def report(self, partition: TopicPartition, reason: str, position: int) -> None:
        """Raise or count the loss of all records after a position."""
        loss = DataLossError(
            f"records of {partition} are lost: {reason}",
            expected="the partition that was read before",
            option="on-data-loss",
            hint="set on-data-loss to earliest or latest to continue without them, or start "
            "with a new pipeline",
        )
        self.tolerate(partition, loss, position)

    def report_recreated(self, partition: TopicPartition, topic_id: str, position: int) -> None:
        """Raise or count the loss of a recreated topic, once for each of its IDs."""
        if self._recreated.get(partition) != topic_id:
            self.report(partition, "the topic was deleted and recreated", position)
            self._recreated[partition] = topic_id

    def tolerate(self, partition: TopicPartition, loss: DataLossError, position: int) -> None:
        """Raise a loss, or count it if reading continues."""
        if self.on_data_loss == "fail":
            raise loss
        self.count(partition, position, position)

    def count(self, partition: TopicPartition, start: int, stop: int) -> None:
        """Count and log lost offsets."""
        self.context.metric_group.inc("dataLosses")
        self.context.metric_group.inc("offsetsLost", stop - start)
        _logger.error(
            "records of %s are lost (offsets %d to %d); reading continues", partition, start, stop
        )
