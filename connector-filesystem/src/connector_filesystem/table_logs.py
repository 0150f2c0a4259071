# SPDX-License-Identifier: Apache-2.0
"""Finds folders whose files belong to a table, because a log lists the valid ones. Driver."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from connector_filesystem.filesystem import FileLocation
from connector_filesystem.formats import detect_format

__all__ = ["TABLE_FORMATS", "log_in", "logs_above", "logs_among"]

#: The folder of each log, and the reader of its tables.
TABLE_FORMATS: Final[Mapping[str, str]] = {
    "_delta_log": "Delta Lake: the format 'delta' of Spark",
    ".hoodie": "Hudi: the format 'hudi' of Spark",
    "_spark_metadata": "Spark's file sink: the reader of the files' format in Spark",
    "metadata": "Iceberg: the format 'iceberg' of Spark",
}
_ICEBERG: Final = "metadata"
_ICEBERG_SUFFIX: Final = ".metadata.json"


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


def log_in(location: FileLocation, folder: str, names: Collection[str]) -> str | None:
    """Return the folder of the log among the names in a folder, or None.

    Args:
        location: A location on the filesystem.
        folder: The path of the folder.
        names: The names in it, or those that it may contain.
    """
    for name in sorted(TABLE_FORMATS.keys() & set(names)):
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


def logs_above(location: FileLocation) -> Iterator[str]:
    """Yield the logs of tables that a location can be in, and whose log no listing shows.

    These are the folders around files, patterns, and partitions. A few requests for each.
    """
    folder = location.root.rstrip("/")
    is_file = not location.is_pattern and detect_format(folder)[0] is not None
    checked = [folder] if location.is_pattern else []
    while is_file or "=" in posixpath.basename(folder) or posixpath.basename(folder) == "data":
        folder, is_file = posixpath.dirname(folder), False
        checked.append(folder)
    for each in checked:
        log = log_in(location, each, TABLE_FORMATS)
        if log is not None:
            yield log
