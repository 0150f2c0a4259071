# SPDX-License-Identifier: Apache-2.0
import io
import sys
import threading
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console

from connectors_core import _display
from connectors_core.engine.query.status import (
    LookupCaching,
    LookupStatus,
    PipelineState,
    PipelineStatus,
    QueryStatus,
    SinkStatus,
    SourceStatus,
)
from connectors_core.source.watermarks import END_OF_TIME
from connectors_core.spark import progress
from connectors_core.spark.progress import ProgressDisplay, progress_lines, progress_view

SECONDS = 20


def status(state=PipelineState.RUNNING, error=None, **fields):
    known = {
        "uid": "flights",
        "splits_assigned": 3,
        "splits_finished": 4,
        "splits_unassigned": 5,
        "rows": 1_234_567,
        "rows_per_second": 4321.4,
        "bytes": 5 << 20,
        "watermark": 1_357_016_400_000_000,
        "watermark_lag": 3.25,
        "skipped": 2,
    }
    source = SourceStatus(**(known | fields))
    sink = SinkStatus(
        uid="archive", rows=77, bytes=1000, committables=6, committed=5, commits=2, pending=1
    )
    query = QueryStatus(
        name="query-0", state=state, plan=8, epoch=7, batch=9, sources=(source,), sinks=(sink,)
    )
    return PipelineStatus(name="p", state=state, queries=(query,), error=error)


def rendered(view, width=120):
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(view)
    return console.export_text()


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)


def pipe():
    return Console(file=io.StringIO(), force_terminal=False, width=40)


def shown(console):
    return console.file.getvalue()


def looked_up():
    hits = {"numLookupKeys": 4200, "hitCount": 3000, "missCount": 1000, "loadCount": 12}
    planes = LookupStatus(
        uid="planes",
        caching=LookupCaching.PARTIAL,
        counters=hits | {"numLoadFailure": 2},
        gauges={"numCachedRecord": 999.0, "numCachedBytes": 2048.0},
    )
    airports = LookupStatus(
        uid="airports", caching=LookupCaching.FULL, version=3, error="[RETRYABLE] away\n  hint: x"
    )
    return replace(status(), lookups=(planes, airports))


def test_the_table_shows_lookups():
    text = rendered(progress_view(looked_up()), width=160)
    for part in ("4,200", "75 %", "12", "999", "2.0 KiB", "2 failures", "version 3"):
        assert part in text
    assert "not reloaded: [RETRYABLE] away" in text
    assert "hint" not in text


def test_lines_show_lookups():
    lines = list(progress_lines(looked_up()))
    assert (
        "lookup planes: 4,200 keys, 12 loads, hits 75 %, 999 rows cached, 2.0 KiB, 2 failures"
        in lines
    )
    assert "lookup airports: 0 keys, 0 loads, version 3, not reloaded: [RETRYABLE] away" in lines


def test_the_table_shows_sources_and_sinks():
    text = rendered(progress_view(status()))
    for part in (
        "p  running",
        "plan 8 epoch 7 batch 9",
        "4/12",
        "1,234,567",
        "4,321",
        "5.0 MiB",
        "2013-01-01 05:00:00Z",
        "3.2 s",
        "2 skipped",
        "archive",
        "5/6",
        "1 pending",
    ):
        assert part in text


def test_pending_records_are_preferred_to_the_watermark_as_the_lag():
    assert "42 rows" in rendered(progress_view(status(pending_records=42)))


def test_an_error_is_shown_by_its_first_line_and_its_markup_is_escaped():
    failed = status(PipelineState.FAILED, "[FATAL] [red]disk full[/red]\n  hint: more")
    text = rendered(progress_view(failed))
    assert "[FATAL] [red]disk full[/red]" in text
    assert "hint" not in text


