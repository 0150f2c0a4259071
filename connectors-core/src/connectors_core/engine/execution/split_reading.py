# SPDX-License-Identifier: Apache-2.0
"""The progress of a split within an entry. Executor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from connectors_core.engine.protocol import PlannedSplit
from connectors_core.source.reader import SourceReader
from connectors_core.source.split import SourceSplit
from connectors_core.source.watermarks import SplitWatermarks


@dataclass
class SplitReading:
    """Progress of one split within the entry.

    A position is a split state of the connector (``base``) and the number of rows to drop after it
    (``skip``). A batch can therefore be cut at any row, whatever positions the connector has.
    """

    planned: PlannedSplit
    base: SourceSplit
    skip: int
    watermarks: SplitWatermarks | None
    quota: int | None
    rows: int = 0
    consumed: int = 0
    touched: bool = False
    waited: bool = False
    stopped: bool = False
    finished: bool = False
    ended: bool = False
    head: int | None = None

    @property
    def open(self) -> bool:
        """Whether more rows of it are read."""
        return not (self.stopped or self.finished)


def moved_splits(
    reader: SourceReader[Any], splits: Iterable[SplitReading]
) -> Mapping[str, SourceSplit | None]:
    """Return the splits of a reader that moved in a poll, or all if it does not tell."""
    moved = reader.moved_splits()
    if moved is not None:
        return moved
    positions = {split.split_id: split for split in reader.snapshot_state()}
    names = (split.planned.split_id for split in splits if split.open)
    return {name: positions.get(name) for name in names}
