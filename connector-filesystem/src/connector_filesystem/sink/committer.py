# SPDX-License-Identifier: Apache-2.0
"""The file committer, which moves staged files to where readers see them."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import posixpath
import shutil
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Final

from connector_filesystem.filesystem import FileLocation, mapped_errors
from connector_filesystem.folders import link_exclusively, make_folders, sync_folders
from connector_filesystem.manifests import publish
from connector_filesystem.moves import move_file
from connector_filesystem.sink.part_file import (
    STAGING_FOLDER,
    epoch_file,
    epoch_folder,
    request_folder,
    sink_folder,
)
from connector_filesystem.sink.writer import FileCommittable
from connectors_core.errors import CommitError, DataLossError, RetryableError
from connectors_core.sink import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    SupportsCommittedEpoch,
    SupportsHeldCommittables,
)

__all__ = ["FileCommitter"]

# The errors when another process changes a tree during its removal.
_BUSY: Final = frozenset({errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST})

_logger = logging.getLogger(__name__)

# The number of concurrent moves on an object store.
_SIDE_BY_SIDE: Final = 16

_Request = CommitRequest[FileCommittable]


class FileCommitter(
    Committer[FileCommittable],
    SupportsHeldCommittables[FileCommittable],
    SupportsCommittedEpoch,
):
    """Moves staged files to their final names.

    A move never overwrites and is idempotent. Driver, and tasks that commit large epochs.

    On a local filesystem, it creates a hard link, which cannot overwrite and appears as a whole. It
    then syncs the folders, and only then removes the staged name. On other filesystems, it renames
    the file. An object store has no rename, so it copies the file there, and removes the staged
    file once the copy is complete. Several moves run at a time. If a filesystem copies and shows
    files while they grow, a reader can see an unfinished file during the copy.

    Args:
        location: The target.
        context: The context of the committer.
        manifests: Whether each commit creates a manifest.
    """

    def __init__(
        self, location: FileLocation, context: CommitterInitContext, *, manifests: bool = False
    ) -> None:
        self._location = location
        self._context = context
        self._manifests = manifests
        self._folder = sink_folder(context.pipeline_id, context.sink_uid)
        self._epoch_file = epoch_file(context.pipeline_id, context.sink_uid)

    def commit(self, requests: Sequence[CommitRequest[FileCommittable]]) -> None:
        """Move each file, or record on its request why it was not moved.

        Raises:
            RetryableError: The storage failed. Files that were already moved stay moved.
        """
        try:
            with mapped_errors("committing to", self._location.url):
                if self._location.is_local:
                    self._commit_local(requests)
                elif getattr(self._location.fs, "async_impl", False):
                    self._commit_side_by_side(requests)
                else:
                    for request in requests:
                        self._commit_elsewhere(request)
                # The driver commits all files of an epoch in one call.
                if self._manifests and all(each.error is None for each in requests):
                    publish(self._location, [each.committable for each in requests])
        except FileNotFoundError as exc:
            raise RetryableError(
                "another driver or a copy of the task moves the same files", found=str(exc)
            ) from exc

    def sweep(self, checkpoint_id: int) -> None:
        """Remove the staging folder of an epoch, whose decided files have already been moved."""
        context = self._context
        self._remove(epoch_folder(context.pipeline_id, context.sink_uid, checkpoint_id))

    def sweep_others(self, checkpoint_id: int, held: Sequence[FileCommittable]) -> None:
        """Remove the staged files of an epoch except held ones."""
        context = self._context
        kept: dict[str, set[str]] = {}
        for file in held:
            folder, name = posixpath.split(file.staged_path)
            kept.setdefault(folder, set()).add(name)
        epoch = epoch_folder(context.pipeline_id, context.sink_uid, checkpoint_id)
        for attempt in self._children(epoch):
            folder = posixpath.join(epoch, attempt)
            if folder not in kept:
                self._remove(folder)
                continue
            for name in set(self._children(folder)) - kept[folder]:
                self._remove_file(posixpath.join(folder, name))

    def sweep_request(self, request_id: str) -> None:
        """Remove the staged files of a compaction, whose output has already been moved."""
        context = self._context
        self._remove(request_folder(context.pipeline_id, context.sink_uid, request_id))

    def recover(self, last_decided: int) -> None:
        """Remove empty staging folders. The sweep of an epoch removes its staged files."""
        self._tidy()

    def newest_committed_epoch(self) -> int | None:
        """Return the number that `epoch_committed` has kept; None without one."""
        path = self._location.join(self._epoch_file)
        with mapped_errors("reading the newest epoch of", self._location.url):
            self._location.fs.invalidate_cache()
            try:
                return int(self._location.fs.cat_file(path))
            except (FileNotFoundError, ValueError):  # a number may be half written
                return None

    def epoch_committed(self, checkpoint_id: int) -> None:
        """Keep the number in a hidden file. An error is only logged, because no commit needs it."""
        path = self._location.join(self._epoch_file)
        try:
            with mapped_errors("keeping the newest epoch of", self._location.url):
                make_folders(self._location, posixpath.dirname(self._epoch_file))
                self._location.fs.pipe_file(path, str(checkpoint_id).encode())
        except RetryableError as error:
            _logger.warning("%s", error)

    def close(self) -> None:
        """Remove staging folders that are empty."""
        with contextlib.suppress(RetryableError):
            self._tidy()

    # --- Local ---

    def _commit_local(self, requests: Sequence[_Request]) -> None:
        linked: list[str] = []
        folders: set[str] = set()
        for request in requests:
            file = request.committable
            staged, final = self._paths(file)
            folder = posixpath.dirname(file.final_path)
            found = _local_size(staged)
            if found is None:
                if self._signal_moved(request, _local_size(final)):
                    folders.add(folder)
                continue
            if found != file.size:
                request.signal_failed(self._lost(file, found))
                continue
            if folder not in folders:
                make_folders(self._location, folder)
            try:
                link_exclusively(staged, final)
            except FileExistsError as exc:
                if not os.path.samefile(staged, final):
                    request.signal_failed(self._taken(file, exc))
                    continue
                request.signal_already_committed()  # the commit stopped between link and unlink
            folders.add(folder)
            linked.append(staged)
        # The new names must be durable before the old ones are removed.
        sync_folders(self._location, folders)
        for staged in linked:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(staged)

    # --- Other filesystems ---

    def _commit_side_by_side(self, requests: Sequence[_Request]) -> None:
        with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="commit-files") as pool:
            moves = [pool.submit(self._commit_elsewhere, request) for request in requests]
            for move in wait(moves, return_when=FIRST_EXCEPTION).not_done:
                move.cancel()
        errors = [move.exception() for move in moves if not move.cancelled()]
        failed = [error for error in errors if error is not None]
        if failed:
            for other in failed[1:]:
                failed[0].add_note(f"another file: {other}")
            raise failed[0]

    def _commit_elsewhere(self, request: _Request) -> None:
        file = request.committable
        staged, final = self._paths(file)
        found = self._location.size(staged)
        if found is None:
            self._signal_moved(request, self._location.size(final))
            return
        if found != file.size:
            request.signal_failed(self._lost(file, found))
            return
        make_folders(self._location, posixpath.dirname(file.final_path))
        if not move_file(self._location, staged, final, size=file.size):
            request.signal_already_committed()  # the commit stopped between copy and removal

    # --- Both ---

    def _signal_moved(self, request: _Request, present: int | None) -> bool:
        """Decide a request without a staged file; return whether its final file is complete."""
        file = request.committable
        if present == file.size:
            request.signal_already_committed()
            return True
        request.signal_failed(self._lost(file) if present is None else self._cut(file, present))
        return False

    def _paths(self, file: FileCommittable) -> tuple[str, str]:
        return self._location.join(file.staged_path), self._location.join(file.final_path)

    def _lost(self, file: FileCommittable, found: int | None = None) -> DataLossError:
        return DataLossError(
            f"the staged file {file.staged_path!r} of a decided epoch is "
            + ("gone" if found is None else "incomplete"),
            expected=f"a file of {file.size} bytes, or the finished file {file.final_path!r}",
            found="neither" if found is None else f"{found} bytes",
            hint=f"do not remove files from {STAGING_FOLDER!r} of the target; only the sink may "
            "do so",
        )

    def _cut(self, file: FileCommittable, found: int) -> DataLossError:
        return DataLossError(
            f"the file {file.final_path!r} of a decided epoch is incomplete, and its staged file "
            "is gone",
            expected=f"{file.size} bytes",
            found=f"{found} bytes",
            hint="restore the file, for example from a backup of the storage, and restart",
        )

    def _taken(self, file: FileCommittable, cause: BaseException) -> CommitError:
        error = CommitError(
            f"another file has the name {file.final_path!r}, which belongs to a decided epoch",
            expected="no file with this name",
            found="a file with different contents, which the sink does not change",
            hint="move it to another folder and restart",
        )
        error.__cause__ = cause
        return error

    def _children(self, folder: str) -> list[str]:
        with mapped_errors("listing", self._location.url):
            return self._location.names(folder)

    def _remove(self, folder: str) -> None:
        path = self._location.join(folder)
        with mapped_errors("removing staged files from", self._location.url):
            if self._location.is_local:
                _remove_tree(path)
                return
            fs = self._location.fs
            fs.invalidate_cache()
            with contextlib.suppress(FileNotFoundError):
                if fs.exists(path):
                    fs.rm(path, recursive=True)

    def _remove_file(self, name: str) -> None:
        with (
            mapped_errors("removing staged files from", self._location.url),
            contextlib.suppress(FileNotFoundError),
        ):
            self._location.fs.rm_file(self._location.join(name))

    def _tidy(self) -> None:
        # From the innermost folder outward. A folder that is not empty stays.
        folder = self._folder
        while folder and not self._children(folder):
            with contextlib.suppress(OSError, NotImplementedError):
                self._location.fs.rmdir(self._location.join(folder))
            folder = posixpath.dirname(folder)


def _local_size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def _remove_tree(path: str) -> None:
    def on_error(*failure: Any) -> None:
        error: BaseException = failure[2][1]
        # A killed attempt can still remove or add files. The next sweep sees them.
        if not isinstance(error, OSError) or error.errno not in _BUSY:
            raise error

    shutil.rmtree(path, onerror=on_error)
