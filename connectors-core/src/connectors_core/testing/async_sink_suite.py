# SPDX-License-Identifier: Apache-2.0
"""The unit suite of `AsyncSink`: its requests, and a system that rejects them or is down."""

from __future__ import annotations

import contextlib
import logging
import pickle
from abc import abstractmethod
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Final

import pyarrow as pa
import pytest

from connectors_core.errors import BadRecordError, ConnectorError, RetryableError
from connectors_core.records import RecordPolicy
from connectors_core.testing.async_sink_unit import BOUNDS, AsyncSinkTrial, Writing
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.context import AsyncSinkExternalContext, RequestFault
from connectors_core.testing.traces import assert_unseen, error_texts, nothing_left
from connectors_core.testing.trial import PipelineSuite

_ROWS: Final = 23
_LETTERS: Final = 1000
# Only the text counts. Whatever else an entry needs reduces the number of entries.
_MOST_LONG_ENTRIES: Final = BOUNDS.max_batch_size_in_bytes // _LETTERS
_SHORT: Final = timedelta(milliseconds=300)


class AsyncSinkWriterTestSuite(PipelineSuite):
    """Cases for the writer of an `AsyncSink`, without a pipeline.

    Derive as from `SinkTestSuite`.

    Attributes:
        seconds: The timeout for each call of a writer.
    """

    seconds: ClassVar[float] = 15.0

    @abstractmethod
    def external_context(self, folder: Path) -> AsyncSinkExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> Iterator[AsyncSinkTrial]:
        """Return the external system and the rows of a case."""
        folder = tmp_path / "external"
        folder.mkdir()
        print(f"seed: {self.seed}")
        with contextlib.closing(self.external_context(folder)) as context:
            yield AsyncSinkTrial(context, self.seed, self.seconds)

    # --- Requests -------------------------------------------------------------------------------

    @case(since="1.2")
    def test_all_rows_are_taken(self, trial: AsyncSinkTrial) -> None:
        rows = trial.rows(_ROWS)
        with trial.writing() as writing:
            writing.write(rows)
            writing.flush()
        trial.assert_taken(rows)

    @case(since="1.2", after="test_all_rows_are_taken")
    def test_a_request_has_no_more_entries_than_the_bound(self, trial: AsyncSinkTrial) -> None:
        with trial.writing() as writing:
            writing.write(trial.rows(_ROWS))
            writing.flush()
        sizes = [len(request.entries) for request in writing.requests.all]
        assert max(sizes) <= BOUNDS.max_batch_size, f"requests of {sizes} entries"

    @case(since="1.2", after="test_a_request_has_no_more_entries_than_the_bound")
    def test_a_request_has_no_more_bytes_than_the_bound(self, trial: AsyncSinkTrial) -> None:
        """The text of a row counts toward the size of its entry."""
        with trial.writing() as writing:
            writing.write(trial.rows(_ROWS, letters=_LETTERS))
            writing.flush()
        most = max(len(request.entries) for request in writing.requests.all)
        assert most <= _MOST_LONG_ENTRIES, f"{most} entries with {_LETTERS} letters in one request"

    @case(since="1.2", after="test_a_request_has_no_more_bytes_than_the_bound")
    def test_an_entry_above_the_limit_is_a_bad_record(self, trial: AsyncSinkTrial) -> None:
        rows = trial.rows(_ROWS)
        with trial.writing(RecordPolicy.skip()) as writing:
            writing.write(trial.rows(1, letters=BOUNDS.max_record_size_in_bytes + 1))
            writing.write(rows)
            writing.flush()
            assert writing.errors.summary()["skipped"] == 1
        trial.assert_taken(rows)

    @case(since="1.2", after="test_all_rows_are_taken")
    def test_flush_waits_for_every_answer(self, trial: AsyncSinkTrial) -> None:
        rows = trial.rows(2)
        trial.context.treat(RequestFault.STALL)
        with trial.writing(request_timeout=timedelta(minutes=5)) as writing:
            writing.write(rows)
            call = writing.begin(writing.writer.flush)
            with contextlib.suppress(TimeoutError):
                call.result(_SHORT.total_seconds())
            assert not call.done(), "flush ended before any entry was accepted"
            trial.context.treat(None)
            writing.end(call, "flush")
            assert not writing.requests.open()
        trial.assert_taken(rows)

    @case(since="1.2", after="test_flush_waits_for_every_answer")
    def test_no_more_is_held_or_on_its_way_than_the_bounds_allow(
        self, trial: AsyncSinkTrial
    ) -> None:
        """The writer waits while the system stalls, and continues afterward."""
        rows = trial.rows(3 * BOUNDS.max_buffered_requests)
        trial.context.treat(RequestFault.STALL)
        with trial.writing(request_timeout=timedelta(minutes=5)) as writing:
            call = writing.begin(lambda: _write_and_flush(writing, rows))
            full = BOUNDS.max_buffered_requests
            writing.wait(lambda: call.done() or writing.held >= full, "the buffer is full")
            assert not call.done(), "the writer ended before any entry was accepted"
            trial.context.treat(None)
            writing.end(call, "writing")
            beside = max(request.beside for request in writing.requests.all)
            assert beside <= BOUNDS.max_in_flight_requests, f"{beside} concurrent requests"
        trial.assert_taken(rows)

    # --- Temporary rejections -------------------------------------------------------------------

    @case(since="1.2", after="test_all_rows_are_taken")
    def test_only_what_is_refused_is_sent_again(self, trial: AsyncSinkTrial) -> None:
        rows = trial.rows(BOUNDS.max_batch_size)
        trial.context.treat(RequestFault.REFUSE_SOME, 1)
        with trial.writing() as writing:
            writing.write(rows)
            writing.flush()
        first = writing.requests.all[0]
        again = first.again or ()
        assert 0 < len(again) < len(first.entries), (
            f"the writer retries {len(again)} of {len(first.entries)} entries"
        )
        for entry in first.entries:
            assert writing.requests.times_sent(entry) == 1 + (entry in again)
        trial.assert_taken(rows)

    @case(since="1.2", after="test_all_rows_are_taken")
    def test_a_request_that_is_refused_for_now_is_sent_again(self, trial: AsyncSinkTrial) -> None:
        rows = trial.rows(_ROWS)
        trial.context.treat(RequestFault.REFUSE, 3)
        with trial.writing() as writing:
            writing.write(rows)
            writing.flush()
        trial.assert_taken(rows)

    @case(since="1.2", after="test_all_rows_are_taken")
    def test_a_request_whose_answer_was_lost_is_sent_again(self, trial: AsyncSinkTrial) -> None:
        """The service accepted it, but the writer cannot know that."""
        rows = trial.rows(_ROWS)
        trial.context.treat(RequestFault.LOSE_ANSWER, 1)
        with trial.writing(max_in_flight_requests=1) as writing:
            writing.write(rows)
            writing.flush()
        for entry in writing.requests.all[0].entries:
            assert writing.requests.times_sent(entry) > 1, (
                "an entry without a response counts as accepted"
            )
        trial.assert_taken(rows)

    @case(since="1.2", after="test_a_request_that_is_refused_for_now_is_sent_again")
    def test_a_system_that_stays_busy_ends_the_attempt(self, trial: AsyncSinkTrial) -> None:
        """The writer fails in time, with an error that names the option."""
        trial.context.treat(RequestFault.REFUSE)
        with trial.writing(retry_timeout=_SHORT) as writing:
            with pytest.raises(RetryableError) as failure:
                _write_and_flush(writing, trial.rows(1))
            assert failure.value.option, "the error names no option"
            assert len(writing.requests.all) > 1, "the entry was sent only once"

    @case(
        Capability.KEYS,
        since="1.2",
        after=(
            "test_only_what_is_refused_is_sent_again",
            "test_a_request_whose_answer_was_lost_is_sent_again",
        ),
    )
    @pytest.mark.parametrize("fault", [RequestFault.REFUSE_SOME, RequestFault.LOSE_ANSWER])
    def test_entries_of_a_key_are_sent_one_after_the_other(
        self, trial: AsyncSinkTrial, fault: RequestFault
    ) -> None:
        """The order also holds after failures: later entries wait for a rejected one."""
        splits = [trial.rows(_ROWS // 3, split=split) for split in range(3)]
        trial.context.treat(fault, 3)
        with trial.writing() as writing:
            writing.write(pa.concat_tables(splits).sort_by("seq"))
            writing.flush()
            seen = set()
            for request in writing.requests.all:
                keys = set(request.keys)
                assert len(keys) == len(request.keys), "a request has two entries with the same key"
                assert request.keys_beside.isdisjoint(keys), "a key is in flight twice"
                seen |= keys
        assert None not in seen, "an entry has no key"
        assert len(seen) == len(splits), f"{len(seen)} keys of {len(splits)} splits"
        trial.assert_taken(*splits)

    # --- Permanent rejections -------------------------------------------------------------------

    @case(since="1.2", after="test_all_rows_are_taken")
    def test_a_rejected_entry_goes_to_the_record_policy(self, trial: AsyncSinkTrial) -> None:
        """A rejected entry is reported once and not sent again. All others are accepted."""
        rows = trial.rows(_ROWS)
        trial.context.reject(seq=8)
        with trial.writing(RecordPolicy.skip(), retry_timeout=_SHORT) as writing:
            writing.write(rows)
            writing.flush()
            assert writing.errors.summary()["skipped"] == 1
            (entry,) = writing.requests.rejected
            assert writing.requests.times_sent(entry) == 1, "the entry was sent again"
        trial.assert_taken(pa.concat_tables([rows.slice(0, 8), rows.slice(9)]))

    @case(since="1.2", after="test_a_rejected_entry_goes_to_the_record_policy")
    def test_a_rejected_entry_can_be_a_dead_letter(self, trial: AsyncSinkTrial) -> None:
        """The dead letter contains the sent data."""
        trial.context.reject(seq=0)
        with trial.writing() as writing:
            with pytest.raises(BadRecordError) as failure:
                _write_and_flush(writing, trial.rows(1))
            assert failure.value.raw, "the bad record does not contain the sent data"

    @case(since="1.2", after="test_all_rows_are_taken")
    def test_what_is_refused_for_good_ends_the_attempt_at_once(self, trial: AsyncSinkTrial) -> None:
        trial.context.treat(RequestFault.REFUSE_FOR_GOOD)
        with trial.writing(retry_timeout=_SHORT) as writing:
            with pytest.raises(ConnectorError) as failure:
                _write_and_flush(writing, trial.rows(BOUNDS.max_batch_size))
            assert not isinstance(failure.value, RetryableError | BadRecordError), (
                f"the writer fails with {failure.value!r}"
            )
            assert len(writing.requests.all) == 1, "the entry was sent again"

    # --- Leaks and secrets ----------------------------------------------------------------------

    @case(since="1.2", after="test_all_rows_are_taken")
    def test_nothing_is_left_when_it_is_closed(self, trial: AsyncSinkTrial, tmp_path: Path) -> None:
        with nothing_left(tmp_path / "temporary"), trial.writing() as writing:
            writing.write(trial.rows(_ROWS))
            writing.flush()

    @case(since="1.2", after="test_nothing_is_left_when_it_is_closed")
    def test_nothing_is_left_when_it_is_closed_before_it_sent_anything(
        self, trial: AsyncSinkTrial, tmp_path: Path
    ) -> None:
        with nothing_left(tmp_path / "temporary"), trial.writing():
            pass

    @case(
        since="1.2",
        after=("test_nothing_is_left_when_it_is_closed", "test_flush_waits_for_every_answer"),
    )
    def test_nothing_is_left_when_it_is_closed_while_it_waits_for_an_answer(
        self, trial: AsyncSinkTrial, tmp_path: Path
    ) -> None:
        trial.context.treat(RequestFault.STALL)
        with (
            nothing_left(tmp_path / "temporary"),
            trial.writing(request_timeout=timedelta(minutes=5)) as writing,
        ):
            writing.write(trial.rows(2 * BOUNDS.max_batch_size))
            writing.wait(lambda: bool(writing.requests.open()), "a request is in flight")
        trial.context.treat(None)

    @case(since="1.2")
    def test_a_sink_survives_pickling(self, trial: AsyncSinkTrial) -> None:
        sink = trial.sink()
        assert type(pickle.loads(pickle.dumps(sink))) is type(sink)

    @case(
        Capability.SECRETS,
        since="1.2",
        after=(
            "test_a_rejected_entry_can_be_a_dead_letter",
            "test_what_is_refused_for_good_ends_the_attempt_at_once",
            "test_a_system_that_stays_busy_ends_the_attempt",
        ),
    )
    def test_a_secret_is_seen_in_no_error(
        self, trial: AsyncSinkTrial, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        """Logs do not show it either, after a wrong login, a busy system, or a bad entry."""
        caplog.set_level(logging.DEBUG)
        seen = [repr(trial.sink())]
        for fault in (RequestFault.REFUSE_FOR_GOOD, RequestFault.REFUSE, None):
            trial.context.treat(fault)
            if fault is None:
                trial.context.reject(seq=0)
            with trial.writing(retry_timeout=_SHORT) as writing:
                with pytest.raises(ConnectorError) as failure:
                    _write_and_flush(writing, trial.rows(1))
                seen += [*error_texts(failure.value), repr(writing.writer)]
        assert_unseen(trial.context.secrets(), [*seen, caplog.text], tmp_path / "none")


def _write_and_flush(writing: Writing, rows: pa.Table) -> None:
    writing.write(rows)
    writing.flush()
