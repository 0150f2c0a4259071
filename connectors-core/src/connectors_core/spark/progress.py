# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of a pipeline: a table on a terminal and in a notebook, lines in a log."""

from __future__ import annotations

import atexit
import io
import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from connectors_core._display import NOTHING, count, moment, size, span
from connectors_core.engine.query.status import (
    LookupStatus,
    PipelineState,
    PipelineStatus,
    QueryStatus,
    SinkStatus,
    SourceStatus,
)
from connectors_core.metrics import LookupMetric
from connectors_core.sink.sink import DeliveryGuarantee

__all__ = ["ProgressDisplay", "ShowProgress", "progress_lines", "progress_view"]

ShowProgress = bool | Literal["auto"]
"""True shows progress always, "auto" only on a terminal and in a notebook."""

REFRESH_SECONDS: Final = 0.5
LINE_SECONDS: Final = 30.0
_LOGGER: Final = logging.getLogger(__name__)
_STYLES: Final = {
    PipelineState.RUNNING: "cyan",
    PipelineState.FINISHED: "green",
    PipelineState.STOPPED: "yellow",
    PipelineState.FAILED: "bold red",
}


class ProgressDisplay:
    """Refreshes itself on a daemon thread until it is stopped or the pipeline ends.

    Args:
        status: Returns the pipeline's status.
        console: The console; standard output by default.
    """

    def __init__(
        self, status: Callable[[], PipelineStatus], console: Console | None = None
    ) -> None:
        self._status = status
        self._console = console or Console()
        self._live: Live | _NotebookOutput | None = None
        self._stopped = threading.Event()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="connectors-progress", daemon=True)

    @classmethod
    def started(
        cls,
        status: Callable[[], PipelineStatus],
        show: ShowProgress,
        console: Console | None = None,
    ) -> ProgressDisplay | None:
        """Start a display, or return None if the setting or the console does not allow it."""
        console = console or Console()
        seen = console.is_terminal or console.is_jupyter
        if not show or (show == "auto" and not seen):
            return None
        display = cls(status, console)
        display.start()
        return display

    def start(self) -> None:
        """Start the display."""
        if self._console.is_jupyter:
            self._live = _NotebookOutput(self._console.width)
        elif self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
            atexit.register(self.stop)  # otherwise the terminal's cursor stays hidden
        self._thread.start()

    def stop(self) -> None:
        """Show the final status and release the terminal. Idempotent."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._close()

    def _run(self) -> None:
        wait = REFRESH_SECONDS if self._live is not None else LINE_SECONDS
        while not self._stopped.wait(wait):
            if self._show() is not PipelineState.RUNNING:
                self._close()
                return

    def _close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            atexit.unregister(self.stop)
            try:
                self._show()
            finally:
                if self._live is not None:
                    self._live.stop()

    def _show(self) -> PipelineState:
        """Show the current status; an error of the display never fails the pipeline."""
        try:
            status = self._status()
            if self._live is not None:
                self._live.update(progress_view(status), refresh=True)
            else:
                for line in progress_lines(status):
                    self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        except Exception:
            _LOGGER.debug("the progress could not be shown", exc_info=True)
            return PipelineState.RUNNING
        return status.state


class _NotebookOutput:
    """One output of a notebook cell; every update replaces it."""

    def __init__(self, width: int) -> None:
        from IPython.display import display

        self._display = display
        self._width = width
        self._id = f"connectors-{uuid.uuid4()}"
        self._shown = False

    def update(self, view: RenderableType, *, refresh: bool) -> None:
        """Replace the output."""
        console = Console(file=io.StringIO(), width=self._width, force_jupyter=False)
        with console.capture() as captured:
            console.print(view)
        content = {"text/plain": captured.get()}
        self._display(content, raw=True, display_id=self._id, update=self._shown)
        self._shown = True

    def stop(self) -> None:
        """Keep the last output."""


def progress_view(status: PipelineStatus) -> RenderableType:
    """Return the tables for a terminal."""
    parts: list[RenderableType] = [
        Text.assemble(
            ("pipeline ", "dim"),
            (status.name, "bold"),
            "  ",
            (status.state.value, _STYLES.get(status.state, "dim")),
            *[f"   {_where(query)}" for query in status.queries],
        )
    ]
    if status.sources:
        parts.append(
            _table(
                ("source", "splits", "rows", "rows/s", "bytes", "watermark", "lag", "notes"),
                [_source_cells(source) for source in status.sources],
            )
        )
    if status.lookups:
        parts.append(
            _table(
                ("lookup", "keys", "hits", "loads", "cached", "bytes", "notes"),
                [_lookup_cells(lookup) for lookup in status.lookups],
            )
        )
    if status.sinks:
        parts.append(
            _table(
                ("sink", "rows", "rows/s", "bytes", "commits", "committables", "notes"),
                [_sink_cells(sink) for sink in status.sinks],
            )
        )
    if status.error is not None:
        parts.append(Text(_first_line(status.error), style="red"))
    return Group(*parts)


def progress_lines(status: PipelineStatus) -> Iterator[str]:
    """Yield lines for a log: one for each source, lookup, and sink."""
    where = "".join(f", {_where(query)}" for query in status.queries)
    yield f"pipeline {status.name}: {status.state.value}{where}"
    for source in status.sources:
        _, splits, rows, rate, read, watermark, lag, notes = _source_cells(source)
        yield _joined(
            f"source {source.uid}: {rows} rows, {rate} rows/s, {read}, splits {splits}",
            "" if watermark == NOTHING else f"watermark {watermark}",
            "" if lag == NOTHING else f"lag {lag}",
            notes,
        )
    for lookup in status.lookups:
        _, keys, hits, loads, cached, held, notes = _lookup_cells(lookup)
        yield _joined(
            f"lookup {lookup.uid}: {keys} keys, {loads} loads",
            "" if hits == NOTHING else f"hits {hits}",
            "" if cached == NOTHING else f"{cached} rows cached, {held}",
            notes,
        )
    for sink in status.sinks:
        _, rows, rate, written, commits, committables, notes = _sink_cells(sink)
        yield _joined(
            f"sink {sink.uid}: {rows} rows, {rate} rows/s, {written}, {commits} commits",
            "" if committables == NOTHING else f"committables {committables}",
            notes,
        )
    if status.error is not None:
        yield _first_line(status.error)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        text = column in ("source", "lookup", "sink", "notes")
        table.add_column(column, justify="left" if text else "right", no_wrap=not text)
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    return table


def _where(query: QueryStatus) -> str:
    known = {"plan": query.plan, "epoch": query.epoch, "batch": query.batch}
    return " ".join([query.name, *[f"{k} {v}" for k, v in known.items() if v is not None]])


def _source_cells(source: SourceStatus) -> tuple[str, ...]:
    total = source.splits_assigned + source.splits_finished + (source.splits_unassigned or 0)
    notes = {
        "idle": source.idle_splits,
        "skipped": source.skipped,
        "dead letters": source.dead_letters,
    }
    return (
        source.uid,
        f"{count(source.splits_finished)}/{count(total)}",
        count(source.rows),
        count(source.rows_per_second),
        size(source.bytes),
        moment(source.watermark),
        _lag(source),
        _notes(notes, [*_weaker(source), *(["finished"] if source.finished else [])]),
    )


def _lag(source: SourceStatus) -> str:
    if source.pending_records is not None:
        return f"{count(source.pending_records)} rows"
    if source.pending_bytes is not None:
        return size(source.pending_bytes)
    return span(source.watermark_lag)


def _lookup_cells(lookup: LookupStatus) -> tuple[str, ...]:
    counters, gauges = lookup.counters, lookup.gauges
    hits = counters.get(LookupMetric.HIT_COUNT, 0)
    asked = hits + counters.get(LookupMetric.MISS_COUNT, 0)
    is_cached = LookupMetric.NUM_CACHED_RECORD in gauges
    version = [] if lookup.version is None else [f"version {lookup.version}"]
    failed = [] if lookup.error is None else [f"not reloaded: {_first_line(lookup.error)}"]
    return (
        lookup.uid,
        count(counters.get(LookupMetric.NUM_LOOKUP_KEYS, 0)),
        f"{100 * hits / asked:.0f} %" if asked else NOTHING,
        count(counters.get(LookupMetric.LOAD_COUNT, 0)),
        count(int(gauges[LookupMetric.NUM_CACHED_RECORD])) if is_cached else NOTHING,
        size(int(gauges[LookupMetric.NUM_CACHED_BYTES])) if is_cached else NOTHING,
        _notes({"failures": counters.get(LookupMetric.NUM_LOAD_FAILURE, 0)}, [*version, *failed]),
    )


def _sink_cells(sink: SinkStatus) -> tuple[str, ...]:
    notes = {
        "pending": sink.pending,
        "retries": sink.retries,
        "failed": sink.failed,
        "skipped": sink.skipped,
        "dead letters": sink.dead_letters,
    }
    committables = f"{count(sink.committed)}/{count(sink.committables)}"
    return (
        sink.uid,
        count(sink.rows),
        count(sink.rows_per_second),
        size(sink.bytes),
        count(sink.commits),
        committables if sink.committables else NOTHING,
        _notes(notes, _weaker(sink)),
    )


def _weaker(status: SourceStatus | SinkStatus) -> list[str]:
    """Return the guarantee if it is not exactly-once."""
    return [] if status.guarantee is DeliveryGuarantee.EXACTLY_ONCE else [status.guarantee.value]


def _notes(numbers: dict[str, int], words: Sequence[str] = ()) -> str:
    return ", ".join([*words, *[f"{count(n)} {name}" for name, n in numbers.items() if n]])


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
