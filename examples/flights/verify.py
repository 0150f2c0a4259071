# SPDX-License-Identifier: Apache-2.0
"""What must have come out, computed by DuckDB from the raw tables, against what did."""

from __future__ import annotations

from typing import Any

from examples.flights.data import Places, keep_first_days, tables

_EXPECTED = {
    "archive": """
        SELECT f.*, w.* EXCLUDE (origin, year, month, day, hour, time_hour)
        FROM flights f LEFT JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
    """,
    "delays": """
        SELECT time_hour, origin, count(*) AS flights, count(*) - count(dep_time) AS cancelled,
               avg(dep_delay) AS mean_delay, max(dep_delay) AS longest_delay
        FROM flights GROUP BY time_hour, origin
    """,
}
_FOUND = {
    "archive": "read_parquet('{}/month=*/origin=*/*.parquet', hive_types_autocast = true)",
    "delays": """read_json('{}/*.jsonl', columns = {{
        time_hour: 'TIMESTAMPTZ', origin: 'VARCHAR', flights: 'BIGINT', cancelled: 'BIGINT',
        mean_delay: 'DOUBLE', longest_delay: 'INTEGER'}})""",
}
# Rows are equal when all their columns are; each counts as often as it is there.
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


def verify(places: Places, days: int) -> dict[str, Any]:
    """Compare the outputs row by row, in all columns, and count what they hold."""
    with tables(places.raw) as database:
        keep_first_days(database, days)
        found: dict[str, Any] = {}
        for sink, folder in (("archive", places.archive), ("delays", places.delays)):
            database.execute(f"CREATE TABLE expected_{sink} AS {_EXPECTED[sink]}")
            database.execute(f"CREATE TABLE found_{sink} AS FROM {_FOUND[sink].format(folder)}")
            counts = database.sql(_COMPARED.format(sink)).fetchall()[0]
            names = ("expected", "found", "missing", "duplicates", "unexpected")
            found[sink] = dict(zip(names, map(int, counts), strict=True))
        (found["matched"],) = database.sql(
            "SELECT count(*) FROM found_archive WHERE visib IS NOT NULL"
        ).fetchall()[0]
        found["by month"] = database.sql(
            "SELECT monthname(make_date(2013, month, 1)), avg(dep_delay) FROM found_archive"
            " GROUP BY month ORDER BY month"
        ).fetchall()
        found["by carrier"] = database.sql(
            "SELECT name, avg(dep_delay) AS delay FROM found_archive JOIN airlines USING (carrier)"
            " GROUP BY name ORDER BY delay DESC"
        ).fetchall()
        return found
