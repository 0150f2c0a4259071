# SPDX-License-Identifier: Apache-2.0
"""The jobs with the same outputs: their drivers, and the names in their histories."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from examples.flights.data import Places

__all__ = ["JOBS", "Job", "JobName"]


class JobName(StrEnum):
    """The names of the jobs."""

    FLIGHTS = "flights"
    FLIGHTS_SQL = "flights_sql"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job.

    Attributes:
        driver: The module of its driver.
        folder: The folder of its pipeline below the checkpoint location.
        flights: The uids of the sources that read flights.
        archive: The uid of the sink of the archive.
        totals_are_indexed: Whether the totals are in an index, and not in a database.
    """

    driver: str
    folder: str = ""
    flights: tuple[str, ...]
    archive: str
    totals_are_indexed: bool = False

    def checkpoint(self, places: Places) -> Path:
        """Return the location of its state."""
        return places.checkpoint / self.folder


JOBS: Final = {
    JobName.FLIGHTS: Job(
        driver="examples.flights.pipeline", flights=("flights",), archive="archive"
    ),
    JobName.FLIGHTS_SQL: Job(
        driver="examples.flights_sql.driver",
        folder="flights",
        flights=("default.flight_files", "default.flight_messages"),
        archive="into.default.archive",
        totals_are_indexed=True,
    ),
}
