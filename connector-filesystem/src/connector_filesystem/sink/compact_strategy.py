# SPDX-License-Identifier: Apache-2.0
"""When to merge the files of a folder (Flink's FLIP-191)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from connector_filesystem.sink.writer import FileCommittable
from connectors_core.options import DURATION, MEMORY_SIZE, Configured, Setting, option, positive
from connectors_core.sink import CompactCoordinator, CompactRequest, HeldCommittable

__all__ = ["FileCompactCoordinator", "FileCompactStrategy"]

_SINCE: Final = "3.0.0"
_Held = HeldCommittable[FileCommittable]


class FileCompactStrategy(Configured, since=_SINCE):
    """When to merge the files of a folder, and how many are merged at a time.

    Until then, the files are hidden. The files of a folder are merged when together they reach the
    size, when the oldest has waited for a number of epochs or for a time, when too many files are
    held, and at the end of the input.
    """

    file_size: Setting[int, int | str] = option(
        "compaction.file-size",
        MEMORY_SIZE,
        default=128 * 1024 * 1024,
        validator=positive,
        doc="Files of a folder that together reach this size are merged into one. A file that "
        "reaches it alone stays as it is.",
    )
    epochs: Setting[int] = option(
        "compaction.epochs",
        int,
        unit="epochs",
        default=10,
        validator=positive,
        doc="Files that have waited for this many epochs are merged, whatever their size. With 1, "
        "only the files of one epoch are merged.",
    )
    max_wait: Setting[timedelta, timedelta | str] = option(
        "compaction.max-wait",
        DURATION,
        default=timedelta(hours=1),
        validator=positive,
        doc="Files that have waited for this long are merged, even if no epoch follows.",
    )
    parallelism: Setting[int] = option(
        "compaction.parallelism",
        int,
        unit="tasks",
        default=1,
        validator=positive,
        doc="Maximum number of tasks that merge files at a time, next to the epochs.",
    )
    max_backlog: Setting[int] = option(
        "compaction.max-backlog",
        int,
        unit="files",
        default=10_000,
        validator=positive,
        doc="Maximum number of held files. Above it, everything is merged, and the next epoch "
        "waits.",
    )


@dataclass(frozen=True, kw_only=True)
class FileCompactCoordinator(CompactCoordinator[FileCommittable]):
    """Groups the files of each folder, in their order. Driver.

    Args:
        strategy: When to merge.
        suffix: The suffix of files that can be merged. Others, from a former format, stay as they
            are.
        merges: Whether files are merged at all.
        together: Whether the folders are merged together when a file has waited for long enough.
    """

    strategy: FileCompactStrategy
    suffix: str
    merges: bool = True
    together: bool = False

    def requests(
        self, held: Sequence[_Held], checkpoint_id: int, *, everything: bool
    ) -> Sequence[CompactRequest[FileCommittable]]:
        """Return a request for each group that is due."""
        folders: dict[str, list[_Held]] = {}
        for each in held:
            folders.setdefault(each.committable.folder, []).append(each)
        oldest = checkpoint_id - self.strategy.epochs + 1
        everything = everything or (self.together and held[0].checkpoint_id <= oldest)
        groups = itertools.chain.from_iterable(map(self._groups, folders.values()))
        return [
            CompactRequest(held=tuple(group))
            for group, complete in groups
            if complete or everything or group[0].checkpoint_id <= oldest
        ]

    def _groups(self, files: Sequence[_Held]) -> Iterator[tuple[list[_Held], bool]]:
        """Yield neighboring files to merge, and whether they need no more files."""
        group: list[_Held] = []
        size = 0
        for each in files:
            if not self._can_be_merged(each.committable):
                if group:
                    yield group, True  # nothing can be appended any more
                yield [each], True
                group, size = [], 0
                continue
            group.append(each)
            size += each.committable.size
            if size >= self.strategy.file_size:
                yield group, True
                group, size = [], 0
        if group:
            yield group, False

    def _can_be_merged(self, file: FileCommittable) -> bool:
        return (
            self.merges
            and file.size < self.strategy.file_size
            and file.final_path.endswith(self.suffix)
        )
