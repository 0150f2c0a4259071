# SPDX-License-Identifier: Apache-2.0
"""Merges the small files of a folder that already exists, and survives crashes.

Each merge is prepared in a hidden folder and then recorded in a journal. From then on it is always
completed, by this run or the next one: the originals are removed, and only then do the merged files
appear. A reader therefore sees no row twice, but can miss the rows of a merge for a moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import socket
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import pyarrow as pa

from connector_filesystem.filesystem import FileLocation, FileStatus, mapped_errors
from connector_filesystem.folders import make_folders, sync_folders
from connector_filesystem.foreign_compactor import ForeignFileCompactor, UnmergeableFileError
from connector_filesystem.formats import (
    Compression,
    CsvOptions,
    FileFormat,
    JsonOptions,
    ParquetOptions,
    detect_format,
)
from connector_filesystem.manifests import MANIFESTS_FOLDER
from connector_filesystem.moves import move_file
from connector_filesystem.new_files import create_file
from connector_filesystem.sink.compactors import InputFile, Merging
from connector_filesystem.sink.contents import CONTENTS_FOLDER
from connector_filesystem.sink.part_file import (
    STAGING_FOLDER,
    EncoderConfig,
)
from connector_filesystem.source.discovery import IGNORED_SUFFIXES, FileSelection
from connector_filesystem.source.paths import PathColumns
from connector_filesystem.table_logs import TABLE_FORMATS, log_in, logs_above
from connectors_core.errors import ConfigurationError, DataLossError, MissingOptionError
from connectors_core.secrets import mask_url

__all__ = ["FileGroup", "FolderCompaction"]

HIDDEN_FOLDER: Final = "_compaction"
_LOCK: Final = f"{HIDDEN_FOLDER}/lock.json"
_JOURNALS: Final = f"{HIDDEN_FOLDER}/journals"
_STAGED: Final = f"{HIDDEN_FOLDER}/staged"
# The row groups of all Parquet files of a folder, by the names of the files.
_SUMMARY: Final = "_metadata"
_BUCKETED: Final = re.compile(r"part-\d+-[0-9a-f-]{36}_(\d+)\.c\d+")
_BUFFER_BYTES: Final = 16 * 1024 * 1024

_TABLE_HINT: Final = (
    "use the commands of that table format, such as OPTIMIZE, or enable compaction in the sink "
    "with manifests (FileSink.enable_compact)"
)
_SUMMARY_HINT: Final = (
    "remove this summary first, and write it again if a reader needs it. Spark, DuckDB, and "
    "pyarrow read the files without it"
)


@dataclass(frozen=True, kw_only=True)
class FileGroup:
    """Neighboring files of one folder and format that are merged.

    Attributes:
        files: The files, in the order of their names.
        format: Their format.
        compression: Their compression.
        suffix: The suffix of their names.
    """

    files: tuple[FileStatus, ...]
    format: FileFormat
    compression: Compression
    suffix: str

    @property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(file.size for file in self.files)

    def without(self, path: str) -> list[FileGroup]:
        """Return the files after and before one of them, if they can still be merged."""
        at = [file.path for file in self.files].index(path)
        parts = self.files[at + 1 :], self.files[:at]
        return [replace(self, files=part) for part in parts if len(part) > 1]


@dataclass(frozen=True, kw_only=True)
class _Merged:
    staged: str
    final: str
    size: int


@dataclass(frozen=True, kw_only=True)
class _Journal:
    """A merge that will be completed; all paths are relative to the folder."""

    originals: tuple[dict[str, Any], ...]
    merged: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class FolderCompaction:
    """Merges the small files of a folder.

    Args:
        location: The folder. Folders below it are compacted, each alone.
        file_size: Files below this size are merged up to this size, in bytes.
        csv: The dialect of CSV files; None refuses them.
        take_lock: Whether to continue although another run seems to be active.
    """

    location: FileLocation
    file_size: int
    csv: CsvOptions | None
    take_lock: bool = False

    def groups(self) -> list[FileGroup]:
        """Return the groups of files to merge now. Read-only.

        Raises:
            ConfigurationError: The files belong to a table that lists them elsewhere.
            MissingOptionError: There are CSV files, whose dialect is not known.
        """
        selection = FileSelection(
            locations=(self.location,),
            path_columns=PathColumns(),
            path_regex=None,
            ignored_suffixes=IGNORED_SUFFIXES,
            format=None,
            compression=None,
            split_size=1,
            whole_files=True,
            event_time_lower_bound=None,
            ignore_table_log=True,
        )
        found: list[FileGroup] = []
        group: FileGroup | None = None
        for file in selection.files(may_be_missing=False):
            alone = self._group_of(file)
            if alone is None:
                group = None
            elif group is None or not self._go_together(group, alone):
                group = alone
                found.append(group)
            else:
                found[-1] = group = replace(group, files=group.files + alone.files)
        groups = [each for each in found if len(each.files) > 1]
        self._refuse_tables(groups)
        if self.csv is None and any(each.format is FileFormat.CSV for each in groups):
            raise MissingOptionError(
                "--csv-header",
                scope="a folder with CSV files",
                doc="only you know whether their first lines are headers. If they are rows, use "
                "--no-csv-header",
            )
        return groups

    def _group_of(self, file: FileStatus) -> FileGroup | None:
        """Return a group of one file, or None for a file that is not merged."""
        format, compression = detect_format(file.path)
        linked = self.location.is_local and os.path.islink(file.path)
        if format is None or linked or file.size >= self.file_size:
            return None
        name = posixpath.basename(file.path)
        stem = name[: -len(compression.suffix)] if compression is not Compression.NONE else name
        suffix = name[len(stem.rpartition(".")[0]) :]
        return FileGroup(files=(file,), format=format, compression=compression, suffix=suffix)

    def _go_together(self, group: FileGroup, other: FileGroup) -> bool:
        one, two = group.files[0].path, other.files[0].path
        return (
            posixpath.dirname(one) == posixpath.dirname(two)
            and group.suffix == other.suffix
            and _bucket(one) == _bucket(two)
            and group.size < self.file_size
        )

    def run(self) -> int:
        """Complete interrupted merges, then merge all groups.

        Returns:
            The number of files that were merged.

        Raises:
            ConfigurationError: Another run is active, a sink has staged files in the folder, or
                some files cannot be merged. The others are then merged.
            DataLossError: A file of an interrupted merge is gone.
        """
        with mapped_errors("merging files of", self.location.url), self._locked():
            self._refuse_staged_files()
            for name in self.location.names(_JOURNALS):
                self._complete(f"{_JOURNALS}/{name}")
            self._remove_tree(_STAGED)
            groups = self.groups()[::-1]
            merged = 0
            refused: list[UnmergeableFileError] = []
            while groups:
                group = groups.pop()
                try:
                    merged += self._merge(group)
                except UnmergeableFileError as error:
                    refused.append(error)
                    groups += group.without(self.location.join(error.file.path))
        if refused:
            raise _unmerged(refused, merged)
        return merged

    # --- One merge ---

    def _merge(self, group: FileGroup) -> int:
        """Merge a group, and return the number of files that were merged."""
        prepared = self._prepare(group)
        if prepared is None:
            return 0
        path, count = prepared
        self._complete(path)
        return count

    def _prepare(self, group: FileGroup) -> tuple[str, int] | None:
        """Merge a group into hidden files.

        Returns:
            The path of its journal and the number of its originals, or None if no two files fit.
        """
        name = uuid.uuid4().hex[:12]
        folder = f"{_STAGED}/{name}"
        make_folders(self.location, folder)
        inputs = [
            InputFile(path=self.location.relative(file.path), size=file.size)
            for file in group.files
        ]
        merging = Merging(
            self.location, folder, config=self._config(group), buffer_size=_BUFFER_BYTES
        )
        try:
            outputs = ForeignFileCompactor().merge(inputs, merging)
        except UnmergeableFileError:
            self._remove_tree(folder)
            raise
        sync_folders(self.location, [folder])
        merged: list[_Merged] = []
        originals: list[FileStatus] = []
        at = 0
        for number, output in enumerate(outputs):
            if output.inputs > 1:  # a file that fits none of its neighbors stays
                stem = inputs[at].path.removesuffix(group.suffix)
                final = f"{stem}-compacted-{name}-{number}{group.suffix}"
                merged.append(_Merged(staged=output.path, final=final, size=output.size))
                originals += group.files[at : at + output.inputs]
            at += output.inputs
        if not merged:
            self._remove_tree(folder)
            return None
        for file in originals:
            if not self.location.status(file.path).is_same_version(file):
                raise ConfigurationError(
                    f"the file {self.location.url_of(file.path)} has changed while it was merged",
                    hint="compact a folder only while no one writes to its files",
                )
        journal = _Journal(
            originals=tuple(
                {**asdict(file), "path": self.location.relative(file.path)} for file in originals
            ),
            merged=tuple(asdict(each) for each in merged),
        )
        path = f"{_JOURNALS}/{name}.json"
        self._create(path, json.dumps(asdict(journal)).encode())
        return path, len(originals)

    def _config(self, group: FileGroup) -> EncoderConfig:
        return EncoderConfig(
            group.format,
            group.compression,
            csv=self.csv or CsvOptions(),
            json=JsonOptions(),
            parquet=ParquetOptions(),
            schema=pa.schema([]),
        )

    def _complete(self, path: str) -> None:
        """Remove the originals of a recorded merge, then show its merged files."""
        stored = json.loads(self.location.fs.cat_file(self.location.join(path)))
        merged = [_Merged(**each) for each in stored["merged"]]
        self._refuse_lost(merged)
        for original in stored["originals"]:
            wanted = FileStatus(**{**original, "path": self.location.join(original["path"])})
            with contextlib.suppress(FileNotFoundError):
                if self.location.status(wanted.path).is_same_version(wanted):
                    self.location.fs.rm_file(wanted.path)
        # The removals must be durable before the merged files appear.
        sync_folders(self.location, {posixpath.dirname(each.final) for each in merged})
        for each in merged:
            staged, final = self.location.join(each.staged), self.location.join(each.final)
            if self.location.size(staged) is not None:
                move_file(self.location, staged, final, size=each.size)
        sync_folders(self.location, {posixpath.dirname(each.final) for each in merged})
        for each in merged:
            if self._size(each.final) != each.size:
                raise DataLossError(
                    f"the merged file {each.final!r} is not complete",
                    expected=f"{each.size} bytes",
                    found=self._size(each.final),
                    hint="run the command again",
                )
        self.location.fs.rm_file(self.location.join(path))

    def _refuse_lost(self, merged: Sequence[_Merged]) -> None:
        for each in merged:
            if each.size not in (self._size(each.staged), self._size(each.final)):
                raise DataLossError(
                    f"the merged file {each.staged!r} is gone",
                    expected=f"a file of {each.size} bytes",
                    found="none",
                    hint=f"do not remove files from {HIDDEN_FOLDER!r}. No original that still "
                    "exists was removed",
                )

    # --- The folder ---

    def _refuse_tables(self, groups: Sequence[FileGroup]) -> None:
        """Refuse folders whose files a log lists: its readers would look for the originals."""
        wanted: dict[str, set[str]] = {}
        for group in groups:
            lists = {*TABLE_FORMATS, CONTENTS_FOLDER, MANIFESTS_FOLDER}
            if group.format is FileFormat.PARQUET:
                lists.add(_SUMMARY)
            for folder in _parents(self.location.relative(group.files[0].path)):
                wanted.setdefault(folder, set()).update(lists)
        found = [
            log_in(
                self.location, self.location.join(folder), lists & {*self.location.names(folder)}
            )
            for folder, lists in sorted(wanted.items())
        ]
        if wanted:
            found += logs_above(self.location, wanted[""])
        for each in filter(None, found):
            is_summary = posixpath.basename(each) == _SUMMARY
            raise ConfigurationError(
                f"the files of {mask_url(self.location.url)} belong to a table that lists them",
                expected="a folder of files alone",
                found=self.location.url_of(each),
                hint=_SUMMARY_HINT if is_summary else _TABLE_HINT,
            )

    def _refuse_staged_files(self) -> None:
        names = self.location.names
        staged = [name for name in names(STAGING_FOLDER) if names(f"{STAGING_FOLDER}/{name}")]
        if staged:
            raise ConfigurationError(
                f"sinks have staged files in {mask_url(self.location.url)}, so a pipeline is "
                "running or will continue",
                expected="a folder whose pipelines have ended",
                found=", ".join(staged),
                hint="let the pipelines end normally first, or enable compaction in their sinks "
                "(FileSink.enable_compact)",
            )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other runs out.

        Raises:
            ConfigurationError: Another run is active, or was killed on another machine.
        """
        own = {"host": socket.gethostname(), "pid": os.getpid(), "run": uuid.uuid4().hex}
        make_folders(self.location, _JOURNALS)
        if not self._create(_LOCK, json.dumps(own).encode()):
            holder = json.loads(self.location.fs.cat_file(self.location.join(_LOCK)))
            if not self.take_lock and not _has_ended(holder):
                raise ConfigurationError(
                    f"another run merges the files of {mask_url(self.location.url)}",
                    found=f"process {holder['pid']} on {holder['host']}",
                    option="--take-lock",
                    hint="wait for it. If that process no longer runs, use --take-lock",
                )
            self.location.fs.rm_file(self.location.join(_LOCK))
            if not self._create(_LOCK, json.dumps(own).encode()):
                raise ConfigurationError(
                    f"another run merges the files of {mask_url(self.location.url)}",
                    hint="wait for it",
                )
        try:
            yield
        finally:
            self.location.fs.rm_file(self.location.join(_LOCK))
            self._remove_if_empty(_JOURNALS, _STAGED, HIDDEN_FOLDER)

    def _create(self, path: str, data: bytes) -> bool:
        """Create a small file as a whole; return False if it exists."""
        return create_file(self.location, path, data, link=os.link)

    def _size(self, path: str) -> int | None:
        return self.location.size(self.location.join(path))

    def _remove_tree(self, folder: str) -> None:
        if self.location.names(folder):
            self.location.fs.rm(self.location.join(folder), recursive=True)

    def _remove_if_empty(self, *folders: str) -> None:
        self._remove_empty_below(_STAGED)
        for folder in folders:
            if not self.location.names(folder):
                with contextlib.suppress(OSError, NotImplementedError):
                    self.location.fs.rmdir(self.location.join(folder))

    def _remove_empty_below(self, folder: str) -> None:
        for name in self.location.names(folder):
            with contextlib.suppress(OSError, NotImplementedError):
                self.location.fs.rmdir(self.location.join(f"{folder}/{name}"))


def _unmerged(refused: Sequence[UnmergeableFileError], merged: int) -> ConfigurationError:
    reasons = "; ".join(f"{each.file.path}: {each.reason}" for each in refused)
    return ConfigurationError(
        f"{len(refused)} files cannot be merged without a loss, and stay as they are",
        expected="files that can be joined",
        found=reasons,
        hint=f"the other {merged} files were merged. {refused[0].hint}",
    )


def _parents(path: str) -> Iterator[str]:
    """Yield the folders above a relative path, up to the empty path."""
    while path:
        path = posixpath.dirname(path)
        yield path


def _bucket(path: str) -> str | None:
    """Return the bucket of a file of Spark's `bucketBy`. Readers take it from the name alone."""
    found = _BUCKETED.match(posixpath.basename(path))
    return None if found is None else found[1]


def _has_ended(holder: dict[str, Any]) -> bool:
    """Return whether the process of a lock ran on this machine and has ended."""
    if holder["host"] != socket.gethostname():
        return False
    try:
        os.kill(holder["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
