# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.soak`: long pipeline runs with faults, without loss or growth.

The exit code is 1 if the output is not exact, an error has no fault as its cause, or a measure is
higher in the last fifth of a run than in its first.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pyspark
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.soak import disk, epochs, flights
from benchmarks.soak.measurements import Measurements
from benchmarks.soak.verdict import LIMITS, Verdict


class Part(StrEnum):
    """The parts that can run separately."""

    FLIGHTS = "flights"
    EPOCHS = "epochs"


def main(
    minutes: Annotated[float, typer.Option(help="How long flights are sent.")] = 30.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same faults.")] = 1,
    number: Annotated[
        int, typer.Option("--epochs", help="Epochs of the trivial pipeline.")
    ] = 2_000,
    only: Annotated[list[Part] | None, typer.Option(help="Parts to run; all by default.")] = None,
    output: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("build/soak"),
) -> None:
    """Run, disturb, measure, judge."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and end the drivers too
    parts = only or list(Part)
    output = output.resolve()
    good = True
    if Part.FLIGHTS in parts:
        full_disks = disk.enter(output / "disk")
        if not full_disks:
            typer.echo("full disks are left out: this user may not mount a tmpfs here")
        soak = flights.Soak(output, minutes * 60, seed, full_disks=full_disks, say=_clocked())
        found, told = soak.run()
        good &= _report(output, Part.FLIGHTS, found, soak.seconds, told)
    if Part.EPOCHS in parts:
        found = epochs.run(number, _clocked())
        good &= _report(output, Part.EPOCHS, found, number, {"epochs": number})
    raise typer.Exit(0 if good else 1)


def _clocked() -> Any:
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    return say


def _report(
    output: Path, part: Part, found: Measurements, length: float, told: dict[str, Any]
) -> bool:
    """Show the verdicts, store them with all measurements, and return whether all are good."""
    verdicts = found.verdicts(length)
    version = pyspark.__version__
    table = Table(title=f"{part.value}, Spark {version}")
    for column in ("measure", "first fifth", "last fifth", "at most", "", "what may differ"):
        numbers = column in ("first fifth", "last fifth", "at most")
        table.add_column(column, justify="right" if numbers else "left")
    for each in verdicts:
        flat = "flat" if each.flat else "GROWS" if each.first is not None else "not measured"
        cells = (_cell(value) for value in (each.first, each.last, each.allowed))
        table.add_row(each.measure, *cells, flat, LIMITS[each.measure].why)
    Console(width=150).print(table)
    for problem in found.problems:
        typer.echo(f"PROBLEM: {problem}")
    good = not found.problems and all(each.flat for each in verdicts)
    document = {
        "spark_version": version,
        "good": good,
        "problems": found.problems,
        "measures": [_document(each) for each in verdicts],
        **told,
        "points": found.points,
    }
    path = output / f"{part.value}-spark-{version}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))
    typer.echo(f"{part.value}: {'all is well' if good else 'FAILED'}, see {path}")
    return good


def _document(verdict: Verdict) -> dict[str, Any]:
    return {
        "measure": verdict.measure,
        "first_fifth": verdict.first,
        "last_fifth": verdict.last,
        "allowed": verdict.allowed,
        "flat": verdict.flat,
    }


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


if __name__ == "__main__":
    typer.run(main)
