# SPDX-License-Identifier: Apache-2.0
"""Numbered records, which let a test compute the expected rows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from connector_kafka import KafkaSource
from connector_kafka.testing import KafkaBroker
from connectors_core import Pipeline
from connectors_core.testing import DirectorySink, LocalPipeline

SECONDS = 60.0


class NumberedRecords:
    """A topic whose values are the numbers from 0, and pipelines that copy it to a folder.

    Args:
        broker: The broker with the topic.
        topic: The name of the topic.
        folder: The folder for the checkpoint and the output.
    """

    def __init__(self, broker: KafkaBroker, topic: str, folder: Path) -> None:
        self._broker = broker
        self._topic = topic
        self._folder = folder
        self._sink = DirectorySink(folder / "out")
        self._written = 0

    def write(self, count: int, *, size: int = 0, partitions: Sequence[int] = (0,)) -> None:
        """Write the next numbers to the partitions in turn, and wait for their acknowledgment.

        Args:
            count: The number of records.
            size: The minimum size of a value in bytes. Spaces pad shorter values.
            partitions: The partitions to write to.
        """
        producer = KafkaProducer(bootstrap_servers=self._broker.bootstrap_servers, acks="all")
        with closing(producer):
            for number in range(self._written, self._written + count):
                value = str(number).encode().ljust(size)
                partition = partitions[number % len(partitions)]
                producer.send(self._topic, value, partition=partition)
        self._written += count

    def pipeline(self, source: KafkaSource, **settings: Any) -> LocalPipeline:
        """Return a pipeline with two readers. It resumes from the previous checkpoint."""
        location = str(self._folder / "checkpoint")
        pipeline = LocalPipeline("faults", checkpoint_location=location, parallelism=2)
        rows = pipeline.from_source(source, uid="topic", **settings)
        pipeline.sink_to(rows, self._sink, uid="out")
        return pipeline

    @contextmanager
    def read_to_the_end(self, source: KafkaSource, **settings: Any) -> Iterator[LocalPipeline]:
        """Yield a pipeline, then wait for all records, stop it, and check the output."""
        with self.pipeline(source, **settings) as pipeline:
            yield pipeline
            self.wait_for_all(pipeline)
            pipeline.stop()
        self.assert_complete()

    def read(self) -> list[int]:
        """Return the numbers in the output, in ascending order."""
        rows = self._sink.read()
        return sorted(map(int, rows["value"].to_pylist())) if rows.num_columns else []

    def wait_for(self, count: int, pipeline: LocalPipeline) -> None:
        """Wait until the output has `count` records. Raise if the pipeline fails."""
        wait(lambda: self._sink.read().num_rows >= count, f"{count} records", pipeline)

    def wait_for_all(self, pipeline: LocalPipeline) -> None:
        """Wait until the output has as many records as the topic."""
        self.wait_for(self._written, pipeline)

    def assert_complete(self) -> None:
        """Assert that the output contains each written number exactly once."""
        found = Counter(self.read())
        missing = set(range(self._written)) - found.keys()
        doubled = [number for number, times in found.items() if times > 1]
        assert not missing, f"{len(missing)} of {self._written} are missing: {sorted(missing)[:5]}"
        assert not doubled, f"{len(doubled)} came more than once: {sorted(doubled)[:5]}"
        assert len(found) == self._written


def wait(condition: Callable[[], bool], what: str, pipeline: LocalPipeline | Pipeline) -> None:
    """Wait for a condition while a pipeline runs. Raise if the pipeline fails."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS:.0f} s: {what}"
        pipeline.await_termination(0.05)
