# SPDX-License-Identifier: Apache-2.0
"""Files that replace others: their committable, and the committer that also removes files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connector_filesystem.filesystem import FileLocation, mapped_errors
from connector_filesystem.folders import sync_folders
from connector_filesystem.manifests import publish
from connector_filesystem.sink.committer import FileCommitter
from connector_filesystem.sink.contents import Contents, record, remove_former
from connector_filesystem.sink.writer import FileCommittable
from connectors_core.errors import CommitError
from connectors_core.sink import CommitOutcome, CommitRequest, Committer, CommitterInitContext

__all__ = ["FileReplacement", "ReplacingCommitter"]

_Request = CommitRequest["FileReplacement"]


@dataclass(frozen=True, kw_only=True)
class FileReplacement:
    """Files that a commit moves to where readers see them, and those that it then removes.

    Attributes:
        files: The complete files.
        replaced: The paths of the files to remove, relative to the target of the sink.
        contents: The files of the folder after the commit, if the sink records them.
    """

    files: tuple[FileCommittable, ...] = ()
    replaced: tuple[str, ...] = ()
    contents: Contents | None = None


class ReplacingCommitter(Committer[FileReplacement]):
    """Commits the files of a replacement, and then removes the replaced ones. Driver.

    A commit is idempotent, because only recorded names are removed, and no other file ever gets
    one of them.

    Args:
        location: The target.
        context: The context of the committer.
        manifests: Whether each commit creates a manifest.
    """

    def __init__(
        self, location: FileLocation, context: CommitterInitContext, *, manifests: bool = False
    ) -> None:
        self._location = location
        self._manifests = manifests
        self._files = FileCommitter(location, context)

    def commit(self, requests: Sequence[CommitRequest[FileReplacement]]) -> None:
        """Commit each replacement, or record on its request why it was not committed.

        Raises:
            RetryableError: The storage failed. Files that were already moved or removed stay so.
        """
        with mapped_errors("recording files of", self._location.url):
            open_requests = [each for each in requests if self._record(each)]
        moves = [
            (request, CommitRequest(file))
            for request in open_requests
            for file in request.committable.files
        ]
        self._files.commit([move for _, move in moves])
        for request, move in moves:
            if move.outcome is CommitOutcome.FAILED and move.error is not None:
                request.signal_failed(move.error)
        done = [each for each in open_requests if each.outcome is CommitOutcome.COMMITTED]
        if self._manifests:
            with mapped_errors("recording files of", self._location.url):
                for each in done:
                    publish(self._location, each.committable.files, each.committable.replaced)
        with mapped_errors("removing replaced files from", self._location.url):
            replaced = [path for each in done for path in each.committable.replaced]
            self._remove(replaced)
            if self._manifests and replaced:
                # A driver that was frozen may have listed one of them before it was removed.
                publish(self._location, (), replaced)
            for each in done:
                if each.committable.contents is not None:
                    remove_former(self._location, each.committable.contents)

    def sweep(self, checkpoint_id: int) -> None:
        """Remove the staging folder of an epoch."""
        self._files.sweep(checkpoint_id)

    def recover(self, last_decided: int) -> None:
        """Remove empty staging folders."""
        self._files.recover(last_decided)

    def close(self) -> None:
        """Remove staging folders that are empty."""
        self._files.close()

    def _record(self, request: _Request) -> bool:
        """Record what the folder holds; return False if a later record decides the request."""
        contents = request.committable.contents
        if contents is None:
            return True
        found = record(self._location, contents)
        if found == contents:
            return True
        if found.version > contents.version and self._is_moved(request.committable):
            request.signal_already_committed()  # the commit stopped before its end was noted
            return False
        request.signal_failed(
            CommitError(
                f"another pipeline has changed the folder {contents.folder or '.'!r} of "
                f"{self._location.url_of(self._location.root)} at the same time",
                expected="one pipeline that writes a table with a primary key",
                found=f"version {contents.version} by another pipeline",
                hint="let only one pipeline write the table, and start this one from the beginning "
                "with another checkpoint location or, in SQL, another 'pipeline.name'",
            )
        )
        return False

    def _is_moved(self, replacement: FileReplacement) -> bool:
        """Return whether files were moved, so that the later records started from them."""
        staged = [self._location.join(each.staged_path) for each in replacement.files]
        self._location.fs.invalidate_cache()
        return bool(staged) and not any(map(self._location.fs.exists, staged))

    def _remove(self, paths: Iterable[str]) -> None:
        folders = set()
        for relative in paths:
            path = self._location.join(relative)
            folders.add(os.path.dirname(relative))
            with contextlib.suppress(FileNotFoundError):
                if self._location.is_local:
                    os.unlink(path)
                else:
                    self._location.fs.rm_file(path)
        sync_folders(self._location, folders)
