# SPDX-License-Identifier: Apache-2.0
"""A source of consecutive numbers, and the parts it shares with the data generator."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
import pyarrow as pa

from connectors_core.errors import ConfigurationError, FatalError
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.source.enumerator import (
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsBatchSnapshot,
)
from connectors_core.source.reader import (
    InputStatus,
    ReaderOutput,
    SourceReader,
    SourceReaderContext,
)
from connectors_core.source.source import Boundedness, Source
from connectors_core.source.split import SourceSplit, SplitTraits

DEFAULT_BATCH_ROWS: Final = 20_000
DEFAULT_SPLIT_ROWS: Final = 100_000

_INT64: Final = range(-(2**63), 2**63)


@dataclass(frozen=True)
class NumberRangeSplit(SourceSplit):
    """The numbers from ``position`` to ``end``, both inclusive.

    Attributes:
        split_id: The first number that the split had when it was cut.
        position: The next number to emit.
        end: The last number.
        lower_bound: Lowest event time of its rows in microseconds, if known.
    """

    split_id: str
    position: int
    end: int
    lower_bound: int | None = None

    def weight(self) -> int:
        """Return the number of remaining numbers."""
        return self.end - self.position + 1

    def event_time_lower_bound(self) -> int | None:
        """Return the lowest event time of the rows in the original split."""
        return self.lower_bound


@dataclass(frozen=True)
class NumberRangeState:
    """The remaining range of numbers, as a cursor: its size does not grow with the range.

    Attributes:
        position: First number that is not in a split yet.
        returned: Splits that readers returned.
    """

    position: int
    returned: tuple[NumberRangeSplit, ...] = ()


class NumberRangeEnumerator(
    SplitEnumerator[NumberRangeSplit, NumberRangeState], SupportsBatchSnapshot
):
    """Cuts a split off the range whenever a reader asks (driver).

    The cuts depend on ``split_rows`` alone, not on the parallelism, so that splits and their ids
    are the same after any restart.

    Args:
        context: The coordinator.
        state: The start position.
        end: Last number; None if the range has no end.
        split_rows: Numbers in a split.
        lower_bound: Returns the lowest event time, in microseconds, of the rows from a number on.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[NumberRangeSplit],
        state: NumberRangeState,
        *,
        end: int | None,
        split_rows: int,
        lower_bound: Callable[[int], int | None] = lambda _number: None,
    ) -> None:
        self._lower_bound = lower_bound
        self._context = context
        self._position = state.position
        self._returned = deque(state.returned)
        self._end = end
        self._split_rows = split_rows

    def handle_split_request(self, subtask_id: int) -> None:
        """Assign a returned split or the next one, or signal that there are no more."""
        split = self._returned.popleft() if self._returned else self._cut()
        if split is None:
            self._context.signal_no_more_splits(subtask_id)
        else:
            self._context.assign_split(split, subtask_id)

    def add_splits_back(self, splits: Sequence[NumberRangeSplit], subtask_id: int) -> None:
        """Keep the splits for later requests."""
        self._returned.extend(splits)

    def snapshot_state(self, checkpoint_id: int) -> NumberRangeState:
        """Return the cursor and the returned splits."""
        return NumberRangeState(self._position, tuple(self._returned))

    def _cut(self) -> NumberRangeSplit | None:
        first = self._position
        if self._end is not None and first > self._end:
            return None
        last = first + self._split_rows - 1
        if self._end is not None:
            last = min(last, self._end)
        self._position = last + 1
        return NumberRangeSplit(str(first), first, last, self._lower_bound(first))


@final
class NumberRangeReader(SourceReader[NumberRangeSplit]):
    """Creates a batch for every ``batch_rows`` numbers, split by split (executor).

    It needs no thread, because it never waits.

    Args:
        context: The runtime.
        make_batch: Creates the batch of given numbers, one row for each.
        batch_rows: Rows in a batch.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        make_batch: Callable[[pa.Array], pa.RecordBatch],
        batch_rows: int,
    ) -> None:
        self._context = context
        self._make_batch = make_batch
        self._batch_rows = batch_rows
        self._splits: deque[NumberRangeSplit] = deque()
        self._paused: set[str] = set()
        self._no_more_splits = False
        self._requested = False

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit the next numbers of the first split."""
        if not self._splits:
            return (
                InputStatus.END_OF_INPUT if self._no_more_splits else InputStatus.NOTHING_AVAILABLE
            )
        split = self._splits[0]
        if split.split_id in self._paused:
            return InputStatus.NOTHING_AVAILABLE
        count = min(self._batch_rows, split.weight())
        numbers = pa.array(np.arange(count, dtype=np.int64) + split.position)
        output.create_output_for_split(split.split_id).collect(self._make_batch(numbers))
        if count < split.weight():
            self._splits[0] = replace(split, position=split.position + count)
        else:
            self._splits.popleft()
            self._request_split_if_idle()
        return InputStatus.MORE_AVAILABLE

    def snapshot_state(self) -> list[NumberRangeSplit]:
        """Return the unfinished splits at their next number."""
        return list(self._splits)

    def wait_available(self, timeout: float) -> bool:
        """Return at once, since all rows are available."""
        if self._splits:
            return self._splits[0].split_id not in self._paused
        return self._no_more_splits

    def add_splits(self, splits: Sequence[NumberRangeSplit]) -> None:
        """Append splits."""
        self._splits.extend(splits)
        self._requested = False

    def notify_no_more_splits(self) -> None:
        """Note that no more splits follow in this entry."""
        self._no_more_splits = True
        self._request_split_if_idle()

    def pause_or_resume_splits(
        self, splits_to_pause: Sequence[str], splits_to_resume: Sequence[str]
    ) -> None:
        """Pause or resume these splits; a paused one blocks later ones."""
        self._paused = (self._paused | set(splits_to_pause)) - set(splits_to_resume)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _request_split_if_idle(self) -> None:
        if not self._splits and not self._requested:
            self._requested = True
            self._context.send_split_request()


