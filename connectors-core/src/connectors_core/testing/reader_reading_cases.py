# SPDX-License-Identifier: Apache-2.0
"""Cases of a reader: reading, the end, and state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from connectors_core.source import InputStatus, SupportsProjectionPushDown
from connectors_core.source.source import AnySource
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.context import ROWS
from connectors_core.testing.source_unit import (
    Reading,
    SourceUnitSuite,
    SourceUnitTrial,
    splits_of,
    table_of,
)


class ReaderReadingCases(SourceUnitSuite, part=True):
    """Cases of a reader's output and positions."""

    # --- Reading ----------------------------------------------------------------------------------

    @case()
    def test_a_split_is_read_to_its_end(self, trial: SourceUnitTrial) -> None:
        """Flink's ``testRead``."""
        trial.write_splits()
        source = trial.source()
        trial.assert_complete(source, trial.read(source, splits_of(source)))

    @case(after="test_a_split_is_read_to_its_end")
    def test_splits_given_at_once_are_all_read(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(4)
        source = trial.source()
        trial.assert_complete(source, trial.read(source, splits_of(source)))

    @case(after="test_splits_given_at_once_are_all_read")
    def test_splits_added_while_others_are_read_are_read_too(self, trial: SourceUnitTrial) -> None:
        """Flink's ``testAddSplitToExistingFetcher``, for any reader."""
        trial.write_splits(4)
        source = trial.source()
        first, *others = splits_of(source)
        with reading_of(trial, source, [first]) as reading:
            reading.read_some()
            reading.add(others[:1])
            reading.poll()
            reading.add(others[1:])
            reading.read(trial.rows_written)
            trial.assert_complete(source, reading.batches)

    @case(after="test_splits_given_at_once_are_all_read")
    def test_a_split_without_rows_holds_nothing_up(self, trial: SourceUnitTrial) -> None:
        with contextlib.closing(trial.context.create_split()) as writer:
            writer.write(ROWS.empty_table())
        trial.write_splits()
        source = trial.source()
        trial.assert_complete(source, trial.read(source, splits_of(source)))

    @case(after="test_a_split_is_read_to_its_end")
    def test_a_poll_gives_one_batch_at_most(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(2)
        source = trial.source()
        with reading_of(trial, source, splits_of(source)) as reading:
            emitted = 0
            for _ in reading.steps():
                assert len(reading.batches) <= emitted + 1, "a poll returned several batches"
                emitted = len(reading.batches)
                if reading.count >= trial.rows_written:
                    break

    @case(after="test_a_split_is_read_to_its_end")
    def test_batches_have_the_schema_of_the_source(self, trial: SourceUnitTrial) -> None:
        trial.write_splits()
        source = trial.source()
        with reading_of(trial, source, splits_of(source)) as reading:
            reading.read(trial.rows_written)
            for _, batch in reading.batches:
                assert batch.schema.equals(source.schema()), (
                    f"the batch has {batch.schema}, but the source declares {source.schema()}"
                )

    @case(since="1.4", after="test_a_split_is_read_to_its_end")
    def test_a_projection_gives_the_same_rows_with_fewer_columns(
        self, trial: SourceUnitTrial
    ) -> None:
        """Positions count rows, so a projection must not change their number or order."""
        trial.write_splits(2)
        source = trial.source()
        if not isinstance(source, SupportsProjectionPushDown):
            pytest.skip("the source reads all columns")
        splits = splits_of(source)

        def read(some: AnySource) -> dict[str, pa.Table]:
            with reading_of(trial, some, splits) as reading:
                reading.read(trial.rows_written)
                return {
                    each.split_id: table_of(some, reading.batches, each.split_id) for each in splits
                }

        expected = read(source)
        for name in source.schema().names:
            projected = source.apply_projection([(name,)])
            assert projected.schema().names == [name], "the projection has other columns"
            assert read(projected) == {
                split_id: rows.select([name]) for split_id, rows in expected.items()
            }, f"the projection to {name!r} returns other rows"

    @case(after="test_a_split_is_read_to_its_end")
    def test_the_same_split_gives_the_same_rows_again(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(2)
        source = trial.source()
        traits = source.split_traits()
        if not traits.replayable:
            pytest.skip("the splits of the source are not replayable")
        found = []
        splits = splits_of(source)
        for _ in range(2):
            with reading_of(trial, source, splits) as reading:
                reading.read(trial.rows_written)
                read = reading.batches
                rows = {each.split_id: table_of(source, read, each.split_id) for each in splits}
                cuts = [(split_id, batch.num_rows) for split_id, batch in read]
                found.append((rows, cuts if traits.ordered else None))
        assert found[0][0] == found[1][0], "the rows of a split or their order differ"
        assert found[0][1] == found[1][1], (
            "the batches have other boundaries, which `ordered` forbids"
        )

    # --- The end ----------------------------------------------------------------------------------

    @case()
    def test_a_reader_without_splits_waits_until_it_is_told_that_there_are_none(
        self, trial: SourceUnitTrial
    ) -> None:
        """Flink's ``testPollingFromEmptyQueue``, and the end of input of FLIP-27."""
        trial.write_splits()
        with reading_of(trial, trial.source()) as reading:
            for _ in range(3):
                status = reading.poll()
                assert status is InputStatus.NOTHING_AVAILABLE, (
                    f"{status} before the reader got any split"
                )
            reading.reader.notify_no_more_splits()
            assert reading.poll() is InputStatus.END_OF_INPUT

    @case(
        Capability.BOUNDED,
        after=(
            "test_a_split_is_read_to_its_end",
            "test_a_reader_without_splits_waits_until_it_is_told_that_there_are_none",
        ),
    )
    def test_a_reader_that_read_its_splits_waits_for_more(self, trial: SourceUnitTrial) -> None:
        trial.write_splits()
        source = trial.source()
        with reading_of(trial, source, splits_of(source)) as reading:
            for status in reading.steps():
                assert status is not InputStatus.END_OF_INPUT, (
                    "the reader ends before the signal that no more splits follow"
                )
                if status is InputStatus.NOTHING_AVAILABLE and not reading.state():
                    break

    @case(
        Capability.BOUNDED,
        after=(
            "test_splits_given_at_once_are_all_read",
            "test_a_reader_without_splits_waits_until_it_is_told_that_there_are_none",
        ),
    )
    def test_the_end_comes_behind_the_last_row_and_stays(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(2)
        source = trial.source()
        with reading_of(trial, source, splits_of(source)) as reading:
            reading.reader.notify_no_more_splits()
            for _ in reading.steps():
                pass
            missing = trial.rows_written - reading.count
            assert not missing, f"the reader ended {missing} rows too early"
            assert reading.poll() is InputStatus.END_OF_INPUT
            assert reading.count == trial.rows_written

    # --- State ------------------------------------------------------------------------------------

    @case(Capability.BOUNDED, after="test_splits_given_at_once_are_all_read")
    def test_a_split_is_in_the_state_until_it_is_read(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(2)
        source = trial.source()
        splits = splits_of(source)
        ids = {split.split_id for split in splits}
        with reading_of(trial, source, splits) as reading:
            assert reading.state().keys() == ids, "the state lacks some added splits"
            left: dict[str, int] = {}
            for _ in reading.steps():
                in_state = reading.state().keys()
                for split_id in ids - in_state:
                    rows = sum(b.num_rows for i, b in reading.batches if i == split_id)
                    assert rows == left.setdefault(split_id, rows), (
                        f"rows of {split_id!r} arrived after it had left the state"
                    )
                if reading.count >= trial.rows_written and not in_state:
                    break

    @case(after="test_splits_given_at_once_are_all_read")
    def test_a_position_moves_forward_with_every_batch(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(2)
        source = trial.source()
        splits = splits_of(source)
        with reading_of(trial, source, splits) as reading:
            seen = {split_id: [state] for split_id, state in reading.state().items()}
            emitted = 0
            for _ in reading.steps():
                new = {split_id for split_id, _ in reading.batches[emitted:]}
                emitted = len(reading.batches)
                for split_id, state in reading.state().items():
                    if split_id in new:
                        assert state not in seen[split_id], (
                            f"rows of {split_id!r} were emitted, but its position is one that it "
                            f"had before: {state[1]!r}"
                        )
                        seen[split_id].append(state)
                if reading.count >= trial.rows_written:
                    break

    @case(
        after=(
            "test_a_position_moves_forward_with_every_batch",
            "test_a_split_is_in_the_state_until_it_is_read",
            "test_the_same_split_gives_the_same_rows_again",
        )
    )
    def test_a_reader_made_anew_at_any_position_gives_the_rest(
        self, trial: SourceUnitTrial
    ) -> None:
        """Flink's ``testSnapshot``, for every position and not only the last one."""
        trial.write_splits(3)
        source = trial.source()
        cuts = []
        with reading_of(trial, source, splits_of(source)) as reading:
            cuts.append((0, reading.state()))
            for _ in reading.steps():
                cuts.append((len(reading.batches), reading.state()))
                if reading.count >= trial.rows_written:
                    break
            batches = reading.batches
        for emitted, state in cuts:
            before = batches[:emitted]
            left = trial.rows_written - sum(batch.num_rows for _, batch in before)
            print(f"resume after {emitted} of {len(batches)} batches: {left} rows remain")
            with reading_of(trial, source) as again:
                again.go_on_from(state)
                again.read(left)
            trial.assert_complete(source, before + again.batches)


@contextlib.contextmanager
def reading_of(
    trial: SourceUnitTrial, source: Any, splits: Sequence[Any] = ()
) -> Iterator[Reading]:
    """Create a reader of a source, with these splits."""
    with Reading(source, trial.deadline) as reading:
        if splits:
            reading.add(splits)
        yield reading
