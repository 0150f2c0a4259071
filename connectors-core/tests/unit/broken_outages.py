# SPDX-License-Identifier: Apache-2.0
"""Parts that are broken only during an outage, each with the case that detects it."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

from toy_connector import TOKEN, LogEnumerator, LogReader
from toy_disk import Disk, access, available
from toy_sink import TOKEN as SINK_TOKEN
from toy_sink import DiskCommitter

from connectors_core.errors import FatalError, RetryableError
from connectors_core.source import InputStatus
from connectors_core.testing import Outage
from connectors_core.testing.outages import LATE_SECONDS

LOST = "test_an_outage_loses_and_doubles_no_row"
EMPTY = "test_a_system_that_does_not_answer_is_not_an_empty_one"
RETRIED = "test_what_an_outage_keeps_from_being_committed_is_tried_again"
ROLLED_BACK = "test_a_rollback_that_an_outage_interrupts_is_finished_by_the_next"
SECRET = "test_no_secret_is_shown_by_a_failure"  # pragma: allowlist secret


def is_late():
    """Send a request, and return whether its response takes more than a second."""
    if Disk.now is not Outage.LATE:
        return False
    began = time.monotonic()
    available()
    return time.monotonic() - began > 1


@contextmanager
def token_in_the_cause(token):
    try:
        available()
    except RetryableError as error:
        cause = OSError(f"GET /?token={token}")
        raise RetryableError("the disk does not answer") from cause.with_traceback(
            error.__traceback__
        )
    yield


@contextmanager
def token_in_a_note(token):
    try:
        available()
    except RetryableError as error:
        error.add_note(f"the token was {token}")
        raise
    yield


# --- Readers and enumerators ---------------------------------------------------------------------


class RaisesWhatItsClientRaises:
    def available(self):
        access()


class LeavesAFileOpen:
    def available(self):
        self.file = os.open(self.source.folder, os.O_RDONLY)
        super().available()
        os.close(self.file)


class TellsItsToken:
    def available(self):
        with token_in_the_cause(TOKEN):
            pass


# --- Readers ------------------------------------------------------------------------------------


class TakesAnOutageForTheEnd(LogReader):
    def poll_next(self, output):
        try:
            return super().poll_next(output)
        except RetryableError:
            del self.splits[0]
            return InputStatus.MORE_AVAILABLE


class SkipsWhatItCannotRead(LogReader):
    def read(self, split):
        try:
            return super().read(split)
        except RetryableError:
            self.splits[0] = replace(split, position=split.end)
            return []


class BeginsAgainBehindAnOutage(LogReader):
    def read(self, split):
        try:
            return super().read(split)
        except RetryableError:
            self.splits = [replace(each, position=0) for each in self.splits]
            return []


class ConnectsInTheBackground(LogReader):
    """Has no rows before its connection is ready, and says that it has fetched."""

    def __init__(self, source, context):
        super().__init__(source, context)
        self.ready_at = time.monotonic() + (LATE_SECONDS if Disk.now is Outage.LATE else 0.0)

    def read(self, split):
        return super().read(split) if time.monotonic() > self.ready_at else []


class TakesALateResponseForAFailure(LogReader):
    def available(self):
        if Disk.now is Outage.LATE:
            raise FatalError("the disk does not answer in time")
        super().available()


class SkipsWhatIsLate(LogReader):
    def read(self, split):
        lines = super().read(split)
        if Disk.now is not Outage.LATE or not lines or split.position:
            return lines
        self.splits[self.splits.index(split)] = replace(split, position=len(lines[0]))
        return []


class ReaderThatRaisesWhatItsClientRaises(RaisesWhatItsClientRaises, LogReader):
    pass


class LeavesAFileOpenWhereItCannotRead(LeavesAFileOpen, LogReader):
    pass


class LeavesAThreadWhereItCannotRead(LogReader):
    def available(self):
        done = threading.Event()
        threading.Thread(target=done.wait, args=(60,), daemon=True).start()
        super().available()
        done.set()


class TellsItsTokenInTheCause(TellsItsToken, LogReader):
    pass


class TellsItsTokenInANote(LogReader):
    def available(self):
        with token_in_a_note(TOKEN):
            pass


class LogsItsTokenWhereItCannotRead(LogReader):
    def available(self):
        try:
            super().available()
        except RetryableError:
            logging.getLogger("toy").debug("not with %s", TOKEN)
            raise


OUTAGE_READERS = {
    TakesAnOutageForTheEnd: LOST,
    SkipsWhatItCannotRead: LOST,
    BeginsAgainBehindAnOutage: LOST,
    ReaderThatRaisesWhatItsClientRaises: LOST,
    LeavesAFileOpenWhereItCannotRead: "test_a_read_that_fails_leaves_nothing",
    LeavesAThreadWhereItCannotRead: "test_a_read_that_fails_leaves_nothing",
    TellsItsTokenInTheCause: SECRET,
    TellsItsTokenInANote: SECRET,
    LogsItsTokenWhereItCannotRead: SECRET,
}

# --- Enumerators --------------------------------------------------------------------------------


class TakesAnOutageForNothing(LogEnumerator):
    def discover(self):
        try:
            return super().discover()
        except RetryableError:
            return []


class FindsAllAgainBehindAnOutage(LogEnumerator):
    """Forgets all splits when a discovery fails after a successful one."""

    def found(self, names, error):
        if error is not None and self.known:
            self.known, names, error = set(), (), None
        super().found(names, error)


class LosesWhatAppearedInAnOutage(LogEnumerator):
    """Treats all new data as read after a failed discovery."""

    failed = False

    def found(self, names, error):
        if error is not None and self.known:
            self.failed, names, error = True, (), None
        elif self.failed:
            self.known |= set(names)
        super().found(names, error)


class EnumeratorThatRaisesWhatItsClientRaises(RaisesWhatItsClientRaises, LogEnumerator):
    pass


class LeavesAFileOpenWhereItCannotLook(LeavesAFileOpen, LogEnumerator):
    pass


class TellsItsTokenWhereItCannotLook(TellsItsToken, LogEnumerator):
    pass


OUTAGE_ENUMERATORS = {
    TakesAnOutageForNothing: EMPTY,
    EnumeratorThatRaisesWhatItsClientRaises: EMPTY,
    FindsAllAgainBehindAnOutage: "test_an_outage_between_two_looks_loses_and_doubles_no_split",
    LosesWhatAppearedInAnOutage: "test_an_outage_between_two_looks_loses_and_doubles_no_split",
    LeavesAFileOpenWhereItCannotLook: "test_a_look_that_fails_leaves_nothing",
    TellsItsTokenWhereItCannotLook: SECRET,
}

# --- Committers ---------------------------------------------------------------------------------


class DropsWhatItShouldRetry(DiskCommitter):
    def unavailable(self, request, error):
        pass


class GivesUpAtOnce(DiskCommitter):
    def unavailable(self, request, error):
        request.signal_failed(FatalError(str(error)))


class TakesAnOutageForAnEarlierCommit(DiskCommitter):
    def unavailable(self, request, error):
        request.signal_already_committed()


class CommitterThatRaisesWhatItsClientRaises(DiskCommitter):
    def commit(self, requests):
        access()
        super().commit(requests)


class SweepsOnceThoughItFailed(DiskCommitter):
    failed: ClassVar[set] = set()

    def sweep(self, checkpoint_id):
        if (self._path, checkpoint_id) in self.failed:
            return
        try:
            super().sweep(checkpoint_id)
        except RetryableError:
            self.failed.add((self._path, checkpoint_id))
            raise


class SweeperThatRaisesWhatItsClientRaises(DiskCommitter):
    def sweep(self, checkpoint_id):
        access()
        super().sweep(checkpoint_id)


class SweepsNothingBehindAFailure(DiskCommitter):
    failed: ClassVar[set] = set()

    def sweep(self, checkpoint_id):
        try:
            available()
        except RetryableError:
            self.failed.add(self._path)
        if self._path not in self.failed:
            super().sweep(checkpoint_id)


class LeavesAFileOpenWhereItCannotCommit(DiskCommitter):
    def commit(self, requests):
        file = os.open(self._path, os.O_RDONLY)
        available()
        os.close(file)
        super().commit(requests)


class TellsItsTokenWhereItCannotCommit(DiskCommitter):
    def commit(self, requests):
        with token_in_a_note(SINK_TOKEN):
            super().commit(requests)


class TellsItsTokenWhereItCannotRecover(DiskCommitter):
    def recover(self, last_decided):
        with token_in_the_cause(SINK_TOKEN):
            super().recover(last_decided)


OUTAGE_COMMITTERS = {
    DropsWhatItShouldRetry: RETRIED,
    GivesUpAtOnce: RETRIED,
    TakesAnOutageForAnEarlierCommit: RETRIED,
    CommitterThatRaisesWhatItsClientRaises: RETRIED,
    SweepsOnceThoughItFailed: ROLLED_BACK,
    SweeperThatRaisesWhatItsClientRaises: ROLLED_BACK,
    SweepsNothingBehindAFailure: ROLLED_BACK,
    LeavesAFileOpenWhereItCannotCommit: "test_a_commit_that_fails_leaves_nothing",
    TellsItsTokenWhereItCannotCommit: SECRET,
    TellsItsTokenWhereItCannotRecover: SECRET,
}
