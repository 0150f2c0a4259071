# SPDX-License-Identifier: Apache-2.0
"""Manifests of a folder: the files that readers of whole epochs see, below `<path>/_manifests`.

Each commit of an epoch creates the next one. It has a line of JSON per file, so that other tools
read it as a table. Readers that list the folder ignore it.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, Final, Protocol

from connector_filesystem.filesystem import FileLocation, mapped_errors
from connector_filesystem.folders import claim_of, make_folders, name_exclusively
from connector_filesystem.listing import visible_files
from connector_filesystem.new_files import create_file
from connectors_core.errors import ConfigurationError, RetryableError, StateCorruptedError
from connectors_core.secrets import mask_url
from connectors_core.serialization import JsonDataclassSerializer

__all__ = [
    "MANIFESTS_FOLDER",
    "ListedFile",
    "Manifest",
    "manifest_files",
    "newest_manifest",
    "publish",
]

MANIFESTS_FOLDER: Final = "_manifests"

# A reader has found the newest manifest and then opens it. Meanwhile, as many can follow.
_KEPT: Final = 10
_MAX_TRIES: Final = 50
# The number of concurrent requests to an object store.
_SIDE_BY_SIDE: Final = 16
_NAME: Final = re.compile(r"(\d{10})\.jsonl")


class NewFile(Protocol):
    """A file whose commit a manifest records."""

    @property
    def final_path(self) -> str:
        """Its path, relative to the folder."""

    @property
    def size(self) -> int:
        """Its size in bytes."""

    @property
    def rows(self) -> int:
        """Its rows."""


@dataclass(frozen=True, kw_only=True)
class ListedFile:
    """A file in a manifest.

    Attributes:
        path: Its path, relative to the folder.
        size: Its size in bytes.
        rows: Its rows; None if it is older than the first manifest.
        manifest: The number of the first manifest that lists it.
    """

    path: str
    size: int
    rows: int | None
    manifest: int


_SERIALIZER: Final = JsonDataclassSerializer(ListedFile, version=1)


@dataclass(frozen=True)
class Manifest:
    """The visible files after an epoch.

    Attributes:
        number: Its number, from 1.
        files: The files, in the order in which they became visible.
    """

    number: int
    files: tuple[ListedFile, ...]


def newest_manifest(location: FileLocation) -> Manifest | None:
    """Return the newest manifest of a folder, or None if there is none.

    Raises:
        StateCorruptedError: It is damaged.
    """
    while numbers := _numbers(location):
        path = location.join(_path(numbers[-1]))
        try:
            data = location.fs.cat_file(path)
        except FileNotFoundError:  # newer ones have replaced it
            continue
        return Manifest(numbers[-1], _decoded(data, path))
    return None


def manifest_files(
    path: str | PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> list[str]:
    """Return the files of the newest manifest of a folder, for readers of lists of files.

    Args:
        path: The folder, as a path or a URL of any fsspec filesystem.
        storage_options: Options of the filesystem.

    Returns:
        Their paths, or their URLs if they are not on this machine.

    Raises:
        ConfigurationError: The folder has no manifest.
        RetryableError: The filesystem cannot read it now.
    """
    location = FileLocation(fspath(path), storage_options or {})
    with mapped_errors("reading manifests of", location.url):
        manifest = newest_manifest(location)
    if manifest is None:
        raise ConfigurationError(
            f"{mask_url(location.url)} has no manifest",
            expected="a folder that a FileSink with manifests has written",
            option="path",
        )
    paths = [location.join(each.path) for each in manifest.files]
    return paths if location.is_local else list(map(location.fs.unstrip_protocol, paths))


def publish(
    location: FileLocation, added: Collection[NewFile], removed: Collection[str] = ()
) -> None:
    """Create the manifest of a commit, unless a manifest has its files already. Driver.

    The first manifest also lists the files that are visible before it. A driver that was frozen
    can be late, so it never lists files that were replaced meanwhile.

    Args:
        location: The folder.
        added: The new files.
        removed: The paths of the files that they replace, relative to the folder.

    Raises:
        RetryableError: Other pipelines are always faster.
    """
    make_folders(location, MANIFESTS_FOLDER)
    gone = set(removed)
    for _ in range(_MAX_TRIES):
        newest = newest_manifest(location)
        listed = () if newest is None else newest.files
        known = {each.path for each in listed}
        wanted = {each.final_path: each for each in added if each.final_path not in gone}
        new = {path: each for path, each in wanted.items() if path not in known}
        if newest is not None and not new and known.isdisjoint(gone):
            missing = _missing(location, wanted)
            if not missing:
                return
            gone |= missing
            continue
        number = 1 if newest is None else newest.number + 1
        former = _older_files(location) if newest is None else listed
        files = [each for each in former if each.path not in gone | new.keys()]
        files += (
            ListedFile(path=path, size=each.size, rows=each.rows, manifest=number)
            for path, each in new.items()
        )
        # Later manifests may have removed one of this number, so only the newest one counts.
        if create_file(location, _path(number), _encoded(files), link=name_exclusively):
            _remove_former(location, number)
    raise RetryableError(
        f"other pipelines always create the next manifest of {location.url_of(location.root)} "
        "first",
        found=f"{_MAX_TRIES} attempts",
        hint="start all pipelines that write to the folder, so that each can complete its own",
    )


def _missing(location: FileLocation, paths: Collection[str]) -> set[str]:
    """Return the files that do not exist."""

    def is_missing(path: str) -> bool:
        try:
            location.status(location.join(path))
        except FileNotFoundError:
            return True
        return False

    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="find-files") as pool:
        found = pool.map(is_missing, paths)
        return {path for path, missing in zip(paths, found, strict=True) if missing}


def _older_files(location: FileLocation) -> tuple[ListedFile, ...]:
    return tuple(
        ListedFile(path=location.relative(each.path), size=each.size, rows=None, manifest=1)
        for each in visible_files(location)
    )


def _remove_former(location: FileLocation, newest: int) -> None:
    for number in _numbers(location):
        if number <= newest - _KEPT:
            path = location.join(_path(number))
            with contextlib.suppress(FileNotFoundError):
                location.fs.rm_file(path)
            if location.is_local:
                shutil.rmtree(claim_of(path), ignore_errors=True)


def _numbers(location: FileLocation) -> list[int]:
    names = map(_NAME.fullmatch, location.names(MANIFESTS_FOLDER))
    return sorted(int(name[1]) for name in names if name is not None)


def _path(number: int) -> str:
    return posixpath.join(MANIFESTS_FOLDER, f"{number:010d}.jsonl")


def _encoded(files: Iterable[ListedFile]) -> bytes:
    return b"".join(_SERIALIZER.serialize(each) + b"\n" for each in files)


def _decoded(data: bytes, path: str) -> tuple[ListedFile, ...]:
    try:
        return tuple(_SERIALIZER.deserialize(1, line) for line in data.splitlines())
    except StateCorruptedError as exc:
        raise StateCorruptedError(f"the manifest {path!r} cannot be read") from exc
