# SPDX-License-Identifier: Apache-2.0
"""The names of a sink's transactions and receipts, which any driver can find again."""

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
    """The parts of a transactional ID of one of our sinks.

    Attributes:
        name: The whole ID.
        prefix: The sink's option.
        pipeline_id: The ID of the pipeline.
        sink_uid: The UID of the sink in the pipeline.
        subtask_id: The writer.
        incarnation: The driver that leased it, or 0 for an ID of a release before 3.0.
        slot: The number of the ID among the writer's IDs.
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
        """The prefix of all of the writer's IDs, and its receipt group."""
        return self.name.rpartition("-")[0]

    @classmethod
    def parse(cls, name: str) -> TransactionalId | None:
        """Parse an ID, or return None if none of our sinks created it."""
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

    An ID is `<prefix>-<pipeline>-<sink>-<subtask>-<incarnation>.<slot>`. As in Flink's FLIP-511,
    the pool is bounded: IDs are reused, so that brokers keep a few IDs per writer and driver
    instead of one per epoch. Drivers share no IDs. Initializing an ID aborts its open transaction,
    and a driver that was presumed dead can do so after another has taken over.

    Attributes:
        prefix: The prefix of all IDs, for access rules of the cluster.
        pipeline_id: The ID of the pipeline.
        sink_uid: The UID of the sink in the pipeline.
    """

    prefix: str
    pipeline_id: str
    sink_uid: str

    @property
    def stem(self) -> str:
        """The prefix of all names of this sink."""
        return f"{self.prefix}-{self.pipeline_id}-{self.sink_uid}-"

    def transactional_id(self, subtask_id: int, incarnation: int, slot: int) -> str:
        """Return the ID with this number, of a writer and a driver."""
        return f"{self.stem}{subtask_id}-{incarnation}.{slot}"

    def receipt_group(self, subtask_id: int) -> str:
        """Return the consumer group whose offset is the receipt of a writer."""
        return f"{self.stem}{subtask_id}"

    def own(self, transactional_id: str) -> TransactionalId | None:
        """Parse an ID of this sink, also with a former prefix, or return None for another sink."""
        parsed = TransactionalId.parse(transactional_id)
        if parsed is None:
            return None
        ours = f"-{self.pipeline_id}-{self.sink_uid}-{parsed.subtask_id}"
        return parsed if parsed.writer.endswith(ours) else None
