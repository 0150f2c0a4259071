# SPDX-License-Identifier: Apache-2.0
"""Compares the output with the expected output, which DuckDB computes from the raw tables."""

from __future__ import annotations

from typing import Any

from examples.flights.data import (
    FLIGHTS,
    OF_AIRPORT,
    OF_PLANE,
    WEATHER,
    Places,
    keep_first_days,
    tables,
)

_OF_PLANE = ", ".join(f"p.{name} AS {new}" for name, new in OF_PLANE.items())
_OF_AIRPORT = ", ".join(f"a.{name} AS {new}" for name, new in OF_AIRPORT.items())
_ENRICHED = f"""
    SELECT f.*, w.* EXCLUDE (origin, year, month, day, hour, time_hour), l.name AS airline,
           {_OF_PLANE}, {_OF_AIRPORT}
    FROM flights f LEFT JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
    LEFT JOIN airlines l ON f.carrier = l.carrier
    LEFT JOIN planes p ON f.tailnum = p.tailnum LEFT JOIN airports a ON f.dest = a.faa
"""
_EXPECTED = {
    "archive": _ENRICHED,
    "enriched": _ENRICHED,
    "index": _ENRICHED,
    "delays": """
        SELECT time_hour, origin, count(*) AS flights, count(*) - count(dep_time) AS cancelled,
               avg(dep_delay) AS mean_delay, max(dep_delay) AS longest_delay
        FROM flights GROUP BY time_hour, origin
    """,
    "totals": """
        SELECT name AS airline, month, day, count(*) AS flights,
               count(*) - count(dep_time) AS cancelled,
               coalesce(sum(dep_delay), 0) AS delay_minutes
        FROM flights LEFT JOIN airlines USING (carrier) GROUP BY name, month, day
    """,
}
OUTPUTS = tuple(_EXPECTED)
_JOINED = """
    airline STRING, maker STRING, model STRING, seats INT, built INT, dest_name STRING,
    dest_lat DOUBLE, dest_lon DOUBLE
"""
_COLUMNS = ", ".join(  # of a flight with all added columns, as DuckDB spells them
    "{}: '{}'".format(*column.replace("TIMESTAMP", "TIMESTAMPTZ").split())
    for column in dict.fromkeys(
        each.strip() for each in f"{FLIGHTS}, {WEATHER}, {_JOINED}".split(",")
    )
)
# Rows are equal if all their columns are equal. Each row counts as often as it occurs.
_COMPARED = """
    SELECT sum(expected), sum(found), sum(greatest(expected - found, 0)),
           sum(CASE WHEN expected > 0 THEN greatest(found - expected, 0) ELSE 0 END),
           sum(CASE WHEN expected = 0 THEN found ELSE 0 END)
    FROM (
        SELECT * EXCLUDE (wanted), count(*) FILTER (wanted) AS expected,
               count(*) FILTER (NOT wanted) AS found
        FROM (SELECT true AS wanted, * FROM expected_{0}
              UNION ALL BY NAME SELECT false AS wanted, * FROM found_{0})
        GROUP BY ALL
    )
"""


def _outputs(places: Places) -> dict[str, str]:
    return {
        "archive": f"read_parquet('{places.archive}/month=*/origin=*/*.parquet',"
        " hive_types_autocast = true)",
        **{
            name: f"read_json('{path}', format = 'newline_delimited', columns = {{{_COLUMNS}}})"
            for name, path in (("enriched", places.enriched), ("index", places.indexed))
        },
        "delays": f"""read_json('{places.delays}/*.jsonl', columns = {{
            time_hour: 'TIMESTAMPTZ', origin: 'VARCHAR', flights: 'BIGINT', cancelled: 'BIGINT',
            mean_delay: 'DOUBLE', longest_delay: 'INTEGER'}})""",
        "totals": f"read_json('{places.totals}', format = 'newline_delimited')",
    }


def verify(places: Places, days: int) -> dict[str, Any]:
    """Compare the outputs row by row in all columns, and count their rows."""
    with tables(places.raw) as database:
        keep_first_days(database, days)
        found: dict[str, Any] = {}
        for sink, output in _outputs(places).items():
            database.execute(f"CREATE TABLE expected_{sink} AS {_EXPECTED[sink]}")
            database.execute(f"CREATE TABLE found_{sink} AS FROM {output}")
            counts = database.sql(_COMPARED.format(sink)).fetchall()[0]
            names = ("expected", "found", "missing", "duplicates", "unexpected")
            found[sink] = dict(zip(names, map(int, counts), strict=True))
        (found["matched"],) = database.sql(
            "SELECT count(*) FROM found_archive WHERE visib IS NOT NULL"
        ).fetchall()[0]
        (found["with airline"], found["with plane"], found["with airport"]) = database.sql(
            "SELECT count(airline), count(maker), count(dest_name) FROM found_archive"
        ).fetchall()[0]
        found["by month"] = database.sql(
            "SELECT monthname(make_date(2013, month, 1)), avg(dep_delay) FROM found_archive"
            " GROUP BY month ORDER BY month"
        ).fetchall()
        found["cancelled"] = database.sql(
            "SELECT airline, sum(cancelled) FROM found_totals GROUP BY airline ORDER BY 2 DESC, 1"
        ).fetchall()
        return found
