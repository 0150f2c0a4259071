# SPDX-License-Identifier: Apache-2.0
"""Finds folders whose files belong to a table, because a log lists the valid ones. Driver."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final

from connector_filesystem.filesystem import FileLocation
from connector_filesystem.listing import is_hidden
from connectors_core.errors import ConfigurationError

__all__ = ["TABLE_FORMATS", "log_in", "logs_above", "logs_among", "refuse_table"]

#: The folder of each log, and the reader of its tables.
TABLE_FORMATS: Final[Mapping[str, str]] = {
    "_delta_log": "Delta Lake: the format 'delta' of Spark",
    ".hoodie": "Hudi: the format 'hudi' of Spark",
    "_spark_metadata": "Spark's file sink: the reader of the files' format in Spark",
    "metadata": "Iceberg: the format 'iceberg' of Spark",
}
_ICEBERG: Final = "metadata"
_ICEBERG_SUFFIX: Final = ".metadata.json"
# Their tables have files, partitions, and the folder "data", and no other folders.
_BESIDE_USUAL_FOLDERS: Final = frozenset({_ICEBERG, "_spark_metadata"})
# Others, such as Hudi's "2026/11/29", have folders of any name. Each costs requests.
_OTHER_LEVELS: Final = 3


def logs_among(root: str, paths: Iterable[str]) -> set[str]:
    """Return the folders of logs that contain, or are, some of the paths.

    Args:
        root: The folder whose folders count.
        paths: Paths below it.
    """
    found = set()
    for path in paths:
        folders = path[len(root) :].split("/")
        for at, name in enumerate(folders):
            is_file_of_iceberg = folders[-1].endswith(_ICEBERG_SUFFIX) and at == len(folders) - 2
            if name in TABLE_FORMATS and (name != _ICEBERG or is_file_of_iceberg):
                found.add(root + "/".join(folders[: at + 1]))
    return found


def log_in(location: FileLocation, folder: str, names: Iterable[str]) -> str | None:
    """Return the path of the first of the names that a folder has, or None.

    Args:
        location: A location on the filesystem.
        folder: The path of the folder.
        names: The names. `metadata` counts only if it is of Iceberg.
    """
    for name in sorted(names):
        path = posixpath.join(folder, name)
        try:
            if name != _ICEBERG:
                listed: Iterable[Any] = [path] if location.fs.exists(path) else []
            else:
                listed = location.fs.ls(path, detail=False)
        except OSError:  # it is missing, or another user's
            continue
        if any(name != _ICEBERG or str(each).endswith(_ICEBERG_SUFFIX) for each in listed):
            return path
    return None


def logs_above(location: FileLocation, names: Set[str] = TABLE_FORMATS.keys()) -> list[str]:
    """Return the logs of tables that a location can be in, and whose log no listing shows.

    These are in the folders above it, and in that of a pattern. A few requests for each.

    Args:
        location: The location.
        names: The names of the logs.
    """
    root = location.root.rstrip("/")
    found = [log_in(location, root, names)] if location.is_pattern else []
    for top in (root, *_targets(location, root)):
        for folder, is_usual in _folders_above(location, top):
            if not is_hidden(top[len(folder) :].strip("/")):  # such as the log itself
                wanted = set(names) if is_usual else set(names) - _BESIDE_USUAL_FOLDERS
                found.append(log_in(location, folder, wanted))
    return [*filter(None, found)]


def refuse_table(location: FileLocation) -> None:
    """Refuse to write to the folder of a table, whose log would not list the files.

    Raises:
        ConfigurationError: The location is such a folder, or in one.
    """
    for log in (log_in(location, location.root, TABLE_FORMATS), *logs_above(location)):
        if log is not None:
            folder, _, name = log.rpartition("/")
            table = TABLE_FORMATS[name].partition(":")[0]
            raise ConfigurationError(
                f"{location.url_of(folder)} belongs to a table whose log lists its files, and its "
                "readers would not see others",
                expected="a folder of files alone",
                found=name,
                option="path",
                hint=f"choose another folder, or use the writer of {table}",
            )


def _folders_above(location: FileLocation, top: str) -> Iterator[tuple[str, bool]]:
    """Yield each folder that may be a table, and whether most tables have files like these."""
    is_usual = not location.is_pattern and location.fs.isfile(top)
    others = 0
    folder = top
    while posixpath.dirname(folder) not in ("", folder):
        name = posixpath.basename(folder)
        is_usual = is_usual or "=" in name or name == "data"
        others += not is_usual
        at_mount = location.is_local and os.path.ismount(folder)
        if at_mount or others > _OTHER_LEVELS:
            return
        folder = posixpath.dirname(folder)
        yield folder, is_usual
        is_usual = False


def _targets(location: FileLocation, path: str) -> list[str]:
    """Return where a local path leads to, if a link is on it."""
    target = os.path.realpath(path) if location.is_local else path
    return [] if target == path else [target]