def test_each_part_has_a_line():
    lines = list(progress_lines(status(watermark=END_OF_TIME, watermark_lag=None, finished=True)))
    assert lines[0] == "pipeline p: running, query-0 plan 8 epoch 7 batch 9"
    assert lines[1].startswith("source flights: 1,234,567 rows, 4,321 rows/s, 5.0 MiB, splits 4/12")
    assert "watermark end, finished" in lines[1]
    assert lines[2].startswith("sink archive: 77 rows")


def test_nothing_is_shown_by_default():
    assert ProgressDisplay.started(status, False, terminal()) is None
    assert ProgressDisplay.started(status, "auto", pipe()) is None


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(progress, "REFRESH_SECONDS", 0.01)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)


class Pipeline:
    """Returns a status and signals when it was requested often enough."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = threading.Event()

    def status(self):
        answer = self.answers[0]
        if len(self.answers) > 1:
            self.answers.pop(0)
        else:
            self.asked.set()
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_display_ends_with_its_pipeline(quick):
    console = terminal()
    pipeline = Pipeline(status(), status(rows=2_000_000), status(PipelineState.FINISHED))
    display = ProgressDisplay.started(pipeline.status, "auto", console)
    display._thread.join(SECONDS)
    assert not display._thread.is_alive()
    assert "2,000,000" in shown(console)
    assert "finished" in shown(console)
    display.stop()


def test_the_terminal_is_restored_after_an_error(quick):
    console = terminal()
    pipeline = Pipeline(status(), status(PipelineState.FAILED, "disk full"))
    display = ProgressDisplay.started(pipeline.status, True, console)
    pipeline.asked.wait(SECONDS)
    display.stop()
    text = shown(console)
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # the cursor is visible
    assert text.rstrip("\x1b[?25h\n").endswith("disk full")


def test_lines_are_printed_without_a_terminal(quick):
    console = pipe()
    pipeline = Pipeline(status(), status(PipelineState.STOPPED))
    display = ProgressDisplay.started(pipeline.status, True, console)
    display._thread.join(SECONDS)
    display.stop()
    text = shown(console)
    assert "\x1b" not in text
    assert "pipeline p: stopped" in text
    assert all(len(line) < 200 for line in text.splitlines())


def test_a_notebook_gets_one_output_that_is_replaced(quick, monkeypatch):
    outputs = []  # what a kernel would send: the text, and whether it replaces the last one

    def display(content, *, raw, display_id, update):
        assert raw
        outputs.append((display_id, update, content["text/plain"]))

    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    notebook = Console(file=io.StringIO(), width=100, force_jupyter=True)
    pipeline = Pipeline(status(), status(PipelineState.FINISHED))
    display_of = ProgressDisplay.started(pipeline.status, "auto", notebook)
    display_of._thread.join(SECONDS)
    display_of.stop()
    names, updates, texts = zip(*outputs, strict=True)
    assert len(set(names)) == 1
    assert not updates[0]
    assert all(updates[1:])
    assert "finished" in texts[-1]
    assert "\x1b" not in texts[-1]


def test_an_error_in_the_display_does_not_affect_the_pipeline(quick):
    pipeline = Pipeline(status(), ValueError("broken"))
    display = ProgressDisplay.started(pipeline.status, True, terminal())
    pipeline.asked.wait(SECONDS)
    assert display._thread.is_alive()
    display.stop()
    display.stop()
    assert not display._thread.is_alive()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_display.size(None), "-"),
        (_display.size(12), "12 B"),
        (_display.size(3 << 40), "3.0 TiB"),
        (_display.span(0.25), "250 ms"),
        (_display.span(-30), "-30.0 s"),
        (_display.span(90 * 60), "90.0 min"),
        (_display.span(20 * 86_400), "20 d"),
        (_display.moment(None), "-"),
        (_display.moment(1_357_016_400_250_000), "2013-01-01 05:00:00.250Z"),
        (_display.moment(END_OF_TIME), "end"),
        (_display.moment(2**63 - 1), "end"),
        (_display.moment(-(2**63)), "start"),
    ],
)
def test_numbers_and_times_are_formatted(text, expected):
    assert text == expected
