# SPDX-License-Identifier: Apache-2.0
"""What a connector implements to read its system: splits in, fetched elements out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

from connectors_core.source.split import SplitT

E = TypeVar("E")
PositionT = TypeVar("PositionT")


@dataclass(frozen=True)
class PositionedBatch(Generic[PositionT]):
    """The usual fetched element: a batch and the position right behind its last row.

    Attributes:
        batch: The rows.
        position: Where to go on after these rows, in the connector's own terms.
    """

    batch: pa.RecordBatch
    position: PositionT

    @property
    def nbytes(self) -> int:
        """Bytes of the batch's rows."""
        return int(self.batch.nbytes)


@dataclass(frozen=True)
class RecordsBySplits(Generic[E]):
    """What one fetch gave.

    Attributes:
        records: Pairs of a split id and an element of that split, in order. No element is None.
        finished_splits: Splits of which there is nothing more after these records. Name a split
            here together with its last element where that is known: it then finishes with that
            element, without another poll.
    """

    records: Sequence[tuple[str, E]] = ()
    finished_splits: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class SplitsAddition(Generic[SplitT]):
    """Splits that a split reader has to read from now on, at the positions they carry."""

    splits: tuple[SplitT, ...]


class SplitReader(ABC, Generic[E, SplitT]):
    """Reads from the external system, on one thread of its own (Flink's FLIP-27). Executor only.

    The constructor runs on the task's thread and does no I/O. Everything else but :meth:`wake_up`
    runs on the fetcher's thread, so that clients which belong to one thread are safe.
    """

    @abstractmethod
    def fetch(self) -> RecordsBySplits[E]:
        """Read the next elements; may block until there are some, and is called in a loop.

        Return early, with what there is, when :meth:`wake_up` was called since the last fetch
        returned. The same split state must give the same rows in the same order again.
        """

    @abstractmethod
    def handle_splits_changes(self, change: SplitsAddition[SplitT]) -> None:
        """Take more splits; called between fetches."""

    def pause_or_resume_splits(self, pause: Sequence[str], resume: Sequence[str]) -> None:
        """Leave these splits (ids) out of the next fetches, or take them in again.

        Needed only where one thread reads several splits at once: with one split at a time, or
        with all of them paused, nothing is fetched at all (Flink's FLIP-217).

        Raises:
            NotImplementedError: This reader cannot leave out single splits.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot pause single splits")

    @abstractmethod
    def wake_up(self) -> None:
        """Make the running fetch, or else the next one, return soon. Any thread; never blocks."""

    @abstractmethod
    def close(self) -> None:
        """Release clients and files. Called once, whatever happened before."""
