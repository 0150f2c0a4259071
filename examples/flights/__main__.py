# SPDX-License-Identifier: Apache-2.0
"""``python -m examples.flights``: feed, run, kill, run again, verify, report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from examples.flights import report
from examples.flights.data import Places, prepare
from examples.flights.feed import Feed
from examples.flights.history import END_OF_TIME, History
from examples.flights.verify import verify

_HOUSE = Path(__file__).parents[2]
_KILL_AT = 0.4


def main(
    days: Annotated[int, typer.Option(min=1, max=365, help="Days of 2013.")] = 365,
    crash: Annotated[bool, typer.Option(help="Kill the driver on its way.")] = True,
    output: Annotated[Path, typer.Option(help="Folder, made anew.")] = Path("build/demo"),
    feed_seconds: Annotated[float, typer.Option(help="Time in which the files arrive.")] = 45.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say the result only.")] = False,
) -> None:
    """All flights of New York in 2013 with their weather, exactly once, on one Spark."""
    began = time.monotonic()
    say: Callable[[str], None] = (lambda _: None) if quiet else _say
    places = Places(output.resolve())
    say(f"Spark {version('pyspark')}, output in {output}")
    flights = prepare(places, days)
    say(f"{flights:,} flights are cut into {len(list(places.cut.iterdir()))} files")

    history = History(places.checkpoint)
    feed = Feed(places, feed_seconds)
    feed.start()
    killed: list[float] = []
    while _drive(places, len(killed) + 1, history, feed, say, flights if crash else 0) is False:
        killed.append(time.time())
        say(f"the driver is killed after {history.written['archive']:,} flights, and started again")
        crash = False

    say("comparing what came out with the raw tables")
    verified = verify(places, days)
    found = report.summary(
        verified,
        history,
        spark_version=version("pyspark"),
        crashes=len(killed),
        seconds=time.monotonic() - began,
    )
    report.write(places.root, found, verified, history, killed)
    _say(
        f"{found['rows_out']:,} of {found['rows_in']:,} flights came out, {found['matched']:,} with"
        f" weather, {found['unmatched']:,} without; {found['missing']} are missing,"
        f" {found['duplicates']} doubled; {found['crashes_survived']} crashes survived in"
        f" {found['seconds']:.0f} s; see {output / 'report.html'}"
    )
    raise typer.Exit(0 if found["ok"] else 1)


def _drive(
    places: Places,
    number: int,
    history: History,
    feed: Feed,
    say: Callable[[str], None],
    flights_to_kill: int,
) -> bool:
    """Run a driver; False when it was killed on its way."""
    log = places.root / f"driver-{number}.log"
    command = [sys.executable, "-m", "examples.flights.pipeline", str(places.root)]
    with log.open("wb") as out:
        driver = subprocess.Popen(
            command,
            cwd=_HOUSE,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    told = time.monotonic()
    try:
        while driver.poll() is None:
            time.sleep(0.2)
            history.refresh()
            if flights_to_kill and history.written["archive"] > _KILL_AT * flights_to_kill:
                os.killpg(driver.pid, signal.SIGKILL)  # the JVM too
                driver.wait()
                history.refresh()
                return False
            if time.monotonic() - told >= 5:
                told = time.monotonic()
                say(_progress(feed, history))
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGTERM)
    history.refresh()
    if driver.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        _say(f"{tail}\nthe driver failed, see {log}")
        raise typer.Exit(2)
    return True


def _progress(feed: Feed, history: History) -> str:
    marks = ", ".join(
        f"{uid} up to "
        + ("the end" if mark >= END_OF_TIME else f"{datetime.fromtimestamp(mark / 1e6, UTC):%d %b}")
        for uid, mark in history.watermarks.items()
    )
    return (
        f"{feed.arrived} files have arrived, {history.read['flights']:,} flights are read and"
        f" {history.written['archive']:,} written in {history.epochs} epochs; {marks}"
    )


def _say(line: str) -> None:
    typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
