# SPDX-License-Identifier: Apache-2.0
"""The flights of New York in 2013 with weather, airline, aircraft, and airport, exactly once.

The first half of the year is in files, one per day. The second half is sent to a topic of a real
Kafka broker. The pipeline joins the weather as a stream, and the airline from a table that Spark
reads itself. It looks up the aircraft in a real Elasticsearch with a partial cache, and the airport
in a file that is cached as a whole. ``python -m examples.flights`` starts the servers and runs the
pipeline in ``pipeline.py``. It kills the driver, the broker, and Elasticsearch during the run, and
restarts them. At the end, it compares each row of the output with the expected rows: the Parquet
archive, the topic and the index of enriched flights, the delays by hour, and the totals by airline
and day, which a function adds up in SQLite.
"""
