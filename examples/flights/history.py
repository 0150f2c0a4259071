# SPDX-License-Identifier: Apache-2.0
"""The history of a pipeline from its state location, which is exact despite crashes.

Each micro-batch has a *plan* with the watermark of every source, a *report* of each reader, and, if
rows were written, a *decision*. These documents never change.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

_KINDS = ("plans", "reports", "decisions")
END_OF_TIME = 3_153_600_000_000_000
"""The watermark of a source that has ended."""
DAY = 86_400_000_000


@dataclass
class History:
    """The documents of a pipeline with one query, in their order.

    Args:
        checkpoint: The checkpoint location.
        notes: The file for the drivers' lag and lookups.
    """

    checkpoint: Path
    notes: Path
    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    watermarks: dict[str, int] = field(default_factory=dict)
    epochs: int = 0
    rows: list[tuple[float, str, int]] = field(default_factory=list)
    """Time, source or sink, and the rows so far."""
    marks: list[tuple[float, str, int]] = field(default_factory=list)
    """Time, source, and watermark in microseconds."""
    lag: dict[str, int] = field(default_factory=dict)
    """The lag of each partition in records, as last reported by the driver."""
    lags: list[tuple[float, str, int]] = field(default_factory=list)
    """Time, partition, and its lag."""
    lookups_by_driver: dict[int, dict[str, dict[str, int]]] = field(default_factory=dict)
    """The lookup metrics last reported by each driver."""
    _seen: set[Path] = field(default_factory=set)
    _lines: int = 0

    def refresh(self) -> None:
        """Read the new documents."""
        self._refresh_notes()
        paths = (
            path
            for kind in _KINDS
            for path in self.checkpoint.glob(f"query-*/{kind}/**/*.json")
            if path not in self._seen
        )
        found = []
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # removed because it is old
                found.append((path.stat().st_mtime, path, path.read_bytes()))
        for moment, path, document in sorted(found):
            self._seen.add(path)
            self._take(moment, json.loads(document)["payload"])

    def _refresh_notes(self) -> None:
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        for line in lines[self._lines :]:
            found = json.loads(line)
            if found["lag"]:
                self.lag = found["lag"]
                self.lags += [(found["time"], name, lag) for name, lag in self.lag.items()]
            self.lookups_by_driver.setdefault(found["driver"], {}).update(found["lookups"])
        self._lines = len(lines)

    def rows_read(self, uids: Iterable[str]) -> int:
        """Return the rows that some sources have read."""
        return sum(self.read[uid] for uid in uids)

    @property
    def lookups(self) -> dict[str, Counter[str]]:
        """Return the metrics of each lookup over all drivers, as far as they were reported."""
        totals: dict[str, Counter[str]] = {}
        for of_driver in self.lookups_by_driver.values():
            for uid, counters in of_driver.items():
                totals.setdefault(uid, Counter()).update(counters)
        return totals

    def _take(self, moment: float, document: dict[str, Any]) -> None:
        if "epoch" in document:
            self.epochs += 1
            for uid, sink in document["sinks"].items():
                self.written[uid] += sink["rows"]
                self.rows.append((moment, uid, self.written[uid]))
        elif "sources" in document:
            for uid, source in document["sources"].items():
                if source["watermark"] is not None:
                    self.watermarks[uid] = source["watermark"]
                    self.marks.append((moment, uid, source["watermark"]))
        else:
            uid = document["source"]
            self.read[uid] += document["rows"]
            self.rows.append((moment, uid, self.read[uid]))

    @property
    def newest_drift(self) -> int:
        """Return the lead of the fastest source over the slowest, or 0 after one has ended."""
        marks = self.watermarks.values()
        return max(marks) - min(marks) if marks and max(marks) < END_OF_TIME else 0

    def drift(self) -> Iterator[tuple[float, str, int]]:
        """How far the fastest source was ahead of the slowest, until one ended."""
        latest: dict[str, int] = {}
        for moment, marks in groupby(self.marks, key=itemgetter(0)):  # of one plan
            latest |= {uid: mark for _, uid, mark in marks}
            if len(latest) == len(self.watermarks) and max(latest.values()) < END_OF_TIME:
                yield moment, "drift", max(latest.values()) - min(latest.values())
