# SPDX-License-Identifier: Apache-2.0
"""Lists the current files of locations, including links. Driver, on a worker thread."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem
from fsspec.utils import glob_translate

from connector_filesystem.filesystem import FileLocation, FileStatus, mapped_errors, status_of

__all__ = [
    "LeftOut",
    "Listing",
    "has_match",
    "is_hidden",
    "list_elsewhere",
    "list_local",
    "visible_files",
]


class LeftOut(StrEnum):
    """Why the source does not read an existing path."""

    HIDDEN = "hidden"
    INCOMPLETE = "incomplete"
    UNMATCHED = "unmatched"
    UNLISTED = "unlisted"
    EMPTY = "empty"
    SAME_FILE = "same-file"
    BROKEN_LINK = "broken-link"
    OUTSIDE = "outside"
    SPECIAL = "special"

    @property
    def explanation(self) -> str:
        """A description of such paths, with advice."""
        return _EXPLANATIONS[self]

    @property
    def is_expected(self) -> bool:
        """Whether such paths are usual in a folder of files to read."""
        return self not in _UNEXPECTED


_EXPLANATIONS: Final[Mapping[LeftOut, str]] = {
    LeftOut.HIDDEN: "hidden (a name that starts with '.' or '_')",
    LeftOut.INCOMPLETE: "incomplete (a suffix of source.ignored-suffixes)",
    LeftOut.UNMATCHED: "not matched by source.path.regex-pattern",
    LeftOut.UNLISTED: "in no manifest",
    LeftOut.EMPTY: "empty",
    LeftOut.SAME_FILE: "links to files that are read under their own names",
    LeftOut.BROKEN_LINK: "links to missing targets or to a folder above the link",
    LeftOut.OUTSIDE: "links to targets outside the path (add their targets to the option path)",
    LeftOut.SPECIAL: "neither files nor folders",
}
_UNEXPECTED: Final = frozenset({LeftOut.BROKEN_LINK, LeftOut.OUTSIDE, LeftOut.SPECIAL})


#: Returns by the name alone why a path is not read, or None if it is.
Rule: TypeAlias = Callable[[FileLocation, str], LeftOut | None]


@dataclass
class Listing:
    """The result of a listing.

    Attributes:
        files: The files to read, by path.
        left_out: The ignored paths. A folder represents everything below it.
        complete: Whether each location exists and contains a file.
        manifests: The number of the newest manifest of each root, if manifests list the files.
    """

    files: dict[str, FileStatus] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    complete: bool = False
    manifests: dict[str, int] = field(default_factory=dict)

    def add(self, status: FileStatus, reason: LeftOut | None) -> None:
        """Add a file. It is ignored for the given reason, or if it is empty."""
        if reason is None and not status.size:
            reason = LeftOut.EMPTY
        if reason is None:
            self.files[status.path] = status
        else:
            self.left_out[status.path] = reason


def has_match(location: FileLocation, listing: Listing) -> bool:
    """Return whether a pattern matches a path, even one that is not read, or an empty folder."""
    selected = _Selected(location)
    below = f"{location.root.rstrip('/')}/"
    listed = (*listing.files, *listing.left_out)
    if any(path.startswith(below) and selected.has(path) for path in listed):
        return True
    with mapped_errors("listing", location.url):
        return bool(location.fs.glob(location.path))


def is_hidden(relative: str) -> bool:
    """Return whether a name on a path hides it from readers, such as `_staging`."""
    return any(
        each.startswith(".") or (each.startswith("_") and "=" not in each)
        for each in relative.split("/")
    )


def visible_files(location: FileLocation) -> list[FileStatus]:
    """Return the files of a folder that are not hidden, in order of their paths.

    Raises:
        RetryableError: The filesystem cannot list it now.
    """
    listing = Listing()
    with mapped_errors("listing", location.url):
        try:
            if location.is_local:
                list_local([location], _hidden, listing)
            else:
                list_elsewhere(location, _hidden, listing)
        except FileNotFoundError:
            return []
    return [listing.files[path] for path in sorted(listing.files)]


def _hidden(location: FileLocation, path: str) -> LeftOut | None:
    return LeftOut.HIDDEN if is_hidden(location.relative(path)) else None


def list_elsewhere(location: FileLocation, rule: Rule, listing: Listing) -> None:
    """Add the files at a location of a filesystem that is not local.

    Raises:
        FileNotFoundError: The location does not exist.
    """
    for path, info in _entries(location).items():
        kind = info.get("type")
        if kind == "file":
            listing.add(status_of({**info, "name": path}), rule(location, path))
        elif kind != "directory":
            listing.left_out[path] = LeftOut.SPECIAL


def _entries(location: FileLocation) -> Mapping[str, Mapping[str, Any]]:
    fs, path = location.fs, location.path
    fs.invalidate_cache()
    if _leaves_out_what_fails(fs):
        return _walked(location)
    if not location.is_pattern:
        found: Mapping[str, Mapping[str, Any]] = fs.find(path, detail=True)
        if not found:
            fs.info(path)  # raises unless the location is an empty folder
        return found
    entries: dict[str, Mapping[str, Any]] = {}
    for match, info in fs.glob(path, detail=True).items():
        if info.get("type") == "directory":
            entries.update(fs.find(match, detail=True))
        else:
            entries[match] = info
    return entries


def _leaves_out_what_fails(fs: Any) -> bool:
    """Whether `find` and `glob` are fsspec's defaults, which return an empty list on failure."""
    if isinstance(fs, AsyncFileSystem):
        return type(fs)._find is AsyncFileSystem._find
    return type(fs).find is AbstractFileSystem.find


