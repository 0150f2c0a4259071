# SPDX-License-Identifier: Apache-2.0
"""Totals by airline and day in SQLite: a function that the pipeline calls for every epoch."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from connectors_core.lineage import LineageDataset, LineageVertexProvider, jdbc_datasets

_TABLES = """
    CREATE TABLE epochs (epoch INTEGER PRIMARY KEY);
    CREATE TABLE totals (
        airline TEXT, month INT, day INT, flights INT, cancelled INT, delay_minutes INT,
        PRIMARY KEY (airline, month, day)
    );
"""
_ADD = """
    INSERT INTO totals VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET
        flights = flights + excluded.flights,
        cancelled = cancelled + excluded.cancelled,
        delay_minutes = delay_minutes + excluded.delay_minutes
"""


def create_database(database: Path) -> None:
    """Create the empty tables."""
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(_TABLES)


@dataclass(frozen=True)
class AddToTotals(LineageVertexProvider):
    """A function for `for_each_batch`, which names its dataset for lineage.

    Attributes:
        database: The database.
    """

    database: Path

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """The table of totals."""
        return jdbc_datasets(f"jdbc:sqlite:{self.database}", "totals")

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        """Add the flights of an epoch to the totals once, even if called again after a crash."""
        by_day = rows.groupBy("airline", "month", "day").agg(
            F.count("*"),
            F.count("*") - F.count("dep_time"),
            F.coalesce(F.sum("dep_delay"), F.lit(0)),
        )
        added = by_day.collect()
        with closing(sqlite3.connect(self.database)) as connection, connection:  # one transaction
            if connection.execute("INSERT OR IGNORE INTO epochs VALUES (?)", [epoch]).rowcount:
                connection.executemany(_ADD, added)


def export_totals(database: Path, file: Path) -> None:
    """Copy the totals to a file, one per line."""
    with closing(sqlite3.connect(database)) as connection, file.open("w") as lines:
        connection.row_factory = sqlite3.Row
        totals = connection.execute("SELECT * FROM totals")
        lines.writelines(f"{json.dumps(dict(row))}\n" for row in totals)
