# SPDX-License-Identifier: Apache-2.0
"""The report of a run: one JSON document, and one self-contained page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from examples.flights.charts import Point, bar_chart, line_chart
from examples.flights.history import DAY, END_OF_TIME, History
from examples.flights.verify import OUTPUTS

# The units of the numbers in the table, by the suffix of their names.
_UNITS = {
    "seconds": "s",
    "load time": "ms",
    "cached bytes": "bytes",
    **dict.fromkeys(("rows_in", "rows_out", "matched"), "rows"),
    **dict.fromkeys(("with_airline", "with_plane", "with_airport"), "rows"),
    **dict.fromkeys(("missing", "duplicates", "unexpected"), "rows"),
}
# The query and the mean delay of each group.
Delays = Mapping[str, tuple[str, list[tuple[str, float]]]]

_STYLE = """
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 760px; margin: 2em auto; color: #222;
         padding: 0 1em }
  svg { width: 100%; font-size: 12px } .grid { stroke: #ddd } text { fill: #444 }
  .event { stroke: #b00020; stroke-dasharray: 4 3 } .title { font-weight: 600 }
  .box { fill: #f6f8fa; stroke: #bbb }
  table { border-collapse: collapse } td, th { padding: .2em .8em .2em 0; text-align: left }
  pre { white-space: pre-wrap }
  td { font-variant-numeric: tabular-nums } .good { color: #2c8a57 } .bad { color: #b00020 }
"""


def summary(
    verified: Mapping[str, Any],
    history: History,
    *,
    flights: Iterable[str],
    versions: Mapping[str, str],
    crashes: int,
    seconds: float,
) -> dict[str, Any]:
    """Return the contents of `report.json`.

    Args:
        verified: The result of the comparison.
        history: The history of the pipeline.
        flights: The uids of the sources that read flights.
        versions: The versions of Spark and the servers.
        crashes: The number of killed processes.
        seconds: The time of the whole run.
    """
    archive = verified["archive"]
    sinks = {name: verified[name] for name in OUTPUTS}
    wrong = {
        what: sum(sink[what] for sink in sinks.values())
        for what in ("missing", "duplicates", "unexpected")
    }
    return {
        "ok": not any(wrong.values()) and history.rows_read(flights) == archive["expected"],
        **{f"{name}_version": version for name, version in versions.items()},
        "rows_in": archive["expected"],
        "rows_out": archive["found"],
        "matched": verified["matched"],
        "unmatched": archive["found"] - verified["matched"],
        "with_airline": verified["with airline"],
        "with_plane": verified["with plane"],
        "with_airport": verified["with airport"],
        **wrong,
        "outputs": sinks,
        "crashes_survived": crashes,
        "epochs": history.epochs,
        "seconds": round(seconds, 1),
        "sources": dict(history.read),
        "sinks": dict(history.written),
        "lookups": {uid: dict(counters) for uid, counters in history.lookups.items()},
    }


def write(
    folder: Path,
    found: Mapping[str, Any],
    verified: Mapping[str, Any],
    history: History,
    crashes: Mapping[str, float],
    delays: Delays,
    lineage: str,
) -> None:
    """Write `report.json` and `report.html`."""
    (folder / "report.json").write_text(json.dumps(found, indent=2) + "\n")
    start = min((moment for moment, _, _ in (*history.marks, *history.rows)), default=0.0)
    events = {f"{who} killed": [moment - start] for who, moment in crashes.items()}
    ends = [(t, uid, mark) for t, uid, mark in history.marks if mark < END_OF_TIME]
    sections = {
        "Which input reaches which output": lineage,
        "Rows read and written": line_chart(
            _lines(history.rows, start), label=lambda rows: f"{rows:,.0f} rows", events=events
        ),
        "Watermarks of the sources": line_chart(_lines(ends, start), label=_date, events=events),
        "Drift between the sources": line_chart(
            _lines(history.drift(), start),
            label=lambda drift: f"{drift / DAY:.1f} days",
            events=events,
        ),
        "Records of each partition not read yet": line_chart(
            _lines(history.lags, start), label=lambda lag: f"{lag:,.0f} rows", events=events
        ),
        "Mean departure delay by month": bar_chart(verified["by month"], label=_minutes),
        "Cancelled flights by airline, as the totals say": bar_chart(
            verified["cancelled"], label=lambda flights: f"{flights:,.0f}"
        ),
        **{
            f"Mean departure delay by {group}, as the index says": _queried(query, means)
            for group, (query, means) in delays.items()
        },
    }
    rows = {name: value for name, value in found.items() if not isinstance(value, dict)}
    rows |= {f"rows of {name}": count for name, count in found["sources"].items()}
    rows |= {f"rows to {name}": count for name, count in found["sinks"].items()}
    rows |= {
        f"{uid}: {_spaced(name)}": count
        for uid, counters in found["lookups"].items()
        for name, count in counters.items()
    }
    verdict = "every row came out once" if found["ok"] else "rows are missing or doubled"
    page = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Flights</title>",
        f"<style>{_STYLE}</style><h1>Flights with weather, airline, aircraft and airport</h1>",
        f"<p class={'good' if found['ok'] else 'bad'}>On Spark {found['spark_version']}"
        f" {verdict}; killed on the way: {', '.join(crashes) or 'nothing'}.</p><table>",
        *(f"<tr><th>{_words(name)}<td>{_shown(name, value)}" for name, value in rows.items()),
        "</table>",
        *(f"<h2>{escape(title)}</h2>{chart}" for title, chart in sections.items()),
    ]
    (folder / "report.html").write_text("\n".join(page) + "\n")


def _lines(events: Iterable[tuple[float, str, int]], start: float) -> dict[str, list[Point]]:
    lines: dict[str, list[Point]] = {}
    for moment, name, value in events:
        lines.setdefault(name, []).append((moment - start, float(value)))
    return lines


def _queried(query: str, bars: list[tuple[str, float]]) -> str:
    chart = bar_chart(bars, label=_minutes)
    return f"{chart}<details><summary>The query</summary><pre>{escape(query)}</pre></details>"


def _spaced(name: str) -> str:
    """Split the name of a metric, such as `hitCount`, into words."""
    return re.sub("([A-Z])", lambda found: f" {found[1].lower()}", name)


def _date(micros: float) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%d %b")


def _minutes(value: float) -> str:
    return f"{value:.1f} min"


def _words(name: str) -> str:
    return escape(name.replace("_", " "))


def _shown(name: str, value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) and value is not True else str(value)
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
    return escape(f"{text} {unit}".rstrip())
