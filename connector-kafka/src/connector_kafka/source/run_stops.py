# SPDX-License-Identifier: Apache-2.0
"""Where a run up to the available records ends. Driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connector_kafka.client.metadata import TopicPartition

__all__ = ["RunStops"]


@dataclass(eq=False, repr=False)
class RunStops:
    """The last offsets of a run, which are the ends of the logs at its start.

    Attributes:
        offsets: By partition, the first offset that belongs to a later run.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict, init=False)
    _known: bool = field(default=False, init=False)
    _moved: dict[TopicPartition, int] = field(default_factory=dict, init=False)

    def __bool__(self) -> bool:
        """Whether the run ends, and its end is known."""
        return self._known

    def freeze(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Take over the end."""
        self.offsets, self._known = offsets, True

    def drop(self, partition: TopicPartition) -> None:
        """Let the run end at the position of a partition that was deleted."""
        self.offsets = {of: stop for of, stop in self.offsets.items() if of != partition}

    def move(
        self, partition: TopicPartition, resume_at: int, ends: Mapping[TopicPartition, int]
    ) -> None:
        """End in a log that is shorter now, or after the records that the run omits.

        Args:
            partition: A partition whose log was cut or recreated.
            resume_at: The offset at which reading continues.
            ends: The ends of logs. That of the partition can still be that of its former log.
        """
        stop = self.offsets.get(partition)
        if stop is not None:
            self._moved[partition] = resume_at
            stop = max(resume_at, min(stop, ends.get(partition, stop)))
            self.offsets = {**self.offsets, partition: stop}

    def take_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take over the current ends of logs that were cut or recreated."""
        for each in self._moved.keys() & ends.keys():
            self.move(each, self._moved[each], ends)
