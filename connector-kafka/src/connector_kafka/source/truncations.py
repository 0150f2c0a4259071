# SPDX-License-Identifier: Apache-2.0
"""Checks that the records before a position are still those that were read (KIP-320). Driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from connector_kafka.client.fetcher import log_was_cut
from connector_kafka.client.metadata import (
    EARLIEST,
    LATEST,
    Cluster,
    LogOffset,
    TopicPartition,
)
from connector_kafka.client.retries import retry_log
from connector_kafka.source.discovery import EnumerationSettings
from connector_kafka.source.losses import Losses
from connector_kafka.source.split import KafkaPartitionSplit
from connectors_core.errors import RetryableError
from connectors_core.source import SplitEnumeratorContext

__all__ = ["GONE_SECONDS", "Cut", "Truncations"]

# A broker that has just started may not know an existing topic.
GONE_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A cut of a log before the position that was read.

    Attributes:
        number: How often this has happened. A split that has seen fewer cuts resumes later.
        resume_at: The offset at which reading continues.
    """

    number: int
    resume_at: int


@dataclass(frozen=True, kw_only=True)
class _Checked:
    """The result of a check.

    Attributes:
        split: The split at the position.
        leader_epoch: The epoch of the leader whose log was compared.
        cut_at: The offset at which the log was cut before the position, -1 if the broker does not
            know it, or None if the log was not cut.
        resume_at: The offset at which to continue after a cut.
        recreated: Whether it is the log of another topic.
    """

    split: KafkaPartitionSplit
    leader_epoch: int
    cut_at: int | None
    resume_at: int
    recreated: bool


