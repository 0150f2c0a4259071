# SPDX-License-Identifier: Apache-2.0
"""Discovers files once or again and again, and hands out their splits on request. Driver."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

from connector_filesystem.filesystem import FileStatus
from connector_filesystem.source.discovery import FileSelection, version_of
from connector_filesystem.source.split import FileSplit
from connectors_core.errors import ConfigurationError, RetryableError
from connectors_core.metrics import EnumeratorMetric
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import (
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsAvailableNow,
)
from connectors_core.source.assigner import SplitAssigner

__all__ = ["FileEnumerator", "FileEnumeratorState", "FileOrder", "state_serializer"]

_logger = logging.getLogger(__name__)

# So many listings may fail in a row before the pipeline does.
_MAX_FAILURES: Final = 5


class FileOrder(StrEnum):
    """What makes a file newer than another; decides what discovery has to remember."""

    MODIFICATION_TIME = "modification-time"
    """Files may have any name; a replaced file is read again. Remembered are the files of the last
    `late-file-window` before the newest."""
    NAME = "name"
    """A new file's path sorts behind all before it, as with dates in names. Remembered is the last
    path."""


@dataclass(frozen=True, kw_only=True)
class FileEnumeratorState:
    """What discovery goes on from; does not grow with the number of files.

    Attributes:
        pending: Splits that no reader has, in the order to hand out.
        complete: A bounded source was listed.
        newest: Highest modification time that was taken, in microseconds.
        recent: Versions of files modified not longer than the window before `newest`.
        last_paths: Last relative path taken below each location.
    """

    pending: tuple[FileSplit, ...] = ()
    complete: bool = False
    newest: int | None = None
    recent: tuple[str, ...] = ()
    last_paths: dict[str, str] = field(default_factory=dict)


def state_serializer() -> JsonDataclassSerializer[FileEnumeratorState]:
    """How the state is stored."""
    return JsonDataclassSerializer(FileEnumeratorState)


class FileEnumerator(SplitEnumerator[FileSplit, FileEnumeratorState], SupportsAvailableNow):
    """See the module.

    Args:
        context: The coordinator.
        selection: Which files.
        order: What makes a file new.
        monitor_interval: Time between listings; None lists once.
        late_file_window: How much older than the newest a file may be when it becomes visible.
        state: What to go on from.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[FileSplit],
        selection: FileSelection,
        *,
        order: FileOrder,
        monitor_interval: timedelta | None,
        late_file_window: timedelta,
        state: FileEnumeratorState | None = None,
    ) -> None:
        state = state or FileEnumeratorState()
        self._context = context
        self._selection = selection
        self._order = order
        self._interval = monitor_interval
        self._window = late_file_window // timedelta(microseconds=1)
        self._assigner: SplitAssigner[FileSplit] = SplitAssigner(context.event_time_order)
        self._assigner.add(state.pending)
        self._complete = state.complete
        self._newest = state.newest
        self._recent = frozenset(state.recent)
        self._last_paths = dict(state.last_paths)
        self._waiting: set[int] = set()
        self._told: set[int] = set()
        self._listed: frozenset[int] | None = None
        self._freezing = False
        self._failures = 0

    def start(self) -> None:
        """Begin to list."""
        if self._complete:
            self._serve()
        else:
            self._context.call_async(self._list, self._take_listing, period=self._interval)

    def handle_split_request(self, subtask_id: int) -> None:
        """Give the reader a split now, or when there is one."""
        self._waiting.add(subtask_id)
        self._serve()

    def add_reader(self, subtask_id: int) -> None:
        """A reader that comes when all is given out is told so."""
        self._serve()

    def add_splits_back(self, splits: Sequence[FileSplit], subtask_id: int) -> None:
        """Give the splits of a reader that went away to others."""
        self._waiting.discard(subtask_id)
        self._assigner.add_back(splits)
        self._serve()
        told = sorted(self._told & self._context.registered_readers - {subtask_id})
        for reader in itertools.cycle(told):  # they do not ask again
            split = self._assigner.next()
            if split is None:
                break
            self._context.assign_split(split, reader)

    def snapshot_state(self, checkpoint_id: int) -> FileEnumeratorState:
        """See `SplitEnumerator`."""
        return FileEnumeratorState(
            pending=self._assigner.pending(),
            complete=self._complete and self._interval is None,
            newest=self._newest,
            recent=tuple(sorted(self._recent)),
            last_paths=dict(self._last_paths),
        )

    def freeze_end(self) -> None:
        """List once more, then end."""
        if self._interval is not None and not self._freezing:
            self._freezing = True
            self._context.call_async(self._list, self._take_last_listing)

    # --- Discovery ---

    def _list(self) -> list[FileStatus]:
        return self._selection.files(may_be_missing=self._interval is not None)

    def _take_listing(self, files: list[FileStatus] | None, error: BaseException | None) -> None:
        if self._complete:
            return
        if error is not None:
            self._failures += 1
            retryable = isinstance(error, RetryableError) and self._interval is not None
            if not retryable or self._failures >= _MAX_FAILURES:
                raise error
            self._context.metric_group.inc("failedListings")
            _logger.warning("listing failed and is tried again", exc_info=error)
            return
        self._failures = 0
        self._discover(files or [])
        if self._interval is None:
            self._complete = True
        self._serve()

    def _take_last_listing(
        self, files: list[FileStatus] | None, error: BaseException | None
    ) -> None:
        if error is not None:
            raise error
        self._take_listing(files, None)
        self._complete = True
        self._serve()

    def _discover(self, files: list[FileStatus]) -> None:
        new = files
        if self._interval is not None:
            new = (
                self._newer_by_time(files)
                if self._order is FileOrder.MODIFICATION_TIME
                else self._newer_by_name(files)
            )
        elif self._order is FileOrder.MODIFICATION_TIME:
            new = sorted(files, key=lambda file: (file.modification_time or 0, file.path))
        for file in new:
            self._assigner.add(self._selection.splits_of(file))
        self._context.metric_group.inc("discoveredFiles", len(new))
        self._context.metric_group.set(EnumeratorMetric.UNASSIGNED_SPLITS, len(self._assigner))

    def _newer_by_time(self, files: list[FileStatus]) -> list[FileStatus]:
        times = {file.path: _time(file) for file in files}
        ordered = sorted(files, key=lambda file: (times[file.path], file.path))
        known_before = None if self._newest is None else self._newest - self._window
        new = [
            file
            for file in ordered
            if known_before is None
            or (times[file.path] >= known_before and _version(file) not in self._recent)
        ]
        self._tell_late(
            [file for file in files if known_before is not None and times[file.path] < known_before]
        )
        if ordered:
            # A clock that runs ahead must not make the files of the others look old.
            newest = min(times[ordered[-1].path], time.time_ns() // 1000)
            self._newest = newest if self._newest is None else max(self._newest, newest)
            since = self._newest - self._window
            # A file that is gone stays known for the window: a listing may have missed it.
            self._recent = frozenset(
                version
                for version in self._recent.union(map(_version, files))
                if int(version.rpartition("@")[2]) >= since
            )
        self._listed = frozenset(hash(_version(file)) for file in files)
        return new

    def _newer_by_name(self, files: list[FileStatus]) -> list[FileStatus]:
        new = []
        last = dict(self._last_paths)
        old = []
        for file in files:
            root = self._selection.root_of(file.path)
            relative = self._selection.relative(file.path)
            if root not in self._last_paths or relative > self._last_paths[root]:
                new.append(file)
                last[root] = max(relative, last.get(root, relative))
            else:
                old.append(file)
        self._tell_late(old)
        self._last_paths = last
        self._listed = frozenset(hash(_version(file)) for file in files)
        return sorted(new, key=lambda file: self._selection.relative(file.path))

    def _tell_late(self, old: list[FileStatus]) -> None:
        """Files that count as read but were not there at the last listing are told of."""
        if self._listed is None:
            return
        late = [file.path for file in old if hash(_version(file)) not in self._listed]
        if late:
            self._context.metric_group.inc("lateFiles", len(late))
            _logger.warning(
                "%d files appeared too late and are not read, the first is %s: their order %s is "
                "behind files that were read; raise late-file-window, or give them a name that "
                "sorts behind",
                len(late),
                late[0],
                self._order.value,
            )

    # --- Assignment ---

    def _serve(self) -> None:
        registered = self._context.registered_readers
        for subtask in sorted(self._waiting & registered):
            split = self._assigner.next()
            if split is None:
                break
            self._waiting.discard(subtask)
            self._context.assign_split(split, subtask)
        self._context.metric_group.set(EnumeratorMetric.UNASSIGNED_SPLITS, len(self._assigner))
        if self._complete and not len(self._assigner):
            for subtask in sorted(registered - self._told):
                self._told.add(subtask)
                self._context.signal_no_more_splits(subtask)
            self._waiting -= registered


def _version(file: FileStatus) -> str:
    return f"{file.path}@{version_of(file)}"


def _time(file: FileStatus) -> int:
    if file.modification_time is None:
        raise ConfigurationError(
            f"the filesystem tells no modification time of {file.path}",
            option="order",
            hint="set source.order to name",
        )
    return file.modification_time
