# SPDX-License-Identifier: Apache-2.0
"""Peak memory of a reader against the size of its partition."""

from __future__ import annotations

import sys

from benchmarks.memory import peak_of, print_peak_reading


def peak(servers: str, topic: str) -> float:
    """Peak resident megabytes of a process that reads a topic of one partition."""
    return peak_of("benchmarks.kafka.memory", servers, topic)


def main(servers: str, topic: str) -> None:
    """Read the topic as a task would, and say how much memory that took."""
    from connector_kafka import KafkaSource, OffsetsInitializer

    print_peak_reading(KafkaSource(servers, topics=topic, bounded=OffsetsInitializer.latest()))


if __name__ == "__main__":
    main(*sys.argv[1:])
