# SPDX-License-Identifier: Apache-2.0
"""``python -m examples.flights``: send, run, kill, restart, verify, and report."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from connector_elasticsearch.testing import ElasticsearchServer
from connector_kafka.testing import KafkaBroker
from examples.flights import lineage, report, search
from examples.flights.data import Places, prepare
from examples.flights.feed import Feed
from examples.flights.harness import fetch_outputs, prepare_servers, start_driver
from examples.flights.history import DAY, END_OF_TIME, History
from examples.flights.jobs import JOBS, Job, JobName
from examples.flights.verify import verify

# The fractions of the flights after which each process is killed, while the rest is being sent.
_KILL_DRIVER_AT, _KILL_BROKER_AT, _KILL_SEARCH_AT = 0.6, 0.7, 0.8


def main(
    days: Annotated[int, typer.Option(min=2, max=365, help="Days of 2013.")] = 365,
    crash: Annotated[bool, typer.Option(help="Kill the driver and both servers once.")] = True,
    output: Annotated[Path, typer.Option(help="Folder, recreated.")] = Path("build/demo"),
    feed_seconds: Annotated[float, typer.Option(help="Time in which flights are sent.")] = 60.0,
    job: Annotated[JobName, typer.Option(help="The job, in Python or in SQL.")] = JobName.FLIGHTS,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the result.")] = False,
) -> None:
    """All flights of New York in 2013, enriched in four ways, exactly once, on one Spark."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and end the driver too
    began = time.monotonic()
    say: Callable[[str], None] = (lambda _: None) if quiet else typer.echo
    places, chosen = Places(output.resolve()), JOBS[job]
    say(f"Spark {version('pyspark')}, output in {output}")
    flights = prepare(places, days)
    history = History(chosen.checkpoint(places), places.notes)
    with KafkaBroker(folder=places.broker) as broker, ElasticsearchServer() as server:
        prepare_servers(places, broker, server)
        say(
            f"{flights:,} flights: {len(list(places.flights.iterdir()))} days are files, the rest"
            f" is sent to Kafka {broker.version}; Elasticsearch {server.version} has the aircraft"
        )
        feed = Feed(places, broker.bootstrap_servers, feed_seconds)
        feed.send_overlap()
        feed.start()
        play = _Play(chosen, places, broker, server, history, feed, say, flights if crash else 0)
        while not play.drive():
            pass
        say("comparing the output with the raw tables")
        fetch_outputs(places, broker, server, chosen)
        delays = search.mean_delays(server)
    verified = verify(places, days)
    found = report.summary(
        verified,
        history,
        flights=chosen.flights,
        versions={
            "spark": version("pyspark"),
            "kafka": broker.version,
            "elasticsearch": server.version,
        },
        crashes=len(play.crashes),
        seconds=time.monotonic() - began,
    )
    drawn = lineage.drawing(places.lineage, places.root)
    report.write(places.root, found, verified, history, play.crashes, delays, drawn)
    typer.echo(
        f"{found['rows_out']:,} of {found['rows_in']:,} flights came out, {found['matched']:,} with"
        f" weather, {found['with_airline']:,} with their airline, {found['with_plane']:,} with"
        f" their aircraft; {found['missing']} are missing, {found['duplicates']} doubled;"
        f" {found['crashes_survived']} crashes survived in {found['seconds']:.0f} s;"
        f" see {output / 'report.html'}"
    )
    raise typer.Exit(0 if found["ok"] else 1)


@dataclass
class _Play:
    """Runs one driver after another, and kills them and the servers.

    Attributes:
        flights: The number of flights, or 0 to kill nothing.
        crashes: The killed processes, with the times.
    """

    job: Job
    places: Places
    broker: KafkaBroker
    server: ElasticsearchServer
    history: History
    feed: Feed
    say: Callable[[str], None]
    flights: int
    crashes: dict[str, float] = field(default_factory=dict)
    drivers: int = 0
    told: float = 0.0

    def drive(self) -> bool:
        """Run a driver, and return False if it was killed."""
        self.drivers += 1
        log = self.places.root / f"driver-{self.drivers}.log"
        driver = start_driver(self.places, self.broker, self.server, log, self.job)
        try:
            while driver.poll() is None:
                self._watch()
                if self._due("driver", _KILL_DRIVER_AT):
                    os.killpg(driver.pid, signal.SIGKILL)  # and the JVM
                    driver.wait()
                    self.say("the driver is killed, and started again")
                    return False
                if self._due("broker", _KILL_BROKER_AT):
                    self.broker.kill()
                    self.say("the broker is killed, and started again")
                    self.broker.start()
                if self._due("Elasticsearch", _KILL_SEARCH_AT):
                    self.server.kill()
                    self.say("Elasticsearch is killed, and started again")
                    self.server.start()
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
        self.history.refresh()
        if driver.returncode:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
            typer.echo(f"{tail}\nthe driver failed, see {log}")
            raise typer.Exit(2)
        return True

    def _watch(self) -> None:
        time.sleep(0.2)
        self.history.refresh()
        if time.monotonic() - self.told >= 5:
            self.told = time.monotonic()
            self.say(_progress(self.job, self.feed, self.history))

    def _due(self, who: str, share: float) -> bool:
        """Whether it is time to kill one of them. Each is killed once."""
        read = self.history.rows_read(self.job.flights)
        due = read > share * self.flights > 0 and who not in self.crashes
        if due:
            self.crashes[who] = time.time()
        return due


def _progress(job: Job, feed: Feed, history: History) -> str:
    marks = ", ".join(
        f"{uid} up to "
        + ("the end" if mark >= END_OF_TIME else f"{datetime.fromtimestamp(mark / 1e6, UTC):%d %b}")
        for uid, mark in history.watermarks.items()
    )
    lag = ", ".join(f"{partition} {lag:,}" for partition, lag in sorted(history.lag.items()))
    return (
        f"{feed.sent:,} flights are sent, {history.rows_read(job.flights):,} read and"
        f" {history.written[job.archive]:,} written in {history.epochs} epochs"
        + (f"; {marks}" if marks else "")
        + (f"; drift {history.newest_drift / DAY:.1f} days" if history.newest_drift else "")
        + (f"; lag {lag}" if lag else "")
    )


if __name__ == "__main__":
    typer.run(main)
