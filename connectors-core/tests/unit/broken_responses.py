# SPDX-License-Identifier: Apache-2.0
"""Committers and writers that a lost response breaks, each with the case that must detect it."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pyarrow as pa
from toy_disk import available, responded, response
from toy_sink import DiskCommitter, DiskWriter

from connectors_core.errors import DataLossError, RetryableError
from connectors_core.testing.directory_sink import StagedFile

OF_A_COMMIT = "test_a_lost_response_of_a_commit_loses_and_doubles_nothing"
OF_A_WRITER = "test_a_lost_response_of_a_writer_loses_and_doubles_nothing"

# --- Committers ---------------------------------------------------------------------------------


class StepByStepCommitter(DiskCommitter):
    """A committer whose commit is several steps, after which there is always one copy."""

    def commit(self, requests):
        for request in requests:
            try:
                available()
                self.commit_file(request, Path(request.committable.staged))
            except RetryableError as error:
                self.unavailable(request, error)

    def copies(self, staged):
        return list(self._path.glob(f"{staged.stem}-*.arrow"))


class CopiesBeforeItRemoves(StepByStepCommitter):
    """Copies a file to a new name. Only the removal of the staged file ends the commit."""

    def commit_file(self, request, staged):
        if staged.exists():
            shutil.copy(staged, self._path / f"{staged.stem}-{uuid.uuid4().hex}.arrow")
            responded()
            staged.unlink()
            responded()
        elif self.copies(staged):
            request.signal_already_committed()
        else:
            request.signal_failed(DataLossError(f"{staged} is gone"))


class RemembersACommitBeforeItCopies(StepByStepCommitter):
    """Notes a commit before the rows are visible."""

    def commit_file(self, request, staged):
        note = self._path / f"{staged.stem}.committed"
        if note.exists():
            request.signal_already_committed()
        elif staged.exists():
            note.touch()
            responded()
            staged.rename(self._path / staged.name)
            responded()
        else:
            request.signal_failed(DataLossError(f"{staged} is gone"))


class ClientThatCommitsAgain(StepByStepCommitter):
    """Repeats a request without a response, although a second one is not a first one."""

    def commit_file(self, request, staged):
        if self.copies(staged):
            request.signal_already_committed()
        elif staged.exists():
            try:
                self.copy(staged)
            except RetryableError:
                self.copy(staged)
        else:
            request.signal_failed(DataLossError(f"{staged} is gone"))

    def copy(self, staged):
        shutil.copy(staged, self._path / f"{staged.stem}-{uuid.uuid4().hex}.arrow")
        responded()


class TakesALostResponseForALoss(DiskCommitter):
    def unavailable(self, request, error):
        if Path(request.committable.staged).exists():
            super().unavailable(request, error)
        else:
            request.signal_failed(DataLossError("it is gone"))


class CommitterThatRaisesALostResponse(DiskCommitter):
    def commit(self, requests):
        super().commit(requests)
        response()


# --- Writers ------------------------------------------------------------------------------------


class WritesABatchAgain(DiskWriter):
    def write(self, batch):
        try:
            super().write(batch)
        except RetryableError:
            super().write(batch)


class BeginsItsFileAgain(DiskWriter):
    """Opens its file again after a failure, as if nothing had been written."""

    def write(self, batch):
        try:
            super().write(batch)
        except RetryableError:
            self.close()
            self._sink = pa.OSFile(self._file.staged, "wb")
            self._writer = pa.ipc.new_stream(self._sink, batch.schema)
            super().write(batch)


class StagesItsFileAgain(DiskWriter):
    """Stages its rows under a second name after a failure, next to the first one."""

    again = None

    def flush(self):
        try:
            super().flush()
        except RetryableError:
            staged = Path(self._file.staged)
            copy = staged.with_name(f"{staged.stem}-again.arrow")
            self.again = StagedFile(str(shutil.copy(staged, copy)), copy.name)

    def prepare_commit(self):
        return [*super().prepare_commit(), *([self.again] if self.again else [])]


class WriterThatRaisesALostResponse(DiskWriter):
    def flush(self):
        super().flush()
        response()


LOST_IN_COMMITS = dict.fromkeys(
    (
        CopiesBeforeItRemoves,
        RemembersACommitBeforeItCopies,
        ClientThatCommitsAgain,
        TakesALostResponseForALoss,
        CommitterThatRaisesALostResponse,
    ),
    OF_A_COMMIT,
)
LOST_IN_WRITERS = dict.fromkeys(
    (
        WritesABatchAgain,
        BeginsItsFileAgain,
        StagesItsFileAgain,
        WriterThatRaisesALostResponse,
    ),
    OF_A_WRITER,
)
