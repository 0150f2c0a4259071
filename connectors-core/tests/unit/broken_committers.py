# SPDX-License-Identifier: Apache-2.0
"""Broken committers, each with the case that must detect it. See `broken_units`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from toy_sink import LeasedTokenSink, TokenSink

from connectors_core.errors import StateCorruptedError
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.sink import CommitOutcome, SupportsCommitTasks
from connectors_core.testing import ROWS
from connectors_core.testing.directory_sink import DirectoryWriter as _Writer
from connectors_core.testing.directory_sink import StagedFile, _Committer
from connectors_core.testing.leased_sink import LeasedWriter
from connectors_core.testing.leased_sink import _Committer as _LeasedCommitter


class ReusesAName(TokenSink):
    """Uses the same staged file for all attempts of a task."""

    def create_writer(self, context):
        return super().create_writer(replace(context, attempt_number=0, nonce="0"))


class CommitsNothing(_Committer):
    def commit(self, requests):
        pass


class LosesTheSecondCommit(_Committer):
    def commit(self, requests):
        for request in requests:
            if not Path(request.committable.staged).exists():
                request.signal_failed(StateCorruptedError("it is gone"))
            else:
                super().commit([request])


class KnowsOnlyItsOwnLife(_Committer):
    def __init__(self, path, uid):
        super().__init__(path, uid)
        self.done = set()

    def commit(self, requests):
        for request in requests:
            if request.committable in self.done:
                continue
            self.done.add(request.committable)
            if not Path(request.committable.staged).exists():
                request.signal_failed(StateCorruptedError("it is gone"))
            else:
                super().commit([request])


class CommitsInOrderOnly(_Committer):
    last = 0

    def commit(self, requests):
        for request in requests:
            epoch = int(request.committable.name[:10])
            if epoch < self.last:
                request.signal_failed(StateCorruptedError("too late"))
            else:
                self.last = epoch
                super().commit([request])


class NeedsRequests(_Committer):
    def commit(self, requests):
        assert requests
        super().commit(requests)


class SweepsNothing(_Committer):
    def sweep(self, checkpoint_id):
        pass


class SweepsWhatWasCommitted(_Committer):
    def sweep(self, checkpoint_id):
        super().sweep(checkpoint_id)
        for path in self._path.glob(f"{checkpoint_id:010d}-*"):
            path.unlink()


class SweepsOtherEpochs(_Committer):
    def sweep(self, checkpoint_id):
        shutil.rmtree(self._staging, ignore_errors=True)


class SweepsByPrefix(_Committer):
    def sweep(self, checkpoint_id):
        for folder in self._staging.glob("*"):
            if str(int(folder.name)).startswith(str(checkpoint_id)):
                shutil.rmtree(folder)


class SweepsOtherSinks(_Committer):
    def sweep(self, checkpoint_id):
        for folder in self._path.glob(f"_staging/*/{checkpoint_id:010d}"):
            shutil.rmtree(folder)


class SweepsOnce(_Committer):
    def sweep(self, checkpoint_id):
        shutil.rmtree(self._staging / f"{checkpoint_id:010d}")


class RaisesForWhatIsGone(_Committer):
    def commit(self, requests):
        super().commit(requests)
        for request in requests:
            if request.error is not None:
                raise request.error


class FailsWithAForeignError(_Committer):
    def commit(self, requests):
        super().commit(requests)
        for request in requests:
            if request.error is not None:
                request.signal_failed(FileNotFoundError(request.committable.staged))


class RecoversByStagingMore(_Committer):
    def recover(self, last_decided):
        if self._staging.exists():
            (self._staging / f"{last_decided:010d}").mkdir(exist_ok=True)
            (self._staging / f"{last_decided:010d}" / "recovered").touch()


class RecoversWhatIsLater(_Committer):
    def recover(self, last_decided):
        for folder in self._staging.glob("*"):
            if int(folder.name) > last_decided:
                shutil.rmtree(folder)


class RecoversWhatWasDecided(_Committer):
    def recover(self, last_decided):
        for folder in self._staging.glob("*"):
            if int(folder.name) <= last_decided:
                shutil.rmtree(folder)


class TidiesUpWhereAnotherWasFaster(_Committer):
    def commit(self, requests):
        super().commit(requests)
        if requests and all(r.outcome is CommitOutcome.ALREADY_COMMITTED for r in requests):
            shutil.rmtree(self._staging, ignore_errors=True)


class TidiesUpAtItsEnd(_Committer):
    committed = False

    def commit(self, requests):
        super().commit(requests)
        self.committed = True

    def close(self):
        if self.committed:
            shutil.rmtree(self._staging, ignore_errors=True)


class RecoversWithAFolderOnly(_Committer):
    def recover(self, last_decided):
        for folder in self._staging.iterdir():
            folder.stat()


class TakesCommittedRowsAway(_Committer):
    def close(self):
        for path in self._path.glob("*.arrow"):
            path.unlink()


class TakesStagedRowsAway(_Committer):
    def close(self):
        shutil.rmtree(self._staging, ignore_errors=True)


class EndsOnceOnly(_Committer):
    closed = False

    def close(self):
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class CommitsAtItsEnd(_Committer):
    def __init__(self, path, uid):
        super().__init__(path, uid)
        self.begun = []

    def commit(self, requests):
        self.begun += [request for request in requests if Path(request.committable.staged).exists()]

    def close(self):
        super().commit(self.begun)
        self.begun = []


class ShowsAFileBeforeItsRows(CommitsAtItsEnd):
    def commit(self, requests):
        super().commit(requests)
        for request in self.begun:
            with pa.OSFile(str(self._path / request.committable.name), "wb") as file:
                pa.ipc.new_stream(file, ROWS).close()


class ShowsItsStagedFile(_Committer):
    """Its committed file is complete as long as the staged one exists."""

    def commit(self, requests):
        for request in requests:
            final = self._path / request.committable.name
            if Path(request.committable.staged).exists() and not final.exists():
                final.symlink_to(request.committable.staged)
            else:
                super().commit([request])


class EmptiesAPlaceThatIsNewToIt(_Committer):
    def recover(self, last_decided):
        if last_decided == -1:
            for path in self._path.glob("*.arrow"):
                path.unlink()


class SweepsWhatOthersCommitted(_Committer):
    def __init__(self, path, uid):
        super().__init__(path, uid)
        self.own = path / f"_committed-{uid}"
        self.own.mkdir(exist_ok=True)

    def commit(self, requests):
        super().commit(requests)
        for request in requests:
            (self.own / request.committable.name).touch()

    def sweep(self, checkpoint_id):
        super().sweep(checkpoint_id)
        for path in self._path.glob(f"{checkpoint_id:010d}-*"):
            if not (self.own / path.name).exists():
                path.unlink()


class TakesFilesOfOthersForItsOwn(_Committer):
    """The name of a file has the number of its epoch and task alone."""

    def commit(self, requests):
        for request in requests:
            file = request.committable
            final = self._path / f"{file.name[:16]}.arrow"
            if final.exists():
                request.signal_already_committed()
            else:
                super().commit([request])
                if (self._path / file.name).exists():
                    (self._path / file.name).rename(final)


class ShowsRowsAtOnce(TokenSink):
    def create_writer(self, context):
        return _HastyWriter(self.path, context)


class _HastyWriter(_Writer):
    def flush(self):
        super().flush()
        staged = Path(self._file.staged)
        staged.rename(staged.parents[3] / staged.name)


class StoresAnotherName(TokenSink):
    def committable_serializer(self):
        return _Renaming(StagedFile)


class _Renaming(JsonDataclassSerializer):
    def deserialize(self, version, data):
        found = super().deserialize(version, data)
        return replace(found, staged=found.staged + ".moved")


class SlotOfItsNumber(LeasedTokenSink):
    """Stages into a slot that is derived from the task and the attempt number."""

    def create_writer(self, context):
        return WriterInASlotOfItsNumber(self.path, context)


class WriterInASlotOfItsNumber(LeasedWriter):
    def slot(self, context):
        return f"slot-{context.subtask_id}-{context.attempt_number}"


class OneGeneration(LeasedTokenSink):
    """Lets a late attempt replace the file of another one."""

    def create_writer(self, context):
        lease = replace(context.lease, generation="first")
        return LateWriter(self.path, replace(context, lease=lease))


class LateWriter(LeasedWriter):
    """Publishes a complete file directly in its final place."""

    def __init__(self, path, context):
        super().__init__(path, context)
        self.place = Path(self._file.staged)
        self.made = self.place.with_name(context.nonce)
        self.place.rename(self.made)

    def flush(self):
        super().flush()
        self.place.parent.mkdir(parents=True, exist_ok=True)
        if self.made.exists():
            self.made.rename(self.place)
        else:
            with pa.OSFile(str(self.place), "wb") as file:
                pa.ipc.new_stream(file, pa.schema([])).close()


class KnowsCommitsOfItsLease(_LeasedCommitter):
    """Counts a committable as lost if it is missing and was not committed under this lease."""

    def lease(self, checkpoint_id, number_of_writers):
        (self._path / "leased").write_text("again")
        return super().lease(checkpoint_id, number_of_writers)

    def commit(self, requests):
        leases = self._path / "leased"
        for request in requests:
            if leases.exists() and leases.read_text() == "again" and self.is_there(request):
                request.signal_lost()
            else:
                super().commit([request])
                leases.write_text("committed")

    def is_there(self, request):
        return (self._path / request.committable.name).exists()


class FailsForWhatIsLost(_LeasedCommitter):
    def commit(self, requests):
        super().commit(requests)
        for request in requests:
            if request.outcome is CommitOutcome.LOST:
                request.signal_failed(StateCorruptedError("it is gone"))


class ForgetsWhatItLost(_LeasedCommitter):
    """Reports a loss only once. After that, the loss counts as committed."""

    def commit(self, requests):
        super().commit(requests)
        for request in requests:
            note = self._path / "lost.txt"
            if request.outcome is CommitOutcome.LOST:
                if note.exists() and note.read_text() == request.committable.name:
                    request.signal_already_committed()
                note.write_text(request.committable.name)


class TaskRemembersItsCommits(TokenSink, SupportsCommitTasks):
    """Lets every task find out by itself what is committed."""

    def create_task_committer(self, context):
        return KnowsOnlyItsOwnLife(self.path, context.sink_uid)


class TaskStagesAgain(TokenSink, SupportsCommitTasks):
    """Brings back a staged file that it does not find."""

    def create_task_committer(self, context):
        return _Restaging(self.path, context.sink_uid)


class _Restaging(_Committer):
    def commit(self, requests):
        for request in requests:
            staged = Path(request.committable.staged)
            staged.parent.mkdir(parents=True, exist_ok=True)
            staged.touch()
        super().commit(requests)


LEASED = {
    SlotOfItsNumber: "test_attempts_of_one_number_have_leases_of_their_own",
    OneGeneration: "test_an_attempt_of_the_driver_before_changes_nothing",
    KnowsCommitsOfItsLease: "test_a_commit_is_known_after_another_lease",
    FailsForWhatIsLost: "test_what_is_lost_is_known_and_written_again",
    ForgetsWhatItLost: "test_what_is_lost_is_lost_in_every_life",
}

COMMITTERS = {
    ShowsRowsAtOnce: "test_nothing_is_visible_before_the_commit",
    CommitsNothing: "test_a_commit_makes_rows_visible",
    TakesCommittedRowsAway: "test_rows_stay_when_the_committer_is_closed",
    LosesTheSecondCommit: "test_a_second_commit_changes_nothing",
    ReusesAName: "test_an_attempt_that_lost_changes_nothing",
    KnowsOnlyItsOwnLife: "test_another_life_commits_the_rest",
    CommitsInOrderOnly: "test_epochs_are_committed_in_any_order",
    StoresAnotherName: "test_committables_are_committed_as_they_were_stored",
    NeedsRequests: "test_an_epoch_without_rows_is_committed",
    SweepsNothing: "test_a_sweep_removes_what_nobody_decided_on",
    SweepsWhatWasCommitted: "test_a_sweep_leaves_committed_rows",
    SweepsOtherEpochs: "test_a_sweep_leaves_other_epochs",
    SweepsByPrefix: "test_a_sweep_leaves_other_epochs",
    SweepsOtherSinks: "test_other_sinks_are_left_alone",
    SweepsOnce: "test_a_sweep_can_be_repeated",
    RaisesForWhatIsGone: "test_what_was_swept_fails_alone",
    FailsWithAForeignError: "test_what_was_swept_fails_alone",
    RecoversByStagingMore: "test_recovery_removes_what_was_not_decided",
    RecoversWhatIsLater: "test_recovery_leaves_what_a_later_driver_staged",
    TidiesUpWhereAnotherWasFaster: (
        "test_a_committer_that_resumes_leaves_what_its_successor_prepared"
    ),
    TidiesUpAtItsEnd: "test_a_committer_that_resumes_leaves_what_its_successor_prepared",
    RecoversWhatWasDecided: "test_recovery_leaves_what_was_decided",
    RecoversWithAFolderOnly: "test_recovery_where_there_was_never_anything",
    TaskRemembersItsCommits: "test_copies_of_a_task_that_commits_change_nothing",
    TaskStagesAgain: "test_copies_of_a_task_that_commits_change_nothing",
    EndsOnceOnly: "test_closing_twice_does_nothing",
    TakesStagedRowsAway: "test_closing_one_committer_leaves_the_others",
    CommitsAtItsEnd: "test_a_commit_makes_rows_visible",
    ShowsAFileBeforeItsRows: "test_a_commit_makes_rows_visible",
    ShowsItsStagedFile: "test_a_sweep_leaves_committed_rows",
    EmptiesAPlaceThatIsNewToIt: "test_rows_of_other_writers_stay",
    SweepsWhatOthersCommitted: "test_rows_of_other_writers_stay",
    TakesFilesOfOthersForItsOwn: "test_rows_of_other_writers_stay",
}
