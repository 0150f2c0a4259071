# SPDX-License-Identifier: Apache-2.0
"""Discovers files, once or repeatedly, and assigns their splits on request. Driver."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from connector_filesystem.filesystem import FileStatus
from connector_filesystem.listing import LeftOut, Listing
from connector_filesystem.source.discovery import FileSelection
from connector_filesystem.source.memory import (
    ByManifest,
    ByName,
    ByTime,
    EachVersion,
    FileOrder,
    GoneFiles,
    ListedFiles,
    Memory,
)
from connector_filesystem.source.split import FileSplit
from connectors_core.errors import RetryableError
from connectors_core.metrics import EnumeratorMetric
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import (
    SplitAssigner,
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsAvailableNow,
    SupportsBatchSnapshot,
)

__all__ = ["FileEnumerator", "FileEnumeratorState", "state_serializer"]

_logger = logging.getLogger(__name__)

# The number of consecutive listings that can fail before the pipeline fails.
_MAX_FAILURES: Final = 5
# In these orders, no file is too late.
_EXACT_ORDERS: Final = frozenset({FileOrder.ANY, FileOrder.MANIFEST})
# The maximum number of paths in a log line.
_MAX_NAMED: Final = 20


@dataclass(frozen=True, kw_only=True)
class FileEnumeratorState:
    """The state of the discovery. Only in the order `any` does it grow with the number of files.

    Attributes:
        pending: Unassigned splits, in the order of assignment.
        complete: Whether a bounded source has been listed.
        newest: The highest modification time of the files taken, in microseconds.
        recent: Versions of files modified within the window before `newest`.
        last_paths: The last relative path taken below each location.
        manifests: The number of the last manifest taken of each location.
        read: In the order `any`, fingerprints of the versions of the files taken.
        gone: Removed files of `read`, with the time since they were missed. Older states keep them
            in `read`.
        listed: In the other orders, a filter of the versions in the last listing.
    """

    pending: tuple[FileSplit, ...] = ()
    complete: bool = False
    newest: int | None = None
    recent: tuple[str, ...] = ()
    last_paths: dict[str, str] = field(default_factory=dict)
    manifests: dict[str, int] = field(default_factory=dict)
    read: bytes = b""
    gone: tuple[GoneFiles, ...] = ()
    listed: bytes = b""


def state_serializer() -> JsonDataclassSerializer[FileEnumeratorState]:
    """The stored form. Layout 2 has more fields, which older releases refuse."""
    return JsonDataclassSerializer(FileEnumeratorState, version=2, migrations={1: dict})


class FileEnumerator(
    SplitEnumerator[FileSplit, FileEnumeratorState], SupportsAvailableNow, SupportsBatchSnapshot
):
    """The enumerator of files; see the module.

    Args:
        context: The coordinator.
        selection: The selection of files.
        order: What makes a file new.
        monitor_interval: The interval between listings. None lists once.
        late_file_window: How late a file may become visible, relative to the newest file.
        forget_after: In the order `any`, how long a removed file counts as read.
        may_be_missing: Whether paths without files are allowed.
        state: The state to resume from.
        clock: Monotonic seconds, for tests.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[FileSplit],
        selection: FileSelection,
        *,
        order: FileOrder,
        monitor_interval: timedelta | None,
        late_file_window: timedelta,
        forget_after: timedelta = timedelta(days=7),
        may_be_missing: bool = True,
        state: FileEnumeratorState | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        state = state or FileEnumeratorState()
        self._context = context
        self._selection = selection
        self._order = order
        self._interval = monitor_interval
        self._may_be_missing = may_be_missing
        self._assigner: SplitAssigner[FileSplit] = SplitAssigner(
            context.event_time_order,
            found=context.split_found,
            largest_first=order is not FileOrder.MANIFEST,
        )
        self._assigner.add(state.pending)
        self._complete = state.complete
        memories = {
            FileOrder.MODIFICATION_TIME: ByTime(
                late_file_window // timedelta(microseconds=1), state.newest, state.recent
            ),
            FileOrder.NAME: ByName(selection, state.last_paths),
            FileOrder.MANIFEST: ByManifest(selection, state.manifests),
            FileOrder.ANY: EachVersion(
                forget_after.total_seconds(), state.read, state.gone, clock=clock
            ),
        }
        self._memory: Memory = memories.pop(order)
        # The first listing in this order treats files read in another order as read.
        self._former = [each for each in memories.values() if each.fields()]
        self._listed = ListedFiles(state.listed)
        self._told_saturated = False
        self._left_out: Mapping[str, LeftOut] = {}
        self._waiting: set[int] = set()
        self._told: set[int] = set()
        self._freezing = False
        self._failures = 0

    def start(self) -> None:
        """Start listing."""
        if self._complete:
            self._serve()
        else:
            self._context.call_async(self._list, self._take_listing, period=self._interval)

    def handle_split_request(self, subtask_id: int) -> None:
        """Assign a split to the reader now, or as soon as there is one."""
        self._waiting.add(subtask_id)
        self._serve()

    def add_reader(self, subtask_id: int) -> None:
        """A reader that registers after the last assignment receives the signal."""
        self._serve()

    def add_splits_back(self, splits: Sequence[FileSplit], subtask_id: int) -> None:
        """Return the splits of a failed reader for reassignment."""
        self._waiting.discard(subtask_id)
        self._assigner.add_back(splits)
        self._serve()
        told = sorted(self._told & self._context.registered_readers - {subtask_id})
        for reader in itertools.cycle(told):  # these readers do not ask again
            split = self._assigner.next()
            if split is None:
                break
            self._context.assign_split(split, reader)

    def snapshot_state(self, checkpoint_id: int) -> FileEnumeratorState:
        """See `SplitEnumerator`."""
        return FileEnumeratorState(
            pending=self._assigner.pending(),
            complete=self._complete and self._interval is None,
            listed=self._listed.stored(),
            **{
                name: value
                for memory in (*self._former, self._memory)
                for name, value in memory.fields().items()
            },
        )

    def freeze_end(self) -> None:
        """List once more, then end."""
        if self._interval is not None and not self._freezing:
            self._freezing = True
            self._context.call_async(self._list, self._take_last_listing)

    # --- Discovery ---

    def _list(self) -> Listing:
        return self._selection.listing(may_be_missing=self._may_be_missing)

    def _take_listing(self, listing: Listing | None, error: BaseException | None) -> None:
        if self._complete:
            return
        if error is not None:
            self._failures += 1
            retryable = isinstance(error, RetryableError) and self._interval is not None
            if not retryable or self._failures >= _MAX_FAILURES:
                raise error
            self._context.metric_group.inc("failedListings")
            _logger.warning("listing failed and will be retried", exc_info=error)
            return
        self._failures = 0
        if listing is not None:
            self._discover(listing)
            self._tell_left_out(listing.left_out)
        if self._interval is None:
            self._complete = True
        self._serve()

    def _take_last_listing(self, listing: Listing | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._take_listing(listing, None)
        self._complete = True
        self._serve()

    def _discover(self, listing: Listing) -> None:
        files = list(listing.files.values())
        new = files
        if self._interval is not None:
            self._memory.check(listing)
            new, behind = self._memory.sort_out(files)
            for former in self._former:
                new, more = former.sort_out(new)
                behind += more
            self._tell_late(self._listed.lacking(behind))
            self._memory.take(files, complete=listing.complete)
            self._former = []
            if self._order in _EXACT_ORDERS:
                self._listed = ListedFiles(b"")
            else:
                self._listed.replace(files)
                self._tell_saturated(len(files))
        if self._interval is not None or self._order is not FileOrder.NAME:
            new = self._memory.in_order(new)
        for file in new:
            self._assigner.add(self._selection.splits_of(file))
        self._context.metric_group.inc("discoveredFiles", len(new))
        self._context.metric_group.set(EnumeratorMetric.UNASSIGNED_SPLITS, len(self._assigner))

    def _tell_late(self, late: list[FileStatus]) -> None:
        """Report files that count as read but were not in the last listing."""
        if late:
            self._context.metric_group.inc("lateFiles", len(late))
            _logger.warning(
                "%d files appeared too late and are not read: %s; in the order %s, they precede "
                "files that have already been read; increase late-file-window, give new files "
                "names that sort after the existing ones, or set source.order to any",
                len(late),
                _named([file.path for file in late]),
                self._order.value,
            )

    def _tell_saturated(self, count: int) -> None:
        """Warn once if a restart would miss many of the late files."""
        share = self._listed.missed_share
        self._context.metric_group.set("lateFilesMissedShare", share)
        if self._listed.is_saturated and not self._told_saturated:
            self._told_saturated = True
            _logger.warning(
                "%d files exceed what the state can distinguish: about %s of the files that "
                "appear too late while no driver runs will be ignored without a warning; set "
                "source.order to any, which reads them",
                count,
                f"{share:.1%}",
            )

    def _tell_left_out(self, left_out: Mapping[str, LeftOut]) -> None:
        """Count the paths that are not read, and log each once."""
        told, self._left_out = self._left_out, left_out
        metrics = self._context.metric_group
        metrics.set("leftOutFiles", len(left_out))
        for reason in LeftOut:
            paths = [path for path, each in left_out.items() if each is reason]
            if paths or f"leftOutFiles.{reason}" in metrics.gauges:
                metrics.set(f"leftOutFiles.{reason}", len(paths))
            new = sorted(path for path in paths if told.get(path) is not reason)
            if new:
                _logger.log(
                    logging.INFO if reason.is_expected else logging.WARNING,
                    "%d paths are not read because they are %s: %s",
                    len(new),
                    reason.explanation,
                    _named(new),
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


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - _MAX_NAMED
    return ", ".join(paths[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
