# SPDX-License-Identifier: Apache-2.0
"""The flights example in SQL: the same inputs, the same outputs, and no functions in Python.

`tables.sql` declares the tables, and `pipeline.sql` is the job. `python -m examples.flights
--job=flights_sql` runs them like the job of `examples.flights`, with the same servers, kills, and
comparison.
"""
