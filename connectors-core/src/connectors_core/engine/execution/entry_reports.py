# SPDX-License-Identifier: Apache-2.0
"""The first report of an entry, which counts for all its readers. Executor."""

from __future__ import annotations

import logging
from typing import Final

from connectors_core.engine.execution.split_reading import SplitReading
from connectors_core.engine.protocol import REPORTS, Entry, Report
from connectors_core.engine.state import StateStore
from connectors_core.errors import DataLossError, FatalError, StateCorruptedError
from connectors_core.secrets import mask_text

_LOGGER: Final = logging.getLogger(__name__)


def report_of(entry: Entry, report: Report | None, path: str) -> Report | None:
    """Return the report of an entry, after checking that it belongs to the plan of the entry."""
    if report is not None and report.nonce != entry.nonce:
        raise StateCorruptedError(
            f"the report {path} belongs to another plan of the same number",
            expected=entry.nonce,
            found=report.nonce,
            hint="the state location was restored, or another driver writes to it: restore "
            "checkpoint and state location together",
        )
    return report


def winner(store: StateStore, entry: Entry, mine: Report, path: str) -> Report:
    """Return the report that was created first; remove the files that only the other one names."""
    first = report_of(entry, REPORTS.read(store, path), path)
    if mine.spool is not None and (first is None or first.spool != mine.spool):
        store.delete(mine.spool)
    if mine.kept is not None and (first is None or first.kept != mine.kept):
        store.delete(mine.kept.path)
    if first is None:
        raise StateCorruptedError(
            f"the report {path} is missing",
        )
    return first


def assert_same_stops(mine: Report, winner: Report) -> None:
    """Refuse two reads of an entry that ended at different rows."""

    def stops(report: Report) -> list[tuple[str, int, bool]]:
        return sorted((s.split_id, s.rows, s.finished) for s in report.splits)

    if stops(mine) != stops(winner):
        raise FatalError(
            f"two reads of the same entry of source {mine.source!r} ended at different rows",
            expected=stops(winner),
            found=stops(mine),
            hint="the source declares that its splits end and can be replayed, but two reads "
            "differ: correct its split_traits()",
        )


def fewer_rows(entry: Entry, split: SplitReading, skips_unreadable: bool) -> None:
    """Refuse a split with fewer rows than on its first read, or log it if the source skips them.

    Raises:
        DataLossError: The source does not skip what it cannot read.
    """
    name = mask_text(split.planned.split_id)
    if skips_unreadable:
        _LOGGER.warning(
            "plan %d read %d rows of split %s of source %r, and %d of them can be read again. The "
            "others are skipped, unless they are written",
            entry.plan,
            split.quota,
            name,
            entry.source,
            split.rows,
        )
        return
    raise DataLossError(
        f"split {name!r} of source {entry.source!r} returns fewer rows than on its first read",
        expected=f"{split.quota} rows from the position in plan {entry.plan}",
        found=f"{split.rows} rows",
        hint="data was removed or changed after it was read: restore it, or give the split up with "
        "`connectors state give-up-split LOCATION UID SPLIT`",
    )
