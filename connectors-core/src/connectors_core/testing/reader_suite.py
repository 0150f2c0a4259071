# SPDX-License-Identifier: Apache-2.0
"""The unit suite of source readers, like Flink's ``SourceReaderTestBase``."""

from __future__ import annotations

import itertools
import logging
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from connectors_core.errors import ConnectorError, RetryableError
from connectors_core.source import Boundedness, InputStatus
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.held_memory import held_memory, most_held
from connectors_core.testing.outages import FAILING, LEAVING, Outage, assert_worth_another_attempt
from connectors_core.testing.pace import Deadline, stretched
from connectors_core.testing.reader_reading_cases import ReaderReadingCases, reading_of
from connectors_core.testing.source_unit import (
    ROWS_PER_SPLIT,
    Reading,
    SourceUnitTrial,
    splits_of,
)
from connectors_core.testing.traces import assert_unseen, error_texts, nothing_left

# Bad records after the first row, next to each other, before the last row, and, with batches of 7
# records, at the ends of a batch. There are so many that two of them have the same index in their
# batches.
_AROUND_POISON: Final = (1, 4, 0, 6, 6, 1, 1, 1, 1)
_POLLS_OF_A_PAUSE: Final = 5
_PICKLING: Final = ("pickle", "cloudpickle")


