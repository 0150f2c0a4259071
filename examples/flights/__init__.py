# SPDX-License-Identifier: Apache-2.0
"""The flights of New York in 2013 with weather, aircraft and airport, exactly once.

The first half of the year lies in files, a day each; the second half is sent to a topic of a real
Kafka. The weather is joined as a stream, the aircraft is looked up in a real Elasticsearch and kept
for a while, the airport in a file that is cached as a whole. ``python -m examples.flights`` starts
the servers and runs the pipeline of ``pipeline.py``, kills its driver, the broker and Elasticsearch
on the way, starts them again, and compares what came out with what had to come out, row by row: the
Parquet archive, the topic of enriched flights, the index of them, and the delays by hour.
"""
