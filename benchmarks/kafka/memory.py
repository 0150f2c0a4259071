# SPDX-License-Identifier: Apache-2.0
"""Peak memory of a reader against the size of its partition."""

from __future__ import annotations

import sys

from benchmarks.memory import peak_of, print_peak_reading


def peak(servers: str, topic: str) -> float:
    """Return the peak resident memory of a process that reads a topic with one partition, in MB."""
    return peak_of("benchmarks.kafka.memory", servers, topic)


def main(servers: str, topic: str) -> None:
    """Read the topic as a task does, and print the peak memory."""
    from connector_kafka import KafkaSource, OffsetsInitializer

    print_peak_reading(KafkaSource(servers, topics=topic, bounded=OffsetsInitializer.latest()))


if __name__ == "__main__":
    main(*sys.argv[1:])
