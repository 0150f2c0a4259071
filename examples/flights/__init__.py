# SPDX-License-Identifier: Apache-2.0
"""The flights of New York in 2013 with the weather at departure, exactly once.

The first half of the year lies in files, a day each; the second half is sent to a topic of a real
Kafka, which ``python -m examples.flights`` starts. It runs the pipeline of ``pipeline.py``, kills
its driver and the broker on the way, starts them again, and compares what came out with what had to
come out, row by row: the Parquet archive, the topic of enriched flights, and the delays by hour.
"""
