# SPDX-License-Identifier: Apache-2.0
"""Tests when the files of a sink become visible, and exact output despite failures."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from staged_files import (
    commit,
    committer_of,
    context,
    ids,
    outcomes,
    rows,
    stage,
    staged,
    visible,
)

from connector_filesystem import (
    BucketAssigner,
    FileCommittable,
    FileFormat,
    FileSink,
    RollingPolicy,
)
from connector_filesystem.sink import committer as committer_module
from connectors_core.errors import (
    CommitError,
    DataLossError,
    RetryableError,
)
from connectors_core.sink import (
    CommitOutcome,
    CommitRequest,
)


class TestCommitting:
    def test_files_become_visible_only_at_the_commit(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), bucket_assigner=BucketAssigner.columns("month"))
        writer = sink.create_writer(context())
        writer.write(rows(0, 50))
        assert visible(tmp_path) == []
        writer.flush()
        assert visible(tmp_path) == []
        committables = writer.prepare_commit()
        writer.close()
        assert visible(tmp_path) == []
        commit(sink, committables)
        assert ids(tmp_path) == list(range(50))
        assert staged(tmp_path) == []

    def test_committing_twice_changes_nothing(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), bucket_assigner=BucketAssigner.columns("month"))
        committables = stage(sink, [rows(0, 50)])
        commit(sink, committables)
        before = [(path, path.stat().st_ino) for path in visible(tmp_path)]
        assert outcomes(commit(sink, committables)) == {CommitOutcome.ALREADY_COMMITTED}
        committer_of(sink).sweep(1)
        assert outcomes(commit(sink, committables)) == {CommitOutcome.ALREADY_COMMITTED}
        assert [(path, path.stat().st_ino) for path in visible(tmp_path)] == before

    def test_a_commit_recovers_from_a_crash_between_link_and_unlink(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = FileSink(str(tmp_path), rolling_policy=RollingPolicy(max_rows=10))
        committables = stage(sink, [rows(0, 30)])

        def crash(path: str) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(committer_module.os, "unlink", crash)
            with pytest.raises(KeyboardInterrupt):
                commit(sink, committables)
        assert len(staged(tmp_path)) == 3
        assert outcomes(commit(sink, committables)) == {CommitOutcome.ALREADY_COMMITTED}
        assert staged(tmp_path) == []
        assert ids(tmp_path) == list(range(30))

    def test_lost_and_truncated_files_fail_with_data_loss(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), rolling_policy=RollingPolicy(max_rows=10))
        gone, cut, whole = stage(sink, [rows(0, 30)])
        (tmp_path / gone.staged_path).unlink()
        with open(tmp_path / cut.staged_path, "r+b") as file:
            file.truncate(cut.size - 1)
        lost, incomplete, good = commit(sink, [gone, cut, whole])
        for request, reason in ((lost, "gone"), (incomplete, "incomplete")):
            assert request.outcome is CommitOutcome.FAILED
            assert isinstance(request.error, DataLossError)
            assert reason in str(request.error)
        assert good.outcome is CommitOutcome.COMMITTED
        assert ids(tmp_path) == list(range(20, 30))

    def test_a_commit_never_overwrites_a_foreign_file(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path))
        [committable] = stage(sink, [rows(0, 10)])
        foreign = tmp_path / committable.final_path
        foreign.write_text("precious")
        [request] = commit(sink, [committable])
        assert isinstance(request.error, CommitError)
        assert foreign.read_text() == "precious"
        assert len(staged(tmp_path)) == 1
        foreign.unlink()
        assert outcomes(commit(sink, [committable])) == {CommitOutcome.COMMITTED}

    def test_a_commit_renames_files_if_the_filesystem_has_no_links(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: str) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(committer_module.os, "link", refuse)
        sink = FileSink(str(tmp_path))
        committables = stage(sink, [rows(0, 10)])
        assert outcomes(commit(sink, committables)) == {CommitOutcome.COMMITTED}
        assert outcomes(commit(sink, committables)) == {CommitOutcome.ALREADY_COMMITTED}
        [other] = stage(sink, [rows(10, 10)])
        (tmp_path / other.final_path).write_text("precious")
        [request] = commit(sink, [other])
        assert isinstance(request.error, CommitError)

    def test_a_commit_is_retried_after_a_storage_failure(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = FileSink(str(tmp_path))
        committables = stage(sink, [rows(0, 10)])

        def full(*_: str) -> None:
            raise OSError(errno.ENOSPC, "disk full")

        with monkeypatch.context() as patch:
            patch.setattr(committer_module.os, "link", full)
            with pytest.raises(RetryableError):
                commit(sink, committables)
        commit(sink, committables)
        assert ids(tmp_path) == list(range(10))

    def test_attempts_of_a_subtask_never_share_a_file(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), bucket_assigner=BucketAssigner.columns("month"))
        own = [context(5, attempt=0), context(5, attempt=1), context(5, attempt=1)]
        writers = [sink.create_writer(each) for each in own]
        for batch in (rows(0, 20), rows(20, 20)):
            for writer in writers:
                writer.write(batch)
        for writer in writers:
            writer.flush()
        committables = [writer.prepare_commit() for writer in writers]
        for writer in writers:
            writer.close()
        every = [each for some in committables for each in some]
        assert len({each.staged_path for each in every}) == len(every)
        assert len({each.final_path for each in every}) == len(every)
        commit(sink, committables[1])
        committer_of(sink).sweep(5)
        assert ids(tmp_path) == list(range(40))
        assert staged(tmp_path) == []

    def test_file_names_do_not_depend_on_the_machine_or_the_time(self, tmp_path: Path) -> None:
        own = context(5, nonce="abc")
        first = stage(FileSink(str(tmp_path / "a")), [rows(0, 5)], own)
        time.sleep(0.01)
        assert stage(FileSink(str(tmp_path / "b")), [rows(0, 5)], own) == first


class TestSweeping:
    def test_a_sweep_removes_dead_attempts_and_keeps_committed_epochs(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path))
        winner = stage(sink, [rows(0, 10)], context(1))
        stage(sink, [rows(0, 10)], context(1, attempt=1))
        waiting = stage(sink, [rows(10, 10)], context(2))
        commit(sink, winner)
        committer = committer_of(sink)
        committer.sweep(1)
        committer.sweep(1)
        assert len(staged(tmp_path)) == 1
        assert ids(tmp_path) == list(range(10))
        commit(sink, waiting)
        committer.sweep(2)
        assert ids(tmp_path) == list(range(20))
        stage(sink, [rows(10, 10)], context(2, attempt=3))  # this attempt wrote during the sweep
        committer.sweep(2)
        committer.close()
        assert ids(tmp_path) == list(range(20))
        assert not (tmp_path / "_staging").exists()

    def test_recovery_removes_undecided_files_of_this_sink_only(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path))
        decided = stage(sink, [rows(0, 10)], context(7))
        stage(sink, [rows(10, 10)], context(8))
        foreign = stage(sink, [rows(90, 10)], context(8, pipeline="other"))
        committer = committer_of(sink)
        committer.sweep(8)
        committer.recover(8)
        assert outcomes(commit(sink, decided)) == {CommitOutcome.COMMITTED}
        assert outcomes(commit(sink, foreign, pipeline="other")) == {CommitOutcome.COMMITTED}
        assert ids(tmp_path) == [*range(10), *range(90, 100)]
        assert staged(tmp_path) == []

    def test_sweeping_a_missing_target_does_not_create_it(self, tmp_path: Path) -> None:
        committer = committer_of(FileSink(str(tmp_path / "target")))
        committer.sweep(3)
        committer.recover(-1)
        committer.close()
        assert not (tmp_path / "target").exists()


# A separate driver that stages, decides, and commits epochs, and prints its progress.
DRIVER = """
import importlib.util, json, os, sys
spec = importlib.util.spec_from_file_location("case", sys.argv[1])
case = importlib.util.module_from_spec(spec)
spec.loader.exec_module(case)
target, state, stop_in = sys.argv[2], sys.argv[3], sys.argv[4]
case.run_epochs(target, state, stop_in)
"""


def run_epochs(target: str, state: str, stop_in: str) -> None:
    """Continue until all three epochs are committed. Decisions are files in `state`.

    Args:
        target: The target of the sink.
        state: The folder of the decisions.
        stop_in: The step of epoch 1 that halts for the kill, `write` or `commit`. Empty for none.
    """
    sink = FileSink(
        target,
        format=FileFormat.JSON,
        bucket_assigner=BucketAssigner.columns("month"),
        rolling_policy=RollingPolicy(max_rows=100),
    )
    serializer = sink.committable_serializer()
    committer = committer_of(sink)
    decided = sorted(int(name) for name in os.listdir(state) if name.isdigit())

    def finish(epoch: int) -> None:
        lines = Path(state, str(epoch)).read_bytes().splitlines()
        requests = [CommitRequest(serializer.deserialize(1, line)) for line in lines]
        if stop_in == "commit" and epoch == 1:
            unlink, link, calls = os.unlink, os.link, [0]

            def halting(call: Callable[..., None]) -> Callable[..., None]:
                def halt(*args: str) -> None:
                    calls[0] += 1
                    if calls[0] == int(os.environ["HALT_AT"]):
                        _halt()
                    call(*args)

                return halt

            os.unlink, os.link = halting(unlink), halting(link)
        committer.commit(requests)
        assert CommitOutcome.FAILED not in outcomes(requests)
        committer.sweep(epoch)

    for epoch in decided:
        finish(epoch)
    last = max(decided, default=-1)
    committer.recover(last)
    for epoch in range(last + 1, 3):
        committables: list[FileCommittable] = []
        for subtask in range(2):
            writer = sink.create_writer(context(epoch, subtask=subtask))
            for part in range(3):
                writer.write(rows(epoch * 1800 + subtask * 900 + part * 300, 300))
                if stop_in == "write" and epoch == 1 and subtask == 1 and part == 1:
                    _halt()
            writer.flush()
            committables += writer.prepare_commit()
            writer.close()
        scratch = Path(state, "scratch")
        scratch.write_bytes(b"\n".join(map(serializer.serialize, committables)))
        scratch.rename(Path(state, str(epoch)))
        finish(epoch)
    committer.close()


# An epoch has 18 files. Calls 1 to 18 are links, and calls 19 to 36 are unlinks.
@pytest.mark.parametrize(("stop_in", "halt_at"), [("write", 0), ("commit", 10), ("commit", 30)])
def test_output_is_exact_after_a_killed_driver_restarts(
    tmp_path: Path, stop_in: str, halt_at: int
) -> None:
    target, state = tmp_path / "target", tmp_path / "state"
    state.mkdir()
    command = [sys.executable, "-c", DRIVER, __file__, str(target), str(state), stop_in]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "HALT_AT": str(halt_at),
            "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
        },
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"halted\n"
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=20)
    process.stdout.close()
    before = ids(target)
    assert len(before) == len(set(before))
    assert set(range(1800)) <= set(before) <= set(range(2 * 1800))
    assert staged(target)
    run_epochs(str(target), str(state), "")
    assert ids(target) == list(range(3 * 1800))
    assert not (target / "_staging").exists()


def _halt() -> None:
    print("halted", flush=True)
    time.sleep(60)
