# SPDX-License-Identifier: Apache-2.0
"""Splits, and the guarantees of reading them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import UnionType
from typing import Generic, Self, TypeAlias, TypeVar

from connectors_core.errors import InvalidOptionError


class SourceSplit:
    """A part of a source that one reader reads: a file range, a partition, a range of numbers.

    Subclass it as a frozen dataclass with a field ``split_id``. A split contains its own position:
    reading continues from the split that ``snapshot_state`` of the reader returns (Flink's
    FLIP-27). A split has the same id every time it is discovered.

    Attributes:
        split_id: Unique within the source forever.
    """

    split_id: str

    def weight(self) -> int:
        """Estimated remaining work in this split, in bytes or any unit of the source."""
        return 1

    def event_time_lower_bound(self) -> int | None:
        """Lowest event time that this split can still deliver: microseconds since the epoch, UTC.

        ``None`` means unknown: until the split is read, it holds back the watermark, but not below
        the source's watermark when the split was found.
        """
        return None

    def still_to_skip(self, rows: int, behind: Self) -> int:
        """Convert a number of rows to skip after another position to the number after this one.

        A batch may be cut in the middle, and is then read again without its first rows. If a source
        resumes at another position after a loss, it returns how many of these rows remain. A
        reader returns such a position in a separate poll, without rows.

        Args:
            rows: Rows to skip after the other position, without those that were read since.
            behind: The previous position, of the same split.
        """
        return rows


@dataclass(frozen=True, kw_only=True)
class SplitTraits:
    """Guarantees of all splits of a source, which determine how exactly-once reading works.

    Attributes:
        end: Each split has a known end (a file, a range), so the plan alone determines where a read
            stops. Otherwise the reader claims its stop before it emits a row.
        ordered: A reader emits its splits one after another in the given order, and cuts batches at
            the same rows every time. The plan then determines where a limit ends a read.
        replayable: The same split state returns the same rows in the same order. Otherwise the
            source is at-least-once.
        skips_unreadable: A reader skips the rest of a split that it cannot read
            (`skip_unreadable`), instead of failing. Two reads of a split may therefore return
            different rows, so the reader claims its stop before it emits a row, and a replay
            with fewer rows is only logged.
    """

    end: bool = True
    ordered: bool = False
    replayable: bool = True
    skips_unreadable: bool = False


@dataclass(frozen=True, kw_only=True)
class ReadLimits:
    """The maximum that one plan (micro-batch) may read; ``None`` is no limit.

    A limit of 0 pauses a reader. A source as a whole needs limits above 0.

    Attributes:
        rows: Rows.
        bytes: Bytes of Arrow buffers.
        splits: Splits that are being read.
        seconds: Time spent reading.

    Raises:
        InvalidOptionError: A limit is negative or not a number.
    """

    rows: int | None = None
    bytes: int | None = None
    splits: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, limit in vars(self).items():
            if limit is None:
                continue
            if isinstance(limit, bool) or not isinstance(limit, _number(name)):
                raise _refusal(name, f"{limit!r} ({type(limit).__name__})")
            if not limit >= 0:  # also refuses NaN
                raise _refusal(name, limit)

    def check_positive(self) -> None:
        """Refuse a limit of 0, with which a source never reads a row.

        Raises:
            InvalidOptionError: A limit is 0.
        """
        for name, limit in vars(self).items():
            if limit == 0:
                raise _refusal(name, limit)

    def per_reader(self, subtask: int, parallelism: int) -> ReadLimits:
        """Return the share of one of ``parallelism`` readers; the shares add up to this limit."""

        def share(total: int | None) -> int | None:
            if total is None:
                return None
            return total // parallelism + (1 if subtask < total % parallelism else 0)

        return ReadLimits(
            rows=share(self.rows),
            bytes=share(self.bytes),
            splits=share(self.splits),
            seconds=self.seconds,
        )

    def tightened_by(self, other: ReadLimits | None) -> ReadLimits:
        """Return the stricter limit in each dimension."""
        if other is None:
            return self

        return ReadLimits(
            rows=_stricter(self.rows, other.rows),
            bytes=_stricter(self.bytes, other.bytes),
            splits=_stricter(self.splits, other.splits),
            seconds=_stricter(self.seconds, other.seconds),
        )


PlanLimits: TypeAlias = ReadLimits
"""Deprecated since 1.0.0, removed in 2.0.0: the former name of `ReadLimits`."""

NumberT = TypeVar("NumberT", int, float)


def _number(name: str) -> type[int] | UnionType:
    """Return the type of a limit."""
    return int | float if name == "seconds" else int


def _refusal(name: str, found: object) -> InvalidOptionError:
    number = "an integer" if _number(name) is int else "a number"
    return InvalidOptionError(
        f"the limit of {name} is invalid",
        expected=f"{number} above 0, or None for no limit",
        found=found,
        option=f"limits.{name}",
    )


def _stricter(left: NumberT | None, right: NumberT | None) -> NumberT | None:
    if left is None:
        return right
    return left if right is None else min(left, right)


SplitT = TypeVar("SplitT", bound=SourceSplit)


class SplitState(ABC, Generic[SplitT]):
    """The mutable position of a split in a reader (Flink's ``SourceReaderBase``)."""

    @abstractmethod
    def to_split(self) -> SplitT:
        """Return the split to continue from; reading it gives exactly the rows not yet emitted."""
