# SPDX-License-Identifier: Apache-2.0
"""How transactions and receipts of a sink are called, so that any driver finds them again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["SinkTransactions", "TransactionalId"]

_ID: Final = re.compile(
    r"(?P<prefix>.+)-(?P<pipeline>[0-9a-f]{32})-(?P<sink>.+)-(?P<subtask>\d+)-(?P<slot>\d+)"
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
        slot: Which of the writer's ids.
    """

    name: str
    prefix: str
    pipeline_id: str
    sink_uid: str
    subtask_id: int
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
            slot=int(found["slot"]),
        )


@dataclass(frozen=True, kw_only=True)
class SinkTransactions:
    """The names that one sink of one pipeline uses: `<prefix>-<pipeline>-<sink>-<subtask>-<slot>`.

    A bounded pool after Flink's FLIP-511: an id is used again and again, so that brokers keep a
    few ids per writer instead of one for every epoch.

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

    def transactional_id(self, subtask_id: int, slot: int) -> str:
        """The id with this number of a writer."""
        return f"{self.stem}{subtask_id}-{slot}"

    def receipt_group(self, subtask_id: int) -> str:
        """The consumer group whose offset is the receipt of a writer."""
        return f"{self.stem}{subtask_id}"

    def include(self, transactional_id: str) -> bool:
        """Whether an id is one of this sink."""
        parsed = TransactionalId.parse(transactional_id)
        return parsed is not None and parsed.writer == self.receipt_group(parsed.subtask_id)
