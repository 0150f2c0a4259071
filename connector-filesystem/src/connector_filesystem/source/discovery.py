# SPDX-License-Identifier: Apache-2.0
"""Finds files and cuts them into splits. Driver. A listing runs on a worker thread."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Final

from connector_filesystem.filesystem import FileLocation, FileStatus, mapped_errors
from connector_filesystem.formats import Compression, FileFormat
from connector_filesystem.listing import (
    LeftOut,
    Listing,
    has_match,
    is_hidden,
    list_elsewhere,
    list_local,
)
from connector_filesystem.manifests import Manifest, newest_manifest
from connector_filesystem.source.paths import PathColumns, event_time_of, relative_to
from connector_filesystem.source.reader import layout_of
from connector_filesystem.source.split import FileSplit
from connector_filesystem.table_logs import TABLE_FORMATS, logs_above, logs_among
from connectors_core.errors import ConfigurationError, DataLossError
from connectors_core.secrets import mask_url

__all__ = ["IGNORED_SUFFIXES", "FileSelection", "version_of"]

#: Suffixes that writers give to incomplete files.
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
    """The selection of the source's files.

    Attributes:
        locations: Files, folders, and patterns on one filesystem.
        path_columns: Columns from the path.
        path_regex: A pattern that must match the whole path relative to its location.
        ignored_suffixes: Suffixes of files to ignore.
        format: The format of all files, or None to infer it from the suffix.
        compression: The compression of all files, or None to infer it from the suffix.
        split_size: The size of a split in bytes.
        whole_files: Never cut text files.
        event_time_lower_bound: Returns the lowest event time in a file, given its path.
        from_manifests: Only select files that the newest manifest of their folder lists.
        ignore_table_log: Select files although the log of a table decides which are valid.
    """

    locations: tuple[FileLocation, ...]
    path_columns: PathColumns
    path_regex: str | None
    ignored_suffixes: tuple[str, ...]
    format: FileFormat | None
    compression: Compression | None
    split_size: int
    whole_files: bool
    event_time_lower_bound: Callable[[str], datetime | None] | None
    from_manifests: bool = False
    ignore_table_log: bool = False

    @cached_property
    def rooted_columns(self) -> PathColumns:
        """The columns from the path. Their roots are known only after a filesystem is open."""
        return replace(self.path_columns, roots=self.roots)

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The folders that paths are relative to."""
        return tuple(location.root for location in self.locations)

    def root_of(self, path: str) -> str:
        """Return the root of the location that contains a file."""
        return self.parts_of(path)[0]

    def parts_of(self, path: str) -> tuple[str, str]:
        """Return the root of the location that contains a file, and the path relative to it."""
        relative = self.relative(path)
        return path[: len(path) - len(relative)].rstrip("/"), relative

    def relative(self, path: str) -> str:
        """Return the path of a file relative to its location."""
        return relative_to(self.roots, path)

    def files(self, *, may_be_missing: bool) -> list[FileStatus]:
        """List the files to read. See `listing`."""
        return list(self.listing(may_be_missing=may_be_missing).files.values())

    def listing(self, *, may_be_missing: bool) -> Listing:
        """List all files as they are now, in order of their paths, and the ignored paths.

        Args:
            may_be_missing: Treat a location that does not exist as one without files, and also a
                pattern without a match.

        Raises:
            ConfigurationError: A location does not exist, a pattern matches nothing, a folder
                cannot be listed, or the files belong to a table.
            DataLossError: A file that the newest manifest lists is gone.
            RetryableError: The filesystem cannot list it now.
        """
        if not self.from_manifests:
            listing = self._listing(may_be_missing)
            if not self.ignore_table_log:
                self._refuse_tables(listing)
            return listing
        while True:
            # The files of a manifest exist before it does, so they are in a later listing.
            manifests = self._manifests(may_be_missing)
            listing = self._listing(may_be_missing)
            try:
                return _listed(listing, manifests)
            except DataLossError:  # a newer manifest may have replaced the file
                if manifests == self._manifests(may_be_missing):
                    raise

    def _listing(self, may_be_missing: bool) -> Listing:
        listing = Listing()
        if self.locations[0].is_local:  # all locations share one filesystem
            present = [each for each in self.locations if self._is_there(each, may_be_missing)]
            with mapped_errors("listing", ", ".join(each.url for each in present)):
                list_local(present, self._reason_against, listing)
        else:
            for location in self.locations:
                with mapped_errors("listing", location.url):
                    try:
                        list_elsewhere(location, self._reason_against, listing)
                    except FileNotFoundError as exc:
                        _refuse_missing(location, may_be_missing, exc)
        for location in self.locations:
            if not may_be_missing and location.is_pattern and not has_match(location, listing):
                raise ConfigurationError(
                    f"the pattern {mask_url(location.url)} matches no file or folder",
                    option="path",
                    hint="check the path, and write [[] for [ in a name; "
                    "source.allow-missing-paths reads no rows, and source.monitor-interval waits",
                )
        listing.files = dict(sorted(listing.files.items()))
        listing.complete = {*map(self.root_of, listing.files)} >= {
            root.rstrip("/") for root in self.roots
        }
        return listing

    def _refuse_tables(self, listing: Listing) -> None:
        """Refuse files that only the log of a table can tell from removed or incomplete ones."""
        hidden = [path for path, each in listing.left_out.items() if each is LeftOut.HIDDEN]
        shown = [path for path in (*listing.files, *listing.left_out) if path.endswith(".json")]
        logs = set()
        for root, above in self._logs_above:
            below = f"{root.rstrip('/')}/"
            if any(path == root or path.startswith(below) for path in listing.files):
                logs.update(above)
            found = logs_among(
                below, (path for path in (*hidden, *shown) if path.startswith(below))
            )
            for log in found:
                folder = log.rpartition("/")[0]
                if any(path.startswith(f"{folder}/") for path in listing.files):
                    logs.add(log)
        for log in sorted(logs):
            folder, _, name = log.rpartition("/")
            raise ConfigurationError(
                f"the files of {self.locations[0].url_of(folder)} belong to a table whose log "
                "lists them, and others there are removed or incomplete",
                expected="a folder of files alone",
                found=name,
                option="source.ignore-table-log",
                hint=f"read the table with the reader of {TABLE_FORMATS[name]}, or set "
                "source.ignore-table-log to read all files",
            )

    @cached_property
    def _logs_above(self) -> tuple[tuple[str, list[str]], ...]:
        """The logs that a listing does not show, by root. They are looked for once."""
        return tuple((each.root, logs_above(each)) for each in self.locations)

    def splits_of(self, file: FileStatus) -> tuple[FileSplit, ...]:
        """Cut a file into splits. The same version always gives the same splits."""
        format, compression = layout_of(file.path, self.format, self.compression)
        self.rooted_columns.values_of(file.path)  # raises the errors of a path
        can_be_cut = format is FileFormat.PARQUET or (
            compression is Compression.NONE and not (format is FileFormat.CSV and self.whole_files)
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

    def _manifests(self, may_be_missing: bool) -> dict[str, Manifest]:
        found = {}
        for location in self.locations:
            with mapped_errors("reading manifests of", location.url):
                manifest = newest_manifest(location)
            if manifest is not None:
                found[location.root] = manifest
            elif not may_be_missing:
                raise ConfigurationError(
                    f"{mask_url(location.url)} has no manifest",
                    expected="a folder that a FileSink with manifests has written",
                    option="source.order",
                    hint="set sink.manifests of the sink, or another source.order",
                )
        return found

    def _is_there(self, location: FileLocation, may_be_missing: bool) -> bool:
        with mapped_errors("listing", location.url):
            try:
                os.stat(location.root)
            except FileNotFoundError as exc:
                _refuse_missing(location, may_be_missing, exc)
                return False
        return True

    def _reason_against(self, location: FileLocation, path: str) -> LeftOut | None:
        if path == location.path and not location.is_pattern:
            return None
        relative = location.relative(path)
        if is_hidden(relative):
            return LeftOut.HIDDEN
        if relative.endswith(self.ignored_suffixes):
            return LeftOut.INCOMPLETE
        if self.path_regex is not None and not re.fullmatch(self.path_regex, relative):
            return LeftOut.UNMATCHED
        return None


def _listed(listing: Listing, manifests: Mapping[str, Manifest]) -> Listing:
    """Return a listing without the files that are in no manifest."""
    files = {}
    for root, manifest in manifests.items():
        for each in manifest.files:
            path = f"{root.rstrip('/')}/{each.path}"
            status = listing.files.pop(path, None)
            if status is not None:
                files[path] = replace(status, manifest=each.manifest)
            elif path not in listing.left_out:
                raise DataLossError(
                    f"the file {path!r} is gone, but the newest manifest of its folder lists it",
                    expected=f"a file of {each.size} bytes",
                    found="none",
                    hint="remove files only with INSERT OVERWRITE",
                )
    return Listing(
        files=dict(sorted(files.items())),
        left_out=listing.left_out | dict.fromkeys(listing.files, LeftOut.UNLISTED),
        complete=listing.complete,
        manifests={root: each.number for root, each in manifests.items()},
    )


def _refuse_missing(location: FileLocation, may_be_missing: bool, cause: OSError) -> None:
    if not may_be_missing:
        raise ConfigurationError(
            f"there is no file or folder {mask_url(location.url)}",
            option="path",
            hint="check the path; source.allow-missing-paths reads no rows, and "
            "source.monitor-interval waits for it",
        ) from cause


def version_of(file: FileStatus) -> str:
    """Return the identity of a version of a file."""
    return str(file.modification_time if file.modification_time is not None else file.etag)
