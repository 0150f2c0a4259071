# SPDX-License-Identifier: Apache-2.0
"""The interface that a connector implements to read its system, split by split."""

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
    """The usual fetched element: a batch and the position after its last row.

    Attributes:
        batch: The rows.
        position: Where to continue after these rows, in the connector's own terms.
    """

    batch: pa.RecordBatch
    position: PositionT

    @property
    def nbytes(self) -> int:
        """Bytes of the batch's rows."""
        return int(self.batch.nbytes)


@dataclass(frozen=True)
class RecordsBySplits(Generic[E]):
    """The result of one fetch.

    Attributes:
        records: Pairs of a split id and an element of that split, in order. No element is None.
            Elements have ``nbytes``, unless the fetcher manager is given ``size_of``.
        finished_splits: Splits that have no more elements after these records. If possible,
            name a split here together with its last element: it then finishes with that element,
            without another poll.
    """

    records: Sequence[tuple[str, E]] = ()
    finished_splits: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class SplitsAddition(Generic[SplitT]):
    """Splits that a split reader must read from now on, at the positions they contain."""

    splits: tuple[SplitT, ...]


class SplitReader(ABC, Generic[E, SplitT]):
    """Reads from the external system on its own thread (Flink's FLIP-27). Executor only.

    The constructor runs on the task's thread and does no I/O. Everything else except
    :meth:`wake_up` runs on the fetcher's thread, so single-threaded clients are safe.
    """

    @abstractmethod
    def fetch(self) -> RecordsBySplits[E]:
        """Read the next elements; may block until there are some, and is called in a loop.

        Return an empty result from time to time. It means that no active split has elements now:
        the runtime waits for the first result, for at most ``first_fetch_timeout``, before it
        counts a split as idle and ends the plan.

        Return early with the available elements if :meth:`wake_up` was called since the last fetch
        returned. The same split state must give the same rows in the same order.
        """

    @abstractmethod
    def handle_splits_changes(self, change: SplitsAddition[SplitT]) -> None:
        """Add splits; called between fetches."""

    def pause_or_resume_splits(self, pause: Sequence[str], resume: Sequence[str]) -> None:
        """Pause these splits (ids) in the next fetches, or resume them.

        Needed only if one thread reads several splits at once. With one split at a time, or with
        all splits paused, nothing is fetched at all (Flink's FLIP-217).

        Raises:
            NotImplementedError: This reader cannot leave out single splits.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot pause single splits")

    @abstractmethod
    def wake_up(self) -> None:
        """Make the running or the next fetch return soon. Any thread; never blocks."""

    @abstractmethod
    def close(self) -> None:
        """Release clients and files. Always called exactly once."""