@dataclass(eq=False, repr=False)
class Truncations:
    """Compares positions with logs when their leaders change.

    An unclean leader election cuts the end of a log. The end alone does not show it if the log has
    grown again. The epochs of its leaders do.

    Args:
        context: The coordinator.
        settings: The settings of the source.
        cluster: The client of the cluster.
        losses: The losses to report.
        on_cut: Receives the partition of a cut, and the offset at which reading continues.

    Attributes:
        leader_epochs: The epochs of the leaders that returned the last ends.
        splits: The last known split of each partition.
        cut_off: The last cut of each partition.
        recreated: The partitions whose topics must be discovered again.
    """

    context: SplitEnumeratorContext[KafkaPartitionSplit]
    settings: EnumerationSettings
    cluster: Cluster
    losses: Losses
    on_cut: Callable[[TopicPartition, int], None]
    leader_epochs: dict[TopicPartition, int] = field(default_factory=dict, init=False)
    splits: dict[TopicPartition, KafkaPartitionSplit] = field(default_factory=dict, init=False)
    cut_off: dict[TopicPartition, Cut] = field(default_factory=dict, init=False)
    recreated: set[TopicPartition] = field(default_factory=set, init=False)
    _ends: dict[TopicPartition, int] = field(default_factory=dict, init=False)
    _checked: dict[TopicPartition, int] = field(default_factory=dict, init=False)
    _short_since: dict[TopicPartition, float] = field(default_factory=dict, init=False)
    _checking: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._log = retry_log("checking positions in", self.settings.config)

    def take_ends(self, ends: Mapping[TopicPartition, LogOffset]) -> None:
        """Take over the current ends of partitions, with the epochs of their leaders."""
        for each, end in ends.items():
            self._ends[each], self.leader_epochs[each] = end

    def note_positions(self, splits: Iterable[KafkaPartitionSplit]) -> None:
        """Take over the current splits."""
        self.splits |= {each.topic_partition: each for each in splits}

    def note_short(self, ends: Mapping[TopicPartition, LogOffset], now: float) -> None:
        """Report the lost end of a partition that still ends before the position that was read."""
        for partition, (end, _) in ends.items():
            split = self.splits.get(partition)
            if split is None or end >= split.offset:
                self._short_since.pop(partition, None)
            elif now - self._short_since.setdefault(partition, now) >= GONE_SECONDS:
                del self._short_since[partition]
                if self.knows(split):
                    self._checked.pop(partition, None)  # check it again
                    continue
                reason = f"it ends at offset {end} and was read to offset {split.offset}"
                self.losses.report(partition, reason, split.offset)
                self.resume_after(partition, split.cuts + 1, end)

    def resume_after(self, partition: TopicPartition, number: int, resume_at: int) -> None:
        """Note the offset at which reading continues after a cut."""
        known = self.cut_off.get(partition)
        if known is not None and known.number >= number:
            return  # the event of a reader is delivered again after a restart
        self.cut_off[partition] = Cut(number=number, resume_at=resume_at)
        self.on_cut(partition, resume_at)

    def knows(self, split: KafkaPartitionSplit) -> bool:
        """Return whether epochs show if the log of a split was cut."""
        return min(split.leader_epoch, self.leader_epochs.get(split.topic_partition, -1)) >= 0

    def forget(self, partition: TopicPartition) -> None:
        """Forget a partition, which may have a new log."""
        of_former_log: tuple[dict[TopicPartition, Any], ...] = (
            self.splits,
            self.cut_off,
            self._checked,
            self._short_since,
        )
        for each in of_former_log:
            each.pop(partition, None)

    def checked(
        self, splits: Iterable[KafkaPartitionSplit], *, ending: bool
    ) -> list[KafkaPartitionSplit]:
        """Return the splits whose positions are valid. Start a check of the others.

        Args:
            splits: The splits.
            ending: Whether a failed check fails the run, because it must end.
        """
        splits = list(splits)
        unsafe = {each.topic_partition: each for each in splits if self._must_check(each)}
        self.recreated &= unsafe.keys()
        if unsafe and not self._checking:
            self._checking = True
            asked = {each: (split, self.leader_epochs[each]) for each, split in unsafe.items()}

            def take(found: Sequence[_Checked] | None, error: BaseException | None) -> None:
                self._take(found, error, ending=ending)

            self.context.call_async(lambda: self._check(asked), take)
        return [each for each in splits if each.topic_partition not in unsafe]

    def _must_check(self, split: KafkaPartitionSplit) -> bool:
        partition = split.topic_partition
        if not self.knows(split):
            return False
        leader_epoch = self.leader_epochs[partition]
        if split.leader_epoch == leader_epoch and self._ends[partition] >= split.offset:
            return False
        return self._checked.get(partition) != leader_epoch

    def _check(
        self, splits: Mapping[TopicPartition, tuple[KafkaPartitionSplit, int]]
    ) -> list[_Checked]:
        """Ask the leaders of partitions. Discovery finds recreated topics. Worker thread."""
        asked = {each: split.leader_epoch for each, (split, _) in splits.items()}
        ends = self.cluster.epoch_ends(asked)
        cut = {each: at for each, (at, _) in ends.items() if at < splits[each][0].offset}
        topics = self.cluster.topics({each.topic for each in cut}) if cut else {}
        ids = {name: {"", topic.topic_id} for name, topic in topics.items()}
        recreated = {
            each for each in cut if splits[each][0].topic_id not in ids.get(each.topic, ())
        }
        cut = {each: at for each, at in cut.items() if each not in recreated}
        resume_at = dict(cut)
        if self.settings.on_data_loss == "latest":
            resume_at = self.cluster.offsets(cut, LATEST, self.settings.isolation)
        elif self.settings.on_data_loss == "earliest":
            unknown = [each for each, offset in cut.items() if offset < 0]
            resume_at |= self.cluster.offsets(unknown, EARLIEST)
        return [
            _Checked(
                split=split,
                leader_epoch=leader_epoch,
                cut_at=cut.get(each),
                resume_at=resume_at.get(each, 0),
                recreated=each in recreated,
            )
            for each, (split, leader_epoch) in splits.items()
        ]

    def _take(
        self, found: Sequence[_Checked] | None, error: BaseException | None, *, ending: bool
    ) -> None:
        self._checking = False
        if found is None:
            assert error is not None
            if ending or not isinstance(error, RetryableError):
                raise error
            self.context.metric_group.inc("failedPolls")
            self._log.failed(error)
            return
        self._log.succeeded()
        for each in found:
            split, partition = each.split, each.split.topic_partition
            if each.recreated:
                self.recreated.add(partition)
            elif each.cut_at is None:
                self._checked[partition] = each.leader_epoch
            else:
                loss = log_was_cut(partition, each.cut_at, split.offset)
                self.losses.tolerate(partition, loss, split.offset)
                self.resume_after(partition, split.cuts + 1, each.resume_at)