class SourceReaderTestSuite(ReaderReadingCases):
    """Cases for the readers of a source, without a pipeline. Derive as from `SourceTestSuite`.

    Attributes:
        closes_within: The timeout for closing a reader at any time.
    """

    closes_within: ClassVar[float] = 5.0

    # --- Pauses -----------------------------------------------------------------------------------

    @case(
        since="1.3",
        after=(
            "test_splits_given_at_once_are_all_read",
            "test_a_poll_gives_one_batch_at_most",
            "test_the_end_comes_behind_the_last_row_and_stays",
            "test_a_split_is_in_the_state_until_it_is_read",
        ),
    )
    def test_a_paused_split_gives_nothing_until_it_is_resumed(self, trial: SourceUnitTrial) -> None:
        """A paused split does not finish and resumes at its position. Other splits continue."""
        trial.write_splits(3)
        source = trial.source()
        splits = splits_of(source)
        all_rows = Counter[str]()
        for split_id, batch in trial.read(source, splits):
            all_rows[split_id] += batch.num_rows
        with reading_of(trial, source, splits) as reading:
            reading.read_some()
            paused, first = reading.batches[0]
            if first.num_rows == all_rows[paused]:
                pytest.skip("a split is one batch")
            try:
                reading.reader.pause_or_resume_splits([paused], [])
            except NotImplementedError:
                pytest.skip("its reader cannot pause a single split")
            reading.reader.notify_no_more_splits()
            others = all_rows.total() - all_rows[paused] + first.num_rows
            ordered = source.split_traits().ordered  # a paused split may block the others
            waiting = Deadline(trial.deadline / 2)
            for polls, status in enumerate(reading.steps()):
                assert status is not InputStatus.END_OF_INPUT, (
                    "the reader ends although a split is paused"
                )
                assert ordered or not waiting.passed, (
                    "the other splits wait for a paused one: if a reader reads one after another, "
                    "as with a SingleThreadSequentialFetcherManager, split_traits() needs `ordered`"
                )
                if polls > _POLLS_OF_A_PAUSE and (ordered or reading.count >= others):
                    break
            rows = sum(batch.num_rows for split_id, batch in reading.batches if split_id == paused)
            assert rows == first.num_rows, f"{rows - first.num_rows} rows of a paused split arrived"
            assert paused in reading.state(), "a paused split has left the state"
            reading.reader.pause_or_resume_splits([], [paused])
            reading.read(trial.rows_written)
            trial.assert_complete(source, reading.batches)

    @case(since="1.5", after="test_a_paused_split_gives_nothing_until_it_is_resumed")
    @pytest.mark.slow
    def test_rows_that_no_one_takes_do_not_fill_the_memory(self, trial: SourceUnitTrial) -> None:
        """A paused split, or one that waits for a slow sink, is fetched up to a limit."""
        size = trial.write_large_split()
        source = trial.source()
        splits = splits_of(source)
        for is_paused in (False, True):
            with held_memory() as held, reading_of(trial, source, splits) as reading:
                reading.read_some()
                if reading.count == trial.rows_written:
                    pytest.skip("a split is one batch")
                if is_paused:
                    try:
                        reading.reader.pause_or_resume_splits(
                            [each.split_id for each in splits], []
                        )
                    except NotImplementedError:
                        pytest.skip("its reader cannot pause a single split")
                most = most_held(held, reading.poll if is_paused else None, enough=size // 2)
            assert most <= size // 2, (
                f"the reader holds {most >> 20} of {size >> 20} MiB, while"
                f" {'the split is paused' if is_paused else 'no task polls'}"
            )

    # --- Availability -----------------------------------------------------------------------------

    @case()
    def test_waiting_in_vain_ends_in_time(self, trial: SourceUnitTrial) -> None:
        trial.write_splits()
        with reading_of(trial, trial.source()) as reading:
            patience = Deadline(self.closes_within)
            assert not reading.reader.wait_available(0.05), (
                "the reader reports available rows, but there are none"
            )
            assert not patience.passed, "the reader waits too long"

    @case(after="test_waiting_in_vain_ends_in_time")
    def test_waiting_ends_when_there_is_something(self, trial: SourceUnitTrial) -> None:
        """Flink's ``testAvailableOnEmptyQueue``."""
        trial.write_splits()
        source = trial.source()
        with reading_of(trial, source, splits_of(source)) as reading:
            there = reading.reader.wait_available(stretched(trial.deadline))
            assert there, "the reader waits although rows are available"
        with reading_of(trial, source) as reading:
            reading.reader.notify_no_more_splits()
            there = reading.reader.wait_available(stretched(trial.deadline))
            assert there, "the reader waits at the end of the input"

    # --- Close ------------------------------------------------------------------------------------

    @case()
    def test_closing_in_the_middle_is_quick(self, trial: SourceUnitTrial) -> None:
        for reading in _interrupted(trial):
            patience = Deadline(self.closes_within)
            reading.close()
            assert not patience.passed, f"the reader took {patience.waited:.1f} s to close"

    @case()
    def test_closing_in_the_middle_leaves_nothing(
        self, trial: SourceUnitTrial, tmp_path: Path
    ) -> None:
        with nothing_left(tmp_path / "temporary"):
            for reading in _interrupted(trial):
                reading.close()

    @case()
    def test_closing_twice_does_nothing(self, trial: SourceUnitTrial) -> None:
        for reading in _interrupted(trial):
            reading.close()
            reading.reader.close()

    @case()
    def test_a_reader_that_never_started_can_be_closed(self, trial: SourceUnitTrial) -> None:
        trial.write_splits()
        Reading(trial.source(), trial.deadline, start=False).close()

    # --- Outages ----------------------------------------------------------------------------------

    @case(
        Capability.OUTAGES,
        since="1.3",
        after=(
            "test_splits_given_at_once_are_all_read",
            "test_a_reader_made_anew_at_any_position_gives_the_rest",
        ),
    )
    @pytest.mark.parametrize("behind", [0, 1])
    @pytest.mark.parametrize("outage", Outage)
    def test_an_outage_loses_and_doubles_no_row(
        self, trial: SourceUnitTrial, outage: Outage, behind: int
    ) -> None:
        """The reader waits or fails with a retryable error, but does not report the end."""
        trial.write_splits(3)
        source = trial.source()
        splits = splits_of(source)
        rows = trial.rows_written
        with reading_of(trial, source) as reading:
            error = reading.read_through(self.outage(outage), splits, behind=behind, rows=rows)
            if error is None:
                trial.assert_complete(source, reading.batches)
                return
            assert_worth_another_attempt(error)
            batches, state = reading.kept
        if not state and not batches:  # it failed during its first poll
            trial.assert_complete(source, trial.read(source, splits))
            return
        with reading_of(trial, source) as again:
            again.go_on_from(state)
            again.read(rows - sum(batch.num_rows for _, batch in batches))
        trial.assert_complete(source, batches + again.batches)

    @case(
        Capability.OUTAGES,
        since="1.3",
        after=(
            "test_an_outage_loses_and_doubles_no_row",
            "test_closing_in_the_middle_leaves_nothing",
        ),
    )
    def test_a_read_that_fails_leaves_nothing(self, trial: SourceUnitTrial, tmp_path: Path) -> None:
        """A failure also closes all handles."""
        trial.write_splits(3)
        source = trial.source()
        splits = splits_of(source)
        with nothing_left(tmp_path / "temporary"):
            for outage, behind in itertools.product(LEAVING, (0, 1)):
                with reading_of(trial, source) as reading:
                    reading.read_through(
                        self.outage(outage), splits, behind=behind, rows=trial.rows_written
                    )

    @case(Capability.REFUSALS, since="1.5", after="test_splits_given_at_once_are_all_read")
    def test_a_permanent_refusal_is_an_error_and_no_end(self, trial: SourceUnitTrial) -> None:
        """A reader that swallows it would have no rows for ever."""
        trial.write_splits(3)
        source = trial.source()
        first, *others = splits_of(source)
        with reading_of(trial, source, [first]) as reading:
            reading.read_some()
            with trial.context.refusal(), pytest.raises(ConnectorError) as refused:
                reading.read_to_end(others)
        assert not isinstance(refused.value, RetryableError), (
            f"a retry cannot help: {refused.value}"
        )

    # --- The source as a factory ------------------------------------------------------------------

    @case(after="test_splits_given_at_once_are_all_read")
    @pytest.mark.parametrize("pickling", _PICKLING)
    def test_a_pickled_source_is_the_same(self, trial: SourceUnitTrial, pickling: str) -> None:
        trial.write_splits(2)
        source = _copy(trial.source(), pickling)
        assert source.boundedness() is trial.source().boundedness()
        assert source.schema().equals(trial.source().schema())
        trial.assert_complete(source, trial.read(source, splits_of(source)))

    @case(after="test_a_pickled_source_is_the_same")
    def test_a_source_that_made_a_reader_can_still_be_pickled(self, trial: SourceUnitTrial) -> None:
        trial.write_splits()
        source = trial.source()
        with reading_of(trial, source, splits_of(source)) as reading:
            reading.poll()
            _copy(source, "pickle")
            _copy(source, "cloudpickle")

    # --- Bad records and secrets ------------------------------------------------------------------

    @case(Capability.POISON_READS, after="test_a_split_is_read_to_its_end")
    def test_a_bad_record_is_handed_over_with_its_place(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(2, poison=True)
        source = trial.source()
        splits = splits_of(source)
        with reading_of(trial, source, splits) as reading:
            for status in reading.steps():
                complete = reading.count >= trial.rows_written and len(reading.bad_records) >= 2
                if complete and status is not InputStatus.MORE_AVAILABLE:
                    break
            trial.assert_complete(source, reading.batches)
            assert len(reading.bad_records) == 2
            for record in reading.bad_records:
                assert record.split_id in {split.split_id for split in splits}, record
                assert record.position, "the bad record has no position in its split"
                assert record.reason, "the bad record has no reason"

    @case(
        Capability.POISON_READS,
        since="1.3",
        after=(
            "test_a_bad_record_is_handed_over_with_its_place",
            "test_the_end_comes_behind_the_last_row_and_stays",
            "test_a_reader_made_anew_at_any_position_gives_the_rest",
        ),
    )
    def test_bad_records_between_others_move_no_position(self, trial: SourceUnitTrial) -> None:
        """A new reader at any position returns the remaining rows and the remaining bad records."""
        source, cuts, batches, places = _read_around_poison(trial)
        for emitted, met, state in cuts:
            before = batches[:emitted]
            left = trial.rows_written - sum(batch.num_rows for _, batch in before)
            print(f"resume after {emitted} batches and {met} bad records")
            with reading_of(trial, source) as again:
                again.go_on_from(state)
                _read_rest(trial, again, left)
                trial.assert_complete(source, before + again.batches)
                found = met + len(again.bad_records)
                assert found == len(places), f"{found} of {len(places)} bad records were reported"

    @case(
        Capability.POISON_READS,
        since="1.3",
        after="test_bad_records_between_others_move_no_position",
    )
    def test_a_bad_record_has_one_place_wherever_a_read_begins(
        self, trial: SourceUnitTrial
    ) -> None:
        """The position is relative to the split, not to a batch or a restart."""
        source, cuts, batches, places = _read_around_poison(trial)
        assert len(set(places)) == len(places), f"bad records share a position: {places}"
        for emitted, met, state in cuts:
            left = trial.rows_written - sum(batch.num_rows for _, batch in batches[:emitted])
            with reading_of(trial, source) as again:
                again.go_on_from(state)
                _read_rest(trial, again, left)
                others = [place for place in again.bad_places if place not in places]
                assert not others, f"a bad record has another position after {met} others: {others}"

    @case(Capability.SECRETS, after="test_a_split_is_read_to_its_end")
    def test_no_secret_is_shown(
        self, trial: SourceUnitTrial, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        """Neither displayed nor stored text shows it."""
        caplog.set_level(logging.DEBUG)
        trial.write_splits()
        source = trial.source()
        serializer = source.split_serializer()
        splits = splits_of(source)
        seen = [repr(source), str(source), repr(splits)]
        seen += [serializer.serialize(split).decode(errors="replace") for split in splits]
        with reading_of(trial, source, splits) as reading:
            reading.read(trial.rows_written)
            seen.append(repr(reading.reader))
            reading.close()
            try:
                reading.add(splits)
                reading.poll()
            except Exception as error:  # a closed reader raises an error or does nothing
                seen += error_texts(error)
        assert_unseen(trial.context.secrets(), [*seen, caplog.text], tmp_path / "nowhere")

    @case(
        Capability.OUTAGES,
        Capability.SECRETS,
        since="1.3",
        after=("test_an_outage_loses_and_doubles_no_row", "test_no_secret_is_shown"),
    )
    def test_no_secret_is_shown_by_a_failure(
        self, trial: SourceUnitTrial, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        """The causes and notes of an error do not show it either."""
        caplog.set_level(logging.DEBUG)
        trial.write_splits(3)
        source = trial.source()
        splits = splits_of(source)
        seen = []
        for outage, behind in itertools.product(FAILING, (0, 1)):
            with reading_of(trial, source) as reading:
                error = reading.read_through(
                    self.outage(outage), splits, behind=behind, rows=trial.rows_written
                )
                if error is not None:
                    seen += error_texts(error)
        assert_unseen(trial.context.secrets(), [*seen, caplog.text], tmp_path / "nowhere")


def _read_around_poison(
    trial: SourceUnitTrial,
) -> tuple[Any, list[tuple[int, int, Any]], Any, list[Any]]:
    """Read a split with bad records among others.

    Returns:
        The source; the numbers of batches and bad records and the state after each poll; all
        batches; and the positions of all bad records.
    """
    trial.write_split_with_poison(*_AROUND_POISON)
    source = trial.source()
    bad = len(_AROUND_POISON) - 1
    cuts = []
    with reading_of(trial, source, splits_of(source)) as reading:
        cuts.append((0, 0, reading.state()))
        for _ in reading.steps():
            cuts.append((len(reading.batches), len(reading.bad_records), reading.state()))
            if reading.count >= trial.rows_written and len(reading.bad_records) >= bad:
                break
        assert len(reading.bad_records) == bad, (
            f"{len(reading.bad_records)} of {bad} bad records were reported"
        )
        return source, cuts, reading.batches, reading.bad_places


def _read_rest(trial: SourceUnitTrial, reading: Reading, rows: int) -> None:
    """Read to the end of the splits, or this number of rows if there is no end."""
    if trial.boundednesses[0] is Boundedness.BOUNDED:
        reading.reader.notify_no_more_splits()
        for _ in reading.steps():
            pass
    else:
        reading.read(rows)


def _interrupted(trial: SourceUnitTrial) -> Iterator[Reading]:
    """Readers in use: before a poll, after the first batch, and in a later split."""
    trial.write_splits(3)
    source = trial.source()
    splits = splits_of(source)
    for rows in (0, 1, ROWS_PER_SPLIT + 1):
        with reading_of(trial, source, splits) as reading:
            if rows:
                for _ in reading.steps():
                    if reading.count >= rows:
                        break
            yield reading


def _copy(source: Any, pickling: str) -> Any:
    dumps: Callable[[Any], bytes] = pickle.dumps
    if pickling == "cloudpickle":
        from pyspark import cloudpickle

        dumps = cloudpickle.dumps
    return pickle.loads(dumps(source))
