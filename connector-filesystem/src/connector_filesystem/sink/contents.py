# SPDX-License-Identifier: Apache-2.0
"""The records of what the folders of a table hold, below `<path>/_contents`.

Each commit of a folder creates its next version. A writer reads the files of the newest one, so
files of unknown origin never become rows. Readers ignore the records.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Final

from connector_filesystem.filesystem import FileLocation
from connectors_core.engine.state import StateStore
from connectors_core.errors import InvalidOptionError, StateCorruptedError, StateLocationError
from connectors_core.serialization import JsonDataclassSerializer

__all__ = [
    "CONTENTS_FOLDER",
    "Contents",
    "check_storage",
    "has_records",
    "newest_contents",
    "record",
    "remove_former",
]

CONTENTS_FOLDER: Final = "_contents"

_NAME: Final = re.compile(r"(\d{10})\.json")


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a folder of a table holds.

    Attributes:
        folder: The folder, relative to the target of the sink.
        version: The number of the record, from 1; 0 if there is none yet.
        files: The paths of its files, relative to the target.
    """

    folder: str
    version: int = 0
    files: tuple[str, ...] = ()


_SERIALIZER: Final = JsonDataclassSerializer(Contents, version=1)


def newest_contents(location: FileLocation, folder: str) -> Contents:
    """Return the newest record of a folder. Executor.

    Raises:
        StateCorruptedError: The record is damaged.
    """
    versions = _versions(location, folder)
    if not versions:
        return Contents(folder=folder)
    path = _path(folder, versions[-1])
    found = _SERIALIZER.deserialize(1, _store(location).read(path))
    if (found.folder, found.version) != (folder, versions[-1]):
        raise StateCorruptedError(
            f"the record {path!r} belongs to another folder or version",
            expected=f"{folder!r}, version {versions[-1]}",
            found=f"{found.folder!r}, version {found.version}",
        )
    return found


def has_records(location: FileLocation) -> bool:
    """Return whether a table is in the folder. Driver."""
    return bool(_store(location).list(recursive=True))


def check_storage(location: FileLocation) -> None:
    """Check that the storage can keep records. Driver.

    Raises:
        InvalidOptionError: It cannot create a complete file exclusively.
    """
    try:
        _store(location).verify()
    except StateLocationError as error:
        raise InvalidOptionError(
            f"{location.url_of(location.root)} cannot keep the records of a table with a key",
            expected=error.expected,
            found=error.found,
            option="path",
            hint="use a local disk with hard links, or an object store",
        ) from error


def record(location: FileLocation, contents: Contents) -> Contents:
    """Create a record unless there is a later one, and return the newest one. Driver.

    Returns:
        The same contents, or those of another pipeline that was first.
    """
    if newest_contents(location, contents.folder).version < contents.version:
        path = _path(contents.folder, contents.version)
        if _store(location).create(path, _SERIALIZER.serialize(contents)):
            return contents
    return newest_contents(location, contents.folder)


def remove_former(location: FileLocation, contents: Contents) -> None:
    """Remove the records of earlier versions. Driver."""
    for version in _versions(location, contents.folder):
        if version < contents.version:
            _store(location).delete(_path(contents.folder, version))


def _versions(location: FileLocation, folder: str) -> list[int]:
    names = map(_NAME.fullmatch, _store(location).list(folder))
    return sorted(int(name[1]) for name in names if name is not None)


def _store(location: FileLocation) -> StateStore:
    return StateStore(f"{location.url.rstrip('/')}/{CONTENTS_FOLDER}", location.storage_options)


def _path(folder: str, version: int) -> str:
    return posixpath.join(folder, f"{version:010d}.json")
