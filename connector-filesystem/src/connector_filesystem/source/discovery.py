# SPDX-License-Identifier: Apache-2.0
"""Finds files and cuts them into splits. Driver; a listing runs on a worker thread."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem
from fsspec.utils import glob_translate

from connector_filesystem.filesystem import FileLocation, FileStatus, mapped_errors, status_of
from connector_filesystem.formats import Compression, Format
from connector_filesystem.source.paths import PathColumns, event_time_of, relative_to
from connector_filesystem.source.reader import layout_of
from connector_filesystem.source.split import FileSplit
from connectors_core.errors import ConfigurationError

__all__ = ["IGNORED_SUFFIXES", "FileSelection", "version_of"]

#: Ends of names that writers use for files that are not complete.
IGNORED_SUFFIXES: Final = (
    ".tmp",
    ".temp",
    ".part",
    ".partial",
    ".inprogress",
    ".crdownload",
    "._COPYING_",
    ".swp",
    "~",
)


@dataclass(frozen=True, kw_only=True)
class FileSelection:
    """Which files belong to the source.

    Attributes:
        locations: Files, folders and patterns on one filesystem.
        path_columns: Columns from the path.
        path_regex: What the path relative to its location must match as a whole.
        ignored_suffixes: Ends of names of files that are left out.
        format: Format of all files, None to tell it by the suffix.
        compression: Compression of all files, None to tell it by the suffix.
        split_size: Bytes of a split.
        whole_files: Text files are never cut.
        event_time_lower_bound: Lowest event time in a file, by its path.
    """

    locations: tuple[FileLocation, ...]
    path_columns: PathColumns
    path_regex: str | None
    ignored_suffixes: tuple[str, ...]
    format: Format | None
    compression: Compression | None
    split_size: int
    whole_files: bool
    event_time_lower_bound: Callable[[str], datetime | None] | None

    @cached_property
    def rooted_columns(self) -> PathColumns:
        """The columns from the path; roots are known once a filesystem is open."""
        return replace(self.path_columns, roots=self.roots)

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """What paths are relative to."""
        return tuple(location.root for location in self.locations)

    def root_of(self, path: str) -> str:
        """The location's root that a file lies under."""
        return path[: len(path) - len(self.relative(path))].rstrip("/")

    def relative(self, path: str) -> str:
        """Path of a file relative to its location."""
        return relative_to(self.roots, path)

    def files(self, *, may_be_missing: bool) -> list[FileStatus]:
        """List all files as they are now, ordered by path; empty ones are left out.

        Args:
            may_be_missing: A location that does not exist is one without files, as yet.

        Raises:
            ConfigurationError: A location does not exist.
            RetryableError: It cannot be listed now.
        """
        found: dict[str, FileStatus] = {}
        for location in self.locations:
            with mapped_errors("listing", location.url):
                try:
                    entries = _listing(location)
                except FileNotFoundError as exc:
                    if may_be_missing:
                        continue
                    raise ConfigurationError(
                        f"there is no file or folder {location.url}",
                        option="path",
                        hint="check the path; with source.monitor-interval it may come later",
                    ) from exc
            for path, info in entries.items():
                if info.get("type") == "file" and self._wanted(location, path):
                    status = status_of({**info, "name": path})
                    if status.size:
                        found[path] = status
        return [found[path] for path in sorted(found)]

    def splits_of(self, file: FileStatus) -> tuple[FileSplit, ...]:
        """Cut a file; the same version of it gives the same splits."""
        format, compression = layout_of(file.path, self.format, self.compression)
        self.rooted_columns.values_of(file.path)  # what is wrong with a path is said here
        can_be_cut = format is Format.PARQUET or (
            compression is Compression.NONE and not (format is Format.CSV and self.whole_files)
        )
        size = file.size
        parts = max(1, -(-size // self.split_size)) if can_be_cut else 1
        event_time = event_time_of(self.event_time_lower_bound, file.path)
        version = version_of(file)
        splits = []
        for part in range(parts):
            start, end = size * part // parts, size * (part + 1) // parts
            splits.append(
                FileSplit(
                    split_id=f"{file.path}@{version}:{start}-{end}",
                    path=file.path,
                    size=size,
                    modification_time=file.modification_time,
                    etag=file.etag,
                    start=start,
                    end=end,
                    event_time=event_time,
                    remaining=end - start,
                )
            )
        return tuple(splits)

    def _wanted(self, location: FileLocation, path: str) -> bool:
        if path == location.path and not location.is_pattern:
            return True
        relative = location.relative(path)
        parts = relative.split("/")
        if any(map(_is_hidden, parts)):
            return False
        if parts[-1].endswith(self.ignored_suffixes):
            return False
        return self.path_regex is None or re.fullmatch(self.path_regex, relative) is not None


def version_of(file: FileStatus) -> str:
    """Return what tells one version of a file from another."""
    return str(file.modification_time if file.modification_time is not None else file.etag)


def _listing(location: FileLocation) -> Mapping[str, Mapping[str, Any]]:
    fs, path = location.fs, location.path
    fs.invalidate_cache()
    if _omits_failures(fs):
        return _walked(location)
    if not location.is_pattern:
        found: Mapping[str, Mapping[str, Any]] = fs.find(path, detail=True)
        if not found:
            fs.info(path)  # an empty folder, or nothing at all
        return found
    entries: dict[str, Mapping[str, Any]] = {}
    for match, info in fs.glob(path, detail=True).items():
        if info.get("type") == "directory":
            entries.update(fs.find(match, detail=True))
        else:
            entries[match] = info
    return entries


def _omits_failures(fs: Any) -> bool:
    """Whether `find` and `glob` are fsspec's own: a folder that they cannot list is empty."""
    if isinstance(fs, AsyncFileSystem):
        return type(fs)._find is AsyncFileSystem._find
    return type(fs).find is AbstractFileSystem.find


def _walked(location: FileLocation) -> Mapping[str, Mapping[str, Any]]:
    """Every file at a location; a folder that cannot be listed is an error."""
    fs, pattern, levels = location.fs, None, 0.0
    if location.is_pattern:
        path = location.path.rstrip("/")
        pattern = re.compile(glob_translate(path))
        levels = math.inf if "**" in path else path.count("/")
    entries: dict[str, Mapping[str, Any]] = {}
    folders = [(location.root, pattern is None)]  # and whether all files below belong
    while folders:
        folder, belongs = folders.pop()
        try:
            listed = fs.ls(folder, detail=True)
        except NotADirectoryError:
            listed = [fs.info(folder)]
        except FileNotFoundError:
            if folder == location.path:
                raise
            continue  # removed since its parent was listed
        for info in listed:
            name = str(info["name"]).rstrip("/")
            matches = belongs or (pattern is not None and pattern.match(name) is not None)
            enters = matches or name.count("/") < levels
            if info.get("type") != "directory":
                if matches:
                    entries[name] = info
            elif enters and name != folder and not _is_hidden(posixpath.basename(name)):
                folders.append((name, matches))
    return entries


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_")) and "=" not in name
