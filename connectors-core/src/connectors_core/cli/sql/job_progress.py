# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of jobs while the shell waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Self

from rich.console import Console

from connectors_core._display import count, span
from connectors_core.engine.query.status import PipelineState, PipelineStatus
from connectors_core.spark.progress import ProgressDisplay

__all__ = ["JobProgress", "Jobs", "outcome", "running", "summary"]

Jobs = Mapping[str, PipelineStatus]

_QUIET_SECONDS: Final = 1.0


class JobProgress:
    """A display that appears once a job has run for a second.

    Args:
        jobs: Returns the jobs.
        console: Shows them, as a table on a terminal and as lines elsewhere.
        hidden: The jobs that it does not show.
    """

    def __init__(
        self, jobs: Callable[[], Jobs], console: Console, hidden: frozenset[str] = frozenset()
    ) -> None:
        self._jobs = jobs
        self._console = console
        self._hidden = hidden
        self._since: float | None = None
        self._display: ProgressDisplay | None = None

    @property
    def shown(self) -> bool:
        """Whether it has appeared."""
        return self._display is not None

    def look(self) -> None:
        """Appear if it is time."""
        if self._display is not None:
            return
        # Not while a job starts: one without an end goes to the background right after that.
        started = {name for name, each in running(self._jobs()).items() if each.queries}
        names = started - self._hidden
        if not names:
            self._since = None
            return
        self._since = self._since or time.monotonic()
        if time.monotonic() - self._since >= _QUIET_SECONDS:
            self._display = ProgressDisplay(lambda: _merged(self._jobs(), names), self._console)
            self._display.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._display is not None:
            self._display.stop()


def running(jobs: Jobs) -> dict[str, PipelineStatus]:
    """Return the jobs that run."""
    return {name: each for name, each in jobs.items() if each.state is PipelineState.RUNNING}


def outcome(status: PipelineStatus) -> str:
    """Return how a job has ended, such as `finished: 3 rows read, 2 rows written`."""
    end = "been stopped" if status.state is PipelineState.STOPPED else status.state.value
    return f"{end}: {status.error or _rows(status)}"


def summary(jobs: Jobs) -> str:
    """Return the jobs that run in one line, or nothing."""
    found = running(jobs)
    if not found:
        return ""
    (name, status), *more = found.items()
    if more:
        return f"{len(found)} jobs: {_rows(_merged(found, found))}"
    epochs = [each.epoch for each in status.queries if each.epoch is not None]
    lags = [each.watermark_lag for each in status.sources if each.watermark_lag is not None]
    pending = [each.pending_records for each in status.sources if each.pending_records is not None]
    parts = [
        f"{name}: {_rows(status)}",
        *[f"epoch {max(epochs)}" for _ in epochs[:1]],
        *[f"{count(sum(pending))} rows behind" for _ in pending[:1]],
        *[f"lag {span(max(lags))}" for _ in lags[:1]],
    ]
    return ", ".join(parts)


def _rows(status: PipelineStatus) -> str:
    read = sum(each.rows for each in status.sources)
    written = sum(each.rows for each in status.sinks)
    return f"{count(read)} rows read, {count(written)} rows written"


def _merged(jobs: Jobs, names: Iterable[str]) -> PipelineStatus:
    """Return the status of several jobs as that of one."""
    found = [jobs[name] for name in sorted(names) if name in jobs]
    states = [each.state for each in found]
    state = PipelineState.RUNNING if PipelineState.RUNNING in states else states[0]
    return PipelineStatus(
        name=", ".join(each.name for each in found),
        state=state,
        queries=tuple(query for each in found for query in each.queries),
        lookups=tuple(lookup for each in found for lookup in each.lookups),
        error=next((each.error for each in found if each.error is not None), None),
    )
