# SPDX-License-Identifier: Apache-2.0
"""Creates folders and the names in them, durably on local disks. Driver and executor."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import posixpath
import shutil
from collections.abc import Iterable
from typing import Final

from connector_filesystem.filesystem import FileLocation

__all__ = ["claim_of", "link_exclusively", "make_folders", "name_exclusively", "sync_folders"]

_MAKE_TRIES: Final = 10
# The errors of filesystems without hard links.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK})


def make_folders(location: FileLocation, relative: str) -> None:
    """Create a folder below the target and its parents, even if others remove them meanwhile."""
    path = location.join(relative) if relative else location.root
    if not location.is_local:
        location.fs.makedirs(path, exist_ok=True)
        return
    for attempt in range(_MAKE_TRIES):
        try:
            os.makedirs(path, exist_ok=True)
        except FileNotFoundError:
            # A sweep removed an empty staging folder before its child was created.
            if attempt == _MAKE_TRIES - 1:
                raise
        else:
            return


def link_exclusively(written: str, final: str) -> None:
    """Give a local file its final name.

    Raises:
        FileExistsError: Another file has this name.
    """
    try:
        os.link(written, final)
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        # These are two steps, but no other writer uses this name.
        if os.path.lexists(final):
            raise FileExistsError(final) from exc
        os.rename(written, final)


def name_exclusively(written: str, final: str) -> None:
    """Give a local file a name that other writers may want for their files.

    Without hard links, a folder next to the name decides, because no folder replaces one that is
    not empty. It has the digest of the file, so a writer that was killed in between can continue.

    Raises:
        FileExistsError: Another file has this name, or will have it.
    """
    try:
        os.link(written, final)
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        _claim(written, final)
        link_exclusively(written, final)


def claim_of(final: str) -> str:
    """Return the folder that decides who gets a name without hard links."""
    return f"{final}.claim"


def _claim(written: str, final: str) -> None:
    with open(written, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    own, claim = claim_of(written), claim_of(final)
    os.mkdir(own)
    open(os.path.join(own, digest), "xb").close()
    try:
        os.rename(own, claim)
    except OSError as exc:
        shutil.rmtree(own)
        if os.listdir(claim) != [digest]:
            raise FileExistsError(final) from exc


def sync_folders(location: FileLocation, relatives: Iterable[str]) -> None:
    """Make the entries of local folders durable, up to the target."""
    if not location.is_local:
        return
    wanted: set[str] = set()
    for relative in relatives:
        while relative and relative not in wanted:
            wanted.add(relative)
            relative = posixpath.dirname(relative)
    for relative in sorted(wanted, key=len, reverse=True):
        _sync_folder(location.join(relative))
    _sync_folder(location.root)


def _sync_folder(path: str) -> None:
    # Some network filesystems refuse this, and Windows cannot open folders. There is no
    # alternative.
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
