# SPDX-License-Identifier: Apache-2.0
"""How transactions and receipts of a sink are called, so that any driver finds them again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["SinkTransactions", "TransactionalId"]

_ID: Final = re.compile(
    r"(?P<prefix>.+)-(?P<pipeline>[0-9a-f]{32})-(?P<sink>.+)-(?P<subtask>\d+)"
    r"-(?:(?P<incarnation>\d+)\.)?(?P<slot>\d+)"
)


@dataclass(frozen=True, kw_only=True)
class TransactionalId:
    """A transactional id of one of our sinks, taken apart.

    Attributes:
        name: The whole id.
        prefix: What the sink's option says.
        pipeline_id: The pipeline.
        sink_uid: The sink within the pipeline.
        subtask_id: The writer.
        incarnation: The driver that leased it; 0 for an id of a release before 3.0.
        slot: Which of the writer's ids.
    """

    name: str
    prefix: str
    pipeline_id: str
    sink_uid: str
    subtask_id: int
    incarnation: int
    slot: int

    @property
    def writer(self) -> str:
        """What all ids of the writer begin with, and its receipt group."""
        return self.name.rpartition("-")[0]

    @classmethod
    def parse(cls, name: str) -> TransactionalId | None:
        """Take an id apart; None for one that no sink of ours made."""
        found = _ID.fullmatch(name)
        if found is None:
            return None
        return cls(
            name=name,
            prefix=found["prefix"],
            pipeline_id=found["pipeline"],
            sink_uid=found["sink"],
            subtask_id=int(found["subtask"]),
            incarnation=int(found["incarnation"] or 0),
            slot=int(found["slot"]),
        )


@dataclass(frozen=True, kw_only=True)
class SinkTransactions:
    """The names that one sink of one pipeline uses.

    An id is `<prefix>-<pipeline>-<sink>-<subtask>-<incarnation>.<slot>`. A bounded pool after
    Flink's FLIP-511: an id is used again and again, so that brokers keep a few ids per writer and
    driver instead of one for every epoch. Drivers share none: to initialise an id aborts what is
    open under it, and a driver that was taken for dead may do so after another has taken over.

    Attributes:
        prefix: What all ids begin with, for access rules of the cluster.
        pipeline_id: The pipeline.
        sink_uid: The sink within the pipeline.
    """

    prefix: str
    pipeline_id: str
    sink_uid: str

    @property
    def stem(self) -> str:
        """What all names of this sink begin with."""
        return f"{self.prefix}-{self.pipeline_id}-{self.sink_uid}-"

    def transactional_id(self, subtask_id: int, incarnation: int, slot: int) -> str:
        """The id with this number of a writer of a driver."""
        return f"{self.stem}{subtask_id}-{incarnation}.{slot}"

    def receipt_group(self, subtask_id: int) -> str:
        """The consumer group whose offset is the receipt of a writer."""
        return f"{self.stem}{subtask_id}"

    def own(self, transactional_id: str) -> TransactionalId | None:
        """Take an id of this sink apart; None for one of another sink."""
        parsed = TransactionalId.parse(transactional_id)
        if parsed is None or parsed.writer != self.receipt_group(parsed.subtask_id):
            return None
        return parsed
