# SPDX-License-Identifier: Apache-2.0
"""What stands in a decision for the transaction that a writer prepared."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["KafkaCommittable"]


@dataclass(frozen=True, kw_only=True)
class KafkaCommittable:
    """A complete transaction that waits for its end; enough to end it from any process.

    Attributes:
        transactional_id: Its id.
        producer_id: Id of the producer that wrote it.
        producer_epoch: Epoch of that producer; it is never used for a second transaction.
        subtask_id: The writer.
        checkpoint_id: The epoch.
        receipts_topic: The topic that its receipt refers to.
        prepared_at: When it was complete, by the clock of the executor. A receipt as old as the
            broker keeps offsets may be gone.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    subtask_id: int
    checkpoint_id: int
    receipts_topic: str
    prepared_at: datetime