class NumberRangeSource(Source[NumberRangeSplit, NumberRangeState]):
    """The base of the sources in this package whose splits are ranges of numbers.

    Args:
        start: First number.
        end: Last number, inclusive; None if the source has no end.
        split_rows: Numbers in a split, which is the unit of assignment to a reader.
        batch_rows: Maximum number of rows in a batch.

    Raises:
        ConfigurationError: A number is out of range.
    """

    def __init__(self, start: int, end: int | None, *, split_rows: int, batch_rows: int) -> None:
        for option, value in (("split_rows", split_rows), ("batch_rows", batch_rows)):
            if value < 1:
                raise ConfigurationError(
                    f"{option} is out of range", expected="at least 1", found=value, option=option
                )
        self._start = start
        self._end = end
        self._split_rows = split_rows
        self._batch_rows = batch_rows

    @abstractmethod
    def make_batch(self, numbers: pa.Array) -> pa.RecordBatch:
        """Return the rows of these numbers (int64 without nulls), in order. Executor."""

    def event_time_lower_bound(self, number: int) -> int | None:
        """Lowest event time, in microseconds, of the rows from ``number`` on; None if unknown."""
        return None

    def boundedness(self) -> Boundedness:
        """Bounded if there is a last number."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self._end is None else Boundedness.BOUNDED

    def create_enumerator(
        self, context: SplitEnumeratorContext[NumberRangeSplit]
    ) -> NumberRangeEnumerator:
        """Create an enumerator at the first number."""
        return self.restore_enumerator(context, NumberRangeState(self._start))

    def restore_enumerator(
        self, context: SplitEnumeratorContext[NumberRangeSplit], state: NumberRangeState
    ) -> NumberRangeEnumerator:
        """Create an enumerator that continues from the snapshot."""
        return NumberRangeEnumerator(
            context,
            state,
            end=self._end,
            split_rows=self._split_rows,
            lower_bound=self.event_time_lower_bound,
        )

    def create_reader(self, context: SourceReaderContext) -> SourceReader[NumberRangeSplit]:
        """Create a reader that calls :meth:`make_batch`."""
        return NumberRangeReader(context, self._checked_batch, self._batch_rows)

    def split_serializer(self) -> VersionedSerializer[NumberRangeSplit]:
        """JSON."""
        return JsonDataclassSerializer(NumberRangeSplit)

    def enumerator_state_serializer(self) -> VersionedSerializer[NumberRangeState]:
        """JSON."""
        return JsonDataclassSerializer(NumberRangeState)

    def split_traits(self) -> SplitTraits:
        """Return the traits: each split ends, even if the source has endlessly many splits."""
        return SplitTraits(end=True, ordered=True, replayable=True)

    def input_version(self, splits: Sequence[NumberRangeSplit]) -> str:
        """The first and the last number. The rows of a number are always the same."""
        return f"{self._start} to {self._end}"

    def _checked_batch(self, numbers: pa.Array) -> pa.RecordBatch:
        batch = self.make_batch(numbers)
        if batch.num_rows != len(numbers) or not batch.schema.equals(self.schema()):
            raise FatalError(
                f"{type(self).__name__} created a batch that does not match",
                expected=f"{len(numbers)} rows of {_in_one_line(self.schema())}",
                found=f"{batch.num_rows} rows of {_in_one_line(batch.schema)}",
                hint="return one row for each number, in the types of the schema",
            )
        return batch


class NumberSequenceSource(NumberRangeSource):
    """The numbers from ``start`` to ``end``, both inclusive, as one column ``value: int64``.

    Bounded and exactly-once; for tests, examples and measurements. The order between splits is
    that of the readers. Named after Flink's ``NumberSequenceSource``.

    Args:
        start: First number.
        end: Last number, not below ``start``.
        split_rows: Numbers in a split, which is the unit of assignment to a reader.
        batch_rows: Maximum number of rows in a batch.

    Raises:
        ConfigurationError: A number is out of range.
    """

    def __init__(
        self,
        start: int,
        end: int,
        *,
        split_rows: int = DEFAULT_SPLIT_ROWS,
        batch_rows: int = DEFAULT_BATCH_ROWS,
    ) -> None:
        if not (isinstance(end, int) and _INT64[0] <= start <= end <= _INT64[-1]):
            raise ConfigurationError(
                "the bounds of the number sequence are out of range",
                expected="start <= end, both within 64 bits",
                found=f"start {start}, end {end}",
            )
        super().__init__(start, end, split_rows=split_rows, batch_rows=batch_rows)

    def schema(self) -> pa.Schema:
        """One column ``value: int64``."""
        return pa.schema([pa.field("value", pa.int64(), nullable=False)])

    def make_batch(self, numbers: pa.Array) -> pa.RecordBatch:
        """Return the numbers themselves."""
        return pa.record_batch([numbers], schema=self.schema())


def _in_one_line(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
