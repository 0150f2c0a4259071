# SPDX-License-Identifier: Apache-2.0
"""The offsets at which reading starts and stops."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from connector_kafka.client.metadata import (
    EARLIEST,
    LATEST,
    Cluster,
    IsolationLevel,
    TopicPartition,
)
from connectors_core.errors import ConfigurationError, InvalidOptionError

__all__ = ["OffsetsInitializer"]

_MILLISECOND: Final = timedelta(milliseconds=1)


class _Kind(enum.Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    SPECIFIC = "specific"


@dataclass(frozen=True, kw_only=True)
class OffsetsInitializer:
    """Returns an offset for each partition. Create it with one of its methods, as in Flink.

    As a start, it is the first offset to read. As a stop, it is the first offset not to read.
    """

    _kind: _Kind
    _timestamp: int = 0
    _offsets: tuple[tuple[TopicPartition, int | OffsetsInitializer], ...] = ()
    _otherwise: OffsetsInitializer | None = None

    @staticmethod
    def earliest() -> OffsetsInitializer:
        """The oldest available record."""
        return OffsetsInitializer(_kind=_Kind.EARLIEST)

    @staticmethod
    def latest() -> OffsetsInitializer:
        """The end of the log, after the newest record.

        If only committed records are read, it is the offset of the first open transaction.
        """
        return OffsetsInitializer(_kind=_Kind.LATEST)

    @staticmethod
    def committed(fallback: OffsetsInitializer | None = None) -> OffsetsInitializer:
        """The committed offsets of the consumer group.

        Args:
            fallback: For partitions without a committed offset. None makes that an error. The
                property `auto.offset.reset` replaces it.
        """
        return OffsetsInitializer(_kind=_Kind.COMMITTED, _otherwise=fallback)

    @staticmethod
    def timestamp(time: datetime | int) -> OffsetsInitializer:
        """The first record whose timestamp is not before a time, or the end of the log without one.

        Args:
            time: A time with a time zone, or milliseconds since the epoch.
        """
        if isinstance(time, datetime):
            if time.tzinfo is None:
                raise InvalidOptionError(
                    "the time of the offsets has no time zone",
                    expected="a time with a time zone",
                    found=time,
                    option="scan.startup.timestamp-millis",
                )
            epoch = datetime.fromtimestamp(0, time.tzinfo)
            time = (time - epoch) // _MILLISECOND
        if time < 0:
            raise InvalidOptionError(
                "the time of the offsets is before 1970",
                expected="milliseconds since the epoch",
                found=time,
                option="scan.startup.timestamp-millis",
            )
        return OffsetsInitializer(_kind=_Kind.TIMESTAMP, _timestamp=time)

    @staticmethod
    def offsets(
        offsets: Mapping[tuple[str, int], int | OffsetsInitializer],
        otherwise: OffsetsInitializer | None = None,
    ) -> OffsetsInitializer:
        """An offset for each partition.

        Args:
            offsets: By topic and partition, an offset or another initializer.
            otherwise: For all other partitions. The default is the earliest offset.
        """
        for key, offset in offsets.items():
            if isinstance(offset, int) and offset < 0:
                raise InvalidOptionError(
                    f"the offset of {key[0]}-{key[1]} is negative",
                    expected="an offset, OffsetsInitializer.earliest() or .latest()",
                    found=offset,
                    option="scan.startup.specific-offsets",
                )
        return OffsetsInitializer(
            _kind=_Kind.SPECIFIC,
            _offsets=tuple((TopicPartition(*key), value) for key, value in offsets.items()),
            _otherwise=otherwise or OffsetsInitializer.earliest(),
        )

    def resolve(
        self,
        cluster: Cluster,
        partitions: Collection[TopicPartition],
        *,
        group: str | None,
        isolation: IsolationLevel,
    ) -> dict[TopicPartition, int]:
        """Return the offsets. This can block, because it sends requests to the cluster. Driver.

        Args:
            cluster: The client of the cluster.
            partitions: The partitions. The result contains all of them.
            group: The consumer group.
            isolation: The isolation level, which determines the end of the log.

        Raises:
            ConfigurationError: There is no group, or it has committed no offsets.
        """
        if not partitions:
            return {}
        found: dict[TopicPartition, int] = {}
        asked: dict[OffsetsInitializer, list[TopicPartition]] = {}
        match self._kind:
            case _Kind.EARLIEST:
                return cluster.offsets(partitions, EARLIEST)
            case _Kind.LATEST:
                return cluster.offsets(partitions, LATEST, isolation)
            case _Kind.TIMESTAMP:
                found = cluster.offsets(partitions, self._timestamp)
                asked[OffsetsInitializer.latest()] = [p for p in partitions if p not in found]
            case _Kind.COMMITTED:
                found = cluster.committed(_wanted(group), partitions)
                if rest := [each for each in partitions if each not in found]:
                    asked[self._fallback(rest, group)] = rest
            case _Kind.SPECIFIC:
                chosen = dict(self._offsets)
                for each in partitions:
                    choice = chosen.get(each, self._otherwise)
                    assert choice is not None
                    if isinstance(choice, int):
                        found[each] = choice
                    else:
                        asked.setdefault(choice, []).append(each)
        for choice, some in asked.items():
            found |= choice.resolve(cluster, some, group=group, isolation=isolation)
        return found

    @property
    def is_given(self) -> bool:
        """Whether offsets come from outside the log, and so can be beyond its end."""
        return self._kind in (_Kind.COMMITTED, _Kind.SPECIFIC)

    @property
    def is_committed(self) -> bool:
        """Whether offsets are those that a consumer group has committed."""
        return self._kind is _Kind.COMMITTED

    def stated(self, partition: TopicPartition) -> bool:
        """Whether the user set the offset or the time of a partition explicitly."""
        return self._kind is _Kind.TIMESTAMP or isinstance(dict(self._offsets).get(partition), int)

    def _fallback(self, rest: Collection[TopicPartition], group: str | None) -> OffsetsInitializer:
        if self._otherwise is None:
            raise ConfigurationError(
                f"the group {group!r} has no committed offset of {', '.join(map(str, rest))}",
                option="scan.startup.mode",
                hint="choose another start, or use OffsetsInitializer.committed(fallback)",
            )
        return self._otherwise

    def __str__(self) -> str:
        shown = self._kind.value
        if self._kind is _Kind.TIMESTAMP:
            shown += f" {self._timestamp}"
        if self._kind is _Kind.SPECIFIC:
            shown += f" {', '.join(f'{each}: {offset}' for each, offset in self._offsets)}"
        return shown


def _wanted(group: str | None) -> str:
    if group is None:
        raise ConfigurationError(
            "offsets of a consumer group are requested, but no group is set",
            option="properties.group.id",
            hint="set properties.group.id",
        )
    return group