def _walked(location: FileLocation) -> Mapping[str, Mapping[str, Any]]:
    """Return the entries of every folder. A folder that cannot be listed raises an error."""
    fs, selected = location.fs, _Selected(location)
    top = location.root if location.is_pattern else location.path
    entries: dict[str, Mapping[str, Any]] = {}
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            listed = fs.ls(folder, detail=True)
        except NotADirectoryError:
            listed = [fs.info(folder)]
        except FileNotFoundError:
            if folder == top:
                raise
            continue  # the folder was removed after its parent was listed
        for info in listed:
            name = str(info["name"]).rstrip("/")
            if info.get("type") != "directory":
                if selected.has(name):
                    entries[name] = info
            elif name != folder and selected.may_hold(name):
                folders.append(name)
    return entries


def list_local(locations: Iterable[FileLocation], rule: Rule, listing: Listing) -> None:
    """Add the files at local locations.

    The listing follows a link only to a target inside one of the locations, and not to a file that
    it reads under its own name. So links cannot duplicate rows, leave the locations, or form a
    cycle.

    Raises:
        FileNotFoundError: A location does not exist.
        PermissionError: A folder cannot be listed, and its files would be missing silently.
    """
    tree = _LocalTree(rule, listing)
    for location in locations:
        tree.walk(location)
    tree.follow_links()


class _LocalTree:
    def __init__(self, rule: Rule, listing: Listing) -> None:
        self._rule = rule
        self._listing = listing
        self._roots: list[str] = []
        self._links: list[tuple[_Selected, str]] = []
        self._followed: set[str] = set()
        self._real_files: set[str] = set()

    def walk(self, location: FileLocation) -> None:
        """Add the files at a location, except its links."""
        selected, top = _Selected(location), location.root
        real = os.path.realpath(top)
        self._roots.append(real)
        status = os.stat(top)
        if stat.S_ISDIR(status.st_mode):
            self._walk(selected, top, real)
        elif not location.is_pattern:
            self._add(selected, top, real, status)

    def follow_links(self) -> None:
        """Add the targets of links, in the order of their names."""
        while self._links:
            links, self._links = sorted(self._links, key=lambda each: each[1]), []
            for selected, path in links:
                self._follow(selected, path)

    def _walk(self, selected: _Selected, top: str, real: str) -> None:
        folders = [top]
        while folders:
            folder = folders.pop()
            for entry in _scan(folder, is_top=folder == top):
                path = entry.path
                if entry.is_symlink():
                    self._links.append((selected, path))
                elif entry.is_dir(follow_symlinks=False):
                    if selected.may_hold(path) and not self._leaves_out_hidden(selected, path):
                        folders.append(path)
                elif not selected.has(path):
                    pass
                elif entry.is_file(follow_symlinks=False):
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # the entry was removed or renamed during the listing
                    self._add(selected, path, real + path[len(top) :], status)
                else:
                    self._listing.left_out[path] = LeftOut.SPECIAL

    def _add(self, selected: _Selected, path: str, real: str, status: os.stat_result) -> None:
        found = status_of({"name": path, "size": status.st_size, "mtime": status.st_mtime})
        reason = self._rule(selected.location, path)
        if reason is None and real in self._real_files and path not in self._listing.files:
            reason = LeftOut.SAME_FILE
        self._listing.add(found, reason)
        if path in self._listing.files:
            self._real_files.add(real)

    def _follow(self, selected: _Selected, path: str) -> None:
        if self._leaves_out_hidden(selected, path):
            return
        target = os.path.realpath(path)
        try:
            status = os.stat(target)
        except OSError:  # the target is missing, or the link is part of a cycle
            if selected.has(path):
                self._listing.left_out[path] = LeftOut.BROKEN_LINK
            return
        is_folder = stat.S_ISDIR(status.st_mode)
        if not (selected.may_hold(path) if is_folder else selected.has(path)):
            return
        if not any(_is_within(target, root) for root in self._roots):
            self._listing.left_out[path] = LeftOut.OUTSIDE
        elif stat.S_ISREG(status.st_mode):
            self._add(selected, path, target, status)
        elif not is_folder:
            self._listing.left_out[path] = LeftOut.SPECIAL
        elif _is_within(os.path.realpath(os.path.dirname(path)), target):
            self._listing.left_out[path] = LeftOut.BROKEN_LINK
        elif target in self._followed:
            self._listing.left_out[path] = LeftOut.SAME_FILE
        else:
            self._followed.add(target)
            self._walk(selected, path, target)

    def _leaves_out_hidden(self, selected: _Selected, path: str) -> bool:
        hidden = self._rule(selected.location, path) is LeftOut.HIDDEN
        if hidden:
            self._listing.left_out[path] = LeftOut.HIDDEN
        return hidden


class _Selected:
    """The local paths that belong to a location."""

    def __init__(self, location: FileLocation) -> None:
        self.location = location
        self._pattern: re.Pattern[str] | None = None
        if location.is_pattern:
            self._pattern = re.compile(glob_translate(location.path.rstrip("/")))
        # Without `**`, a pattern determines the depth of its matches.
        self._depth = None if "**" in location.path else location.path.rstrip("/").count("/")
        self._root = location.root.rstrip("/")

    def has(self, path: str) -> bool:
        """Whether the path, or a folder above it, matches the location."""
        return self._pattern is None or any(map(self._pattern.match, self._upwards(path)))

    def may_hold(self, folder: str) -> bool:
        """Whether matching paths can be below a folder."""
        if self._pattern is None or self._depth is None or folder.count("/") < self._depth:
            return True
        return self.has(folder)

    def _upwards(self, path: str) -> Iterator[str]:
        while len(path) > len(self._root):
            yield path
            path = path.rpartition("/")[0]


def _scan(folder: str, *, is_top: bool) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        if is_top:
            raise
        return []  # the folder was removed after its parent was listed


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
