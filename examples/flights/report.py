# SPDX-License-Identifier: Apache-2.0
"""The report of a run: one JSON document, and one page that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from examples.flights.charts import Point, bar_chart, line_chart
from examples.flights.history import DAY, END_OF_TIME, History

_STYLE = """
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 760px; margin: 2em auto; color: #222;
         padding: 0 1em }
  svg { width: 100%; font-size: 12px } .grid { stroke: #ddd } text { fill: #444 }
  .event { stroke: #b00020; stroke-dasharray: 4 3 }
  table { border-collapse: collapse } td, th { padding: .2em .8em .2em 0; text-align: left }
  td { font-variant-numeric: tabular-nums } .good { color: #2c8a57 } .bad { color: #b00020 }
"""


def summary(
    verified: Mapping[str, Any],
    history: History,
    *,
    spark_version: str,
    kafka_version: str,
    crashes: int,
    seconds: float,
) -> dict[str, Any]:
    """What `report.json` holds."""
    archive = verified["archive"]
    sinks = {name: verified[name] for name in ("archive", "enriched", "delays")}
    wrong = {
        what: sum(sink[what] for sink in sinks.values())
        for what in ("missing", "duplicates", "unexpected")
    }
    return {
        "ok": not any(wrong.values()) and history.read["flights"] == archive["expected"],
        "spark_version": spark_version,
        "kafka_version": kafka_version,
        "rows_in": archive["expected"],
        "rows_out": archive["found"],
        "matched": verified["matched"],
        "unmatched": archive["found"] - verified["matched"],
        **wrong,
        "outputs": sinks,
        "crashes_survived": crashes,
        "epochs": history.epochs,
        "seconds": round(seconds, 1),
        "sources": dict(history.read),
        "sinks": dict(history.written),
    }


def write(
    folder: Path,
    found: Mapping[str, Any],
    verified: Mapping[str, Any],
    history: History,
    crashes: Mapping[str, float],
) -> None:
    """Write `report.json` and `report.html`."""
    (folder / "report.json").write_text(json.dumps(found, indent=2) + "\n")
    start = min((moment for moment, _, _ in history.marks), default=0.0)
    events = {f"{who} killed": [moment - start] for who, moment in crashes.items()}
    ends = [(t, uid, mark) for t, uid, mark in history.marks if mark < END_OF_TIME]
    sections = {
        "Rows read and written": line_chart(
            _lines(history.rows, start), label=lambda rows: f"{rows:,.0f}", events=events
        ),
        "Watermarks of the sources": line_chart(_lines(ends, start), label=_date, events=events),
        "Drift between the sources": line_chart(
            _lines(history.drift(), start),
            label=lambda drift: f"{drift / DAY:.1f} days",
            events=events,
        ),
        "Records of each partition not read yet": line_chart(
            _lines(history.lags, start), label=lambda lag: f"{lag:,.0f}", events=events
        ),
        "Mean departure delay by month": bar_chart(verified["by month"], label=_minutes),
        "Mean departure delay by carrier": bar_chart(verified["by carrier"], label=_minutes),
    }
    rows = {name: value for name, value in found.items() if not isinstance(value, dict)}
    rows |= {f"rows of {name}": count for name, count in found["sources"].items()}
    rows |= {f"rows to {name}": count for name, count in found["sinks"].items()}
    verdict = "every row came out once" if found["ok"] else "rows are missing or doubled"
    page = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Flights</title>",
        f"<style>{_STYLE}</style><h1>Flights with their weather</h1>",
        f"<p class={'good' if found['ok'] else 'bad'}>On Spark {found['spark_version']}"
        f" {verdict}; killed on the way: {' and '.join(crashes) or 'nothing'}.</p><table>",
        *(f"<tr><th>{_words(name)}<td>{_shown(value)}" for name, value in rows.items()),
        "</table>",
        *(f"<h2>{escape(title)}</h2>{chart}" for title, chart in sections.items()),
    ]
    (folder / "report.html").write_text("\n".join(page) + "\n")


def _lines(events: Iterable[tuple[float, str, int]], start: float) -> dict[str, list[Point]]:
    lines: dict[str, list[Point]] = {}
    for moment, name, value in events:
        lines.setdefault(name, []).append((moment - start, float(value)))
    return lines


def _date(micros: float) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%d %b")


def _minutes(value: float) -> str:
    return f"{value:.1f} min"


def _words(name: str) -> str:
    return escape(name.replace("_", " "))


def _shown(value: object) -> str:
    return escape(f"{value:,}" if isinstance(value, int) and value is not True else str(value))
