# SPDX-License-Identifier: Apache-2.0
"""Broken sources of systems that keep, refuse, or delay rows, which the suites must detect."""

from __future__ import annotations

import threading
from dataclasses import replace

from toy_connector import NOT_COMMITTED, LogEnumerator, LogReader

from connectors_core.errors import ConfigurationError, RetryableError
from connectors_core.source import InputStatus

ACKNOWLEDGED = "test_rows_are_acknowledged_once_they_are_committed"
REFUSED = "test_a_permanent_refusal_in_the_middle_ends_the_pipeline"
OUT_OF_ORDER = "test_rows_that_commit_out_of_order_are_read"


# --- Acknowledgements ----------------------------------------------------------------------------


class AcknowledgesNothing(LogEnumerator):
    def positions_committed(self, checkpoint_id, splits, finished):
        pass


class AcknowledgesWhatItAssigns(LogEnumerator):
    def assign(self):
        self.acknowledge({each.split_id: self.size(each.split_id) for each in self.waiting})
        super().assign()


class AcknowledgesOnlyItsFirstSplit(LogEnumerator):
    def positions_committed(self, checkpoint_id, splits, finished):
        first = [split for split in splits if split.split_id == "000.log"]
        super().positions_committed(checkpoint_id, first, finished)


# --- Refusals ------------------------------------------------------------------------------------


class SwallowsEveryError(LogReader):
    """Has no rows for ever."""

    def read(self, split):
        try:
            return super().read(split)
        except Exception:
            return []


class TakesARefusalForTheEnd(LogReader):
    def poll_next(self, output):
        try:
            return super().poll_next(output)
        except ConfigurationError:
            del self.splits[0]
            return InputStatus.MORE_AVAILABLE


class RetriesARefusal(LogReader):
    def read(self, split):
        try:
            return super().read(split)
        except ConfigurationError as error:
            raise RetryableError("the folder does not answer") from error


REFUSED_READERS = dict.fromkeys(
    (SwallowsEveryError, TakesARefusalForTheEnd, RetriesARefusal),
    "test_a_permanent_refusal_is_an_error_and_no_end",
)


# --- Memory --------------------------------------------------------------------------------------


class FetchesPausedSplits(LogReader):
    """Keeps all rows of a paused split until it is resumed."""

    def __init__(self, source, context):
        super().__init__(source, context)
        self.fetched = []

    def poll_next(self, output):
        for split in self.splits:
            if split.split_id in self.paused and not self.fetched:
                self.fetched.append(self.source.path_of(split).read_bytes())
        return super().poll_next(output)


class FetchesWholeSplits(LogReader):
    def begun(self, split):
        self.whole = self.source.path_of(split).read_bytes().splitlines()
        return super().begun(split)


class FetchesInTheBackground(LogReader):
    """Has a queue without a limit."""

    thread = None

    def read(self, split):
        if self.thread is None:
            self.queue = []
            self.thread = threading.Thread(target=self.fetch, args=(split,))
            self.thread.start()
        return super().read(split)

    def fetch(self, split):
        with self.source.path_of(split).open("rb") as file:
            self.queue += file

    def close(self):
        if self.thread is not None:
            self.thread.join()
        super().close()


GREEDY_READERS = dict.fromkeys(
    (FetchesPausedSplits, FetchesWholeSplits, FetchesInTheBackground),
    "test_rows_that_no_one_takes_do_not_fill_the_memory",
)


# --- Rows that commit late -----------------------------------------------------------------------


class ReadsBehindTheGreatestKey(LogReader):
    """Continues after the newest visible row, as a poll with ``WHERE id > :last`` does."""

    def read(self, split):
        lines = super().read(split)
        hidden = 0 if lines else self.hidden(split)
        if hidden:
            self.skip(split, hidden)
        return lines

    def hidden(self, split):
        """Return the bytes of the rows at the position that are not visible before visible ones."""
        with self.source.path_of(split).open("rb") as file:
            file.seek(split.position)
            rest = file.readlines()
        visible = (n for n, line in enumerate(rest) if not line.startswith(NOT_COMMITTED))
        return len(b"".join(rest[: next(visible, 0)]))

    def skip(self, split, size):
        moved = replace(split, position=split.position + size)
        self.splits[self.splits.index(split)] = moved


class WaitsAWhileForSmallerKeys(ReadsBehindTheGreatestKey):
    polls = 0

    def skip(self, split, size):
        self.polls += 1
        if self.polls > 3:
            super().skip(split, size)


class CountsHiddenRows(ReadsBehindTheGreatestKey):
    """Continues after the number of rows that it has seen, also of those that are not visible."""

    def hidden(self, split):
        with self.source.path_of(split).open("rb") as file:
            file.seek(split.position)
            rest = file.readlines()
        return len(b"".join(line for line in rest if line.startswith(NOT_COMMITTED)))
