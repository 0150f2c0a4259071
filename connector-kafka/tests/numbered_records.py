# SPDX-License-Identifier: Apache-2.0
"""Numbered records, so that the expected rows are known without the pipeline."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from connector_kafka import KafkaSource
from connector_kafka.testing import KafkaBroker
from connectors_core import Pipeline
from connectors_core.testing import DirectorySink, LocalPipeline

SECONDS = 60.0


class NumberedRecords:
    """A topic whose values are the numbers from 0, and pipelines that read it to a folder.

    Args:
        broker: Where the topic is.
        topic: The topic.
        folder: Takes checkpoint and output.
    """

    def __init__(self, broker: KafkaBroker, topic: str, folder: Path) -> None:
        self._broker = broker
        self._topic = topic
        self._folder = folder
        self._sink = DirectorySink(folder / "out")
        self._written = 0

    def write(self, count: int, *, size: int = 0, partitions: Sequence[int] = (0,)) -> None:
        """Write the next numbers, to partitions in turn, and wait until they are there.

        Args:
            count: How many.
            size: Bytes of a value, filled up with spaces.
            partitions: To which.
        """
        producer = KafkaProducer(bootstrap_servers=self._broker.bootstrap_servers, acks="all")
        with closing(producer):
            for number in range(self._written, self._written + count):
                value = str(number).encode().ljust(size)
                partition = partitions[number % len(partitions)]
                producer.send(self._topic, value, partition=partition)
        self._written += count

    def pipeline(self, source: KafkaSource, **settings: Any) -> LocalPipeline:
        """A pipeline of two readers in this process; each one goes on from the one before."""
        location = str(self._folder / "checkpoint")
        pipeline = LocalPipeline("faults", checkpoint_location=location, parallelism=2)
        rows = pipeline.from_source(source, uid="topic", **settings)
        pipeline.sink_to(rows, self._sink, uid="out")
        return pipeline

    def read(self) -> list[int]:
        """The numbers that came out, in their order."""
        rows = self._sink.read()
        return sorted(map(int, rows["value"].to_pylist())) if rows.num_columns else []

    def wait_for(self, count: int, pipeline: LocalPipeline) -> None:
        """Wait until so many came out; a failure of the pipeline is raised."""
        wait(lambda: self._sink.read().num_rows >= count, f"{count} records", pipeline)

    def wait_for_all(self, pipeline: LocalPipeline) -> None:
        """Wait until all that was written came out."""
        self.wait_for(self._written, pipeline)

    def assert_complete(self) -> None:
        """All that was written came out, once."""
        found = Counter(self.read())
        missing = set(range(self._written)) - found.keys()
        doubled = [number for number, times in found.items() if times > 1]
        assert not missing, f"{len(missing)} of {self._written} are missing: {sorted(missing)[:5]}"
        assert not doubled, f"{len(doubled)} came more than once: {sorted(doubled)[:5]}"
        assert len(found) == self._written


def wait(condition: Callable[[], bool], what: str, pipeline: LocalPipeline | Pipeline) -> None:
    """Wait for something while a pipeline runs; a failure of it is raised."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS:.0f} s: {what}"
        pipeline.await_termination(0.05)
