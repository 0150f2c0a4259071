# SPDX-License-Identifier: Apache-2.0
"""The part of a decision for the transaction that a writer prepared."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["KafkaCommittable"]


@dataclass(frozen=True, kw_only=True)
class KafkaCommittable:
    """A prepared transaction, with all that is needed to end it from any process.

    Attributes:
        transactional_id: The transactional ID.
        producer_id: The ID of the producer that wrote it.
        producer_epoch: The epoch of the producer, which never writes a second transaction.
        subtask_id: The writer.
        checkpoint_id: The epoch.
        receipts_topic: The topic that its receipt refers to.
        prepared_at: The time of its completion, by the clock of the executor. A receipt older than
            the broker's retention of offsets may no longer exist.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    subtask_id: int
    checkpoint_id: int
    receipts_topic: str
    prepared_at: datetime
