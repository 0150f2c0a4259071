# SPDX-License-Identifier: Apache-2.0
"""The records of the files in the folders of a table, below `<path>/_contents`.

Each commit of a folder creates its next version. A writer reads the files of the newest one, so
files of unknown origin never become rows. Readers ignore the records.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import shutil
from dataclasses import dataclass
from typing import Final

from connector_filesystem.filesystem import FileLocation
from connector_filesystem.folders import claim_of, make_folders, name_exclusively
from connector_filesystem.new_files import create_file
from connectors_core.errors import StateCorruptedError
from connectors_core.serialization import JsonDataclassSerializer

__all__ = [
    "CONTENTS_FOLDER",
    "Contents",
    "has_records",
    "newest_contents",
    "record",
    "remove_former",
]

CONTENTS_FOLDER: Final = "_contents"

_NAME: Final = re.compile(r"(\d{10})\.json")


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The files of a folder of a table.

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
    path = location.join(_path(folder, versions[-1]))
    found = _SERIALIZER.deserialize(1, location.fs.cat_file(path))
    if (found.folder, found.version) != (folder, versions[-1]):
        raise StateCorruptedError(
            f"the record {path!r} belongs to another folder or version",
            expected=f"{folder!r}, version {versions[-1]}",
            found=f"{found.folder!r}, version {found.version}",
        )
    return found


def has_records(location: FileLocation) -> bool:
    """Return whether a table is in the folder. Driver."""
    location.fs.invalidate_cache()
    return bool(location.fs.find(location.join(CONTENTS_FOLDER)))


def record(location: FileLocation, contents: Contents) -> Contents:
    """Create a record unless there is a later one, and return the newest one. Driver.

    Returns:
        The same contents, or those of another pipeline that was first.
    """
    if newest_contents(location, contents.folder).version < contents.version:
        make_folders(location, _folder(contents.folder))
        path = _path(contents.folder, contents.version)
        create_file(location, path, _SERIALIZER.serialize(contents), link=name_exclusively)
    return newest_contents(location, contents.folder)


def remove_former(location: FileLocation, contents: Contents) -> None:
    """Remove the records of earlier versions. Driver."""
    for version in _versions(location, contents.folder):
        if version < contents.version:
            path = location.join(_path(contents.folder, version))
            with contextlib.suppress(FileNotFoundError):
                location.fs.rm_file(path)
            if location.is_local:
                shutil.rmtree(claim_of(path), ignore_errors=True)


def _versions(location: FileLocation, folder: str) -> list[int]:
    names = map(_NAME.fullmatch, location.names(_folder(folder)))
    return sorted(int(name[1]) for name in names if name is not None)


def _folder(folder: str) -> str:
    return posixpath.join(CONTENTS_FOLDER, folder) if folder else CONTENTS_FOLDER


def _path(folder: str, version: int) -> str:
    return posixpath.join(_folder(folder), f"{version:010d}.json")
