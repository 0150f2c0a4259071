# SPDX-License-Identifier: Apache-2.0
"""Moves files on storage that is not a local disk. Driver, and tasks that commit large epochs."""

from __future__ import annotations

import time
from typing import Any, Final

from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem

from connector_filesystem.filesystem import FileLocation
from connectors_core.errors import RetryableError

__all__ = ["move_file"]

# Their `mv` is one rename, although they can also copy.
_RENAMING: Final = frozenset({"file", "local", "hdfs", "webhdfs", "sftp", "smb", "ftp"})
# Their copy is complete when the call returns, and appears as a whole.
_COPYING_AT_ONCE: Final = frozenset({"s3", "s3a", "gs", "gcs"})

_DEADLINE_SECONDS: Final = 30.0
_FIRST_DELAY_SECONDS: Final = 0.01
_LONGEST_DELAY_SECONDS: Final = 1.0
_BLOCK_BYTES: Final = 4 * 1024 * 1024


def move_file(location: FileLocation, source: str, target: str, *, size: int) -> bool:
    """Move a complete file, or continue an earlier move of it.

    No other file ever has the name of the target. Without a rename, the source stays until the
    target is complete. Some stores copy in the background, and may show the target empty or with
    its full size meanwhile, so only equal contents prove that their copy is complete.

    Args:
        location: The storage.
        source: The path of the file, which exists.
        target: Its new path, in a folder that exists.
        size: Its size in bytes.

    Returns:
        Whether this call moved the file; False if an earlier move had already copied it.

    Raises:
        RetryableError: The target is not complete in time. The source stays.
    """
    fs = location.fs
    kind = _kind_of(fs)
    protocols = _protocols(kind)
    renames = bool(protocols & _RENAMING) or not _can_copy(kind)
    by_size = bool(protocols & _COPYING_AT_ONCE)
    if location.size(target) is not None:
        wait = not renames and not by_size  # an earlier copy may not be complete yet
        if _is_complete(location, source, target, size, by_size=by_size, wait=wait):
            fs.rm_file(source)
            return False
        fs.rm_file(target)
    if renames:
        fs.mv(source, target)
        complete = location.size(target) == size
    else:
        fs.cp_file(source, target)
        complete = _is_complete(location, source, target, size, by_size=by_size, wait=not by_size)
    if not complete:
        raise RetryableError(
            f"the storage did not move the whole file to {location.url_of(target)} in time",
            expected=f"{size} bytes with the contents of the staged file",
            found=f"{location.size(target)} bytes",
            hint="a retry, or the next run, continues the move",
        )
    if not renames:
        fs.rm_file(source)
    return True


def _is_complete(
    location: FileLocation, source: str, target: str, size: int, *, by_size: bool, wait: bool
) -> bool:
    """Return whether the target is a copy of the source, now or before the deadline."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    delay = _FIRST_DELAY_SECONDS
    while True:
        if location.size(target) == size and (
            by_size or _are_equal(location, source, target, size)
        ):
            return True
        if not wait or time.monotonic() + delay > deadline:
            return False
        time.sleep(delay)
        delay = min(2 * delay, _LONGEST_DELAY_SECONDS)


def _are_equal(location: FileLocation, source: str, target: str, size: int) -> bool:
    fs = location.fs
    for start in range(0, size, _BLOCK_BYTES):
        end = min(start + _BLOCK_BYTES, size)
        wanted = fs.cat_file(source, start=start, end=end)
        try:
            found = fs.cat_file(target, start=start, end=end)
        except FileNotFoundError:
            return False  # the copy failed after its start
        if found != wanted:
            return False
    return True


def _kind_of(fs: Any) -> type[AbstractFileSystem]:
    """Return the class of the filesystem that keeps the files, below those that wrap it."""
    while isinstance(inner := vars(fs).get("fs"), AbstractFileSystem):
        fs = inner
    return type(fs)


def _protocols(kind: type[AbstractFileSystem]) -> set[str]:
    """Return the protocols of a filesystem, and of those that it derives from."""
    found: set[str] = set()
    for each in kind.__mro__:
        protocol = vars(each).get("protocol", ())
        found.update((protocol,) if isinstance(protocol, str) else protocol)
    return found


def _can_copy(kind: type[AbstractFileSystem]) -> bool:
    """Return whether a filesystem copies files; if not, its `mv` can only be a rename."""
    if issubclass(kind, AsyncFileSystem):
        return kind._cp_file is not AsyncFileSystem._cp_file
    return kind.cp_file is not AbstractFileSystem.cp_file
