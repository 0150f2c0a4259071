# SPDX-License-Identifier: Apache-2.0
"""Small files of which one creator wins, such as locks and records. Driver."""

from __future__ import annotations

import os
import posixpath
import uuid
from collections.abc import Callable

from fsspec.spec import AbstractFileSystem

from connector_filesystem.filesystem import FileLocation
from connector_filesystem.folders import sync_folders
from connectors_core.errors import InvalidOptionError

__all__ = ["check_creates_files", "create_file"]


def check_creates_files(location: FileLocation, kept: str) -> None:
    """Check that the storage creates files as a whole.

    Args:
        location: The folder.
        kept: The records to keep there.

    Raises:
        InvalidOptionError: It writes in place, so that a crash could leave a part of a record.
    """
    fs = location.fs
    inherited = type(fs).pipe_file is AbstractFileSystem.pipe_file and "pipe_file" not in vars(fs)
    if inherited and not location.is_local:
        raise InvalidOptionError(
            f"{location.url_of(location.root)} cannot keep {kept}",
            expected="a local disk, or an object store that creates objects exclusively",
            found=f"{type(fs).__name__}, which writes in place",
            option="path",
            hint=f"write to such storage, or write files without {kept}",
        )


def create_file(
    location: FileLocation, relative: str, data: bytes, *, link: Callable[[str, str], None]
) -> bool:
    """Create a file as a whole and durably, and return whether this call created it.

    Args:
        location: The folder.
        relative: The path of the file, relative to it. Its folder exists.
        data: The contents.
        link: Gives a complete local file its name, and raises `FileExistsError` if another file has
            it.
    """
    path = location.join(relative)
    created = (
        _create_local(path, data, link) if location.is_local else _create(location, path, data)
    )
    sync_folders(location, [posixpath.dirname(relative)])
    return created


def _create_local(path: str, data: bytes, link: Callable[[str, str], None]) -> bool:
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        link(temporary, path)
    except FileExistsError:
        return False
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)
    return True


def _create(location: FileLocation, path: str, data: bytes) -> bool:
    try:
        location.fs.pipe_file(path, data, mode="create")
    except Exception:
        # Not every client says that the object exists.
        location.fs.invalidate_cache()
        if not location.fs.exists(path):
            raise
        return False
    return True
