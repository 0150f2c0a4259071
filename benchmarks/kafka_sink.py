# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.kafka_sink`: cost of exactly-once per epoch, and throughput of writers.

The writers and the committer run in this process, one after another, against a broker on loopback.
Neither Spark nor the state location is involved. Both guarantees reuse their producers, and their
epochs alternate.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from connector_kafka import KafkaRecordSerializationSchema, KafkaSink
from connector_kafka.testing import KafkaBroker
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.sink import (
    CommitRequest,
    CommitterInitContext,
    DeliveryGuarantee,
    WriterInitContext,
)

PIPELINE = "0123456789abcdef0123456789abcdef"
SCHEMA = pa.schema([("value", pa.binary())])
WARM_UP = 5


@dataclass
class Epochs:
    """Runs the epochs of one sink."""

    sink: KafkaSink
    committer: Any
    claimed: set[str] = field(default_factory=set)
    number: int = 0

    def run(self, writers: int, batches: list[pa.RecordBatch]) -> float:
        """Write and commit an epoch, and return the milliseconds until Spark could continue."""
        began = time.perf_counter()
        lease = None
        if self.sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            lease = self.committer.lease(self.number, writers)
        prepared = []
        for subtask in range(writers):
            writer = self.sink.create_writer(self._context(subtask, lease))
            for batch in batches:
                writer.write(batch)
            writer.flush()
            prepared += writer.prepare_commit()
            writer.close()
        self.committer.commit([CommitRequest(each) for each in prepared])
        self.committer.sweep(self.number)
        self.number += 1
        self.claimed.clear()
        return (time.perf_counter() - began) * 1e3

    def _context(self, subtask: int, lease: object) -> WriterInitContext:
        return WriterInitContext(
            pipeline_id=PIPELINE,
            sink_uid="out",
            checkpoint_id=self.number,
            subtask_id=subtask,
            attempt_number=0,
            nonce="0",
            schema=SCHEMA,
            record_errors=RecordErrorHandler(RecordPolicy.fail()),
            lease=lease,
            claim=self._claim,
        )

    def _claim(self, name: str) -> bool:
        is_first = name not in self.claimed
        self.claimed.add(name)
        return is_first


@contextmanager
def epochs(
    broker: KafkaBroker, topic: str, guarantee: DeliveryGuarantee, **properties: object
) -> Iterator[Epochs]:
    """Start a sink on a topic."""
    sink = KafkaSink(
        broker.bootstrap_servers,
        serialization=KafkaRecordSerializationSchema(topic=topic),
        delivery_guarantee=guarantee,
        properties=properties,
    )
    committer = sink.create_committer(CommitterInitContext(pipeline_id=PIPELINE, sink_uid="out"))
    committer.recover(-1)
    try:
        yield Epochs(sink, committer)
    finally:
        committer.close()


def cost_per_epoch(broker: KafkaBroker, writers: int, rows: int, runs: int) -> tuple[float, float]:
    """Return the median milliseconds of an epoch for both guarantees, whose epochs alternate.

    Args:
        broker: The broker.
        writers: The number of writers per epoch, which run one after another.
        rows: The number of 100-byte rows per writer.
        runs: The number of measured epochs per guarantee.
    """
    batch = pa.RecordBatch.from_pydict({"value": [b"x" * 100] * rows}, schema=SCHEMA)
    topic = broker.topics.create(f"epochs-{writers}-{rows}", partitions=4)
    once = DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE
    with epochs(broker, topic, once[0]) as least, epochs(broker, topic, once[1]) as exactly:
        both: tuple[list[float], list[float]] = ([], [])
        for _ in range(WARM_UP + runs):
            both[0].append(least.run(writers, [batch]))
            # The IDs of the next epoch are initialized in the background, while Spark continues.
            both[1].append(exactly.run(writers, [batch]))
        return statistics.median(both[0][WARM_UP:]), statistics.median(both[1][WARM_UP:])


def rows_per_second(broker: KafkaBroker, compression: str, rows: int, runs: int) -> float:
    """Return the median rows per second of one writer, with batches of 10,000 rows of 100 bytes."""
    batch = pa.RecordBatch.from_pydict(
        {"value": [b"%0100d" % (number * 7919) for number in range(10_000)]}, schema=SCHEMA
    )
    topic = broker.topics.create(f"speed-{compression}", partitions=4)
    batches = [batch] * (rows // batch.num_rows)
    properties = {"compression.type": compression}
    with epochs(broker, topic, DeliveryGuarantee.AT_LEAST_ONCE, **properties) as least:
        seconds = [least.run(1, batches) / 1e3 for _ in range(runs + 1)][1:]
    return rows / statistics.median(seconds)


def main(
    runs: Annotated[int, typer.Option(help="Measured epochs of each guarantee.")] = 60,
    rows: Annotated[int, typer.Option(help="Rows of each writer and epoch.")] = 1000,
) -> None:
    """Run the measurements and print the results."""
    table = Table(title=f"Kafka sink, {rows} rows per writer and epoch")
    for column in ("what", "at least once", "exactly once", "difference", "aim"):
        table.add_column(column)
    with KafkaBroker() as broker:
        for writers in (1, 2, 4):
            least, exactly = cost_per_epoch(broker, writers, rows, runs)
            cells = [f"{each:.1f}" for each in (least, exactly, exactly - least)]
            table.add_row(
                f"ms per epoch, {writers} writers one after another", *cells, "at most 60"
            )
        for compression in ("none", "lz4"):
            speed = rows_per_second(broker, compression, 500_000, 3)
            table.add_row(f"rows/s of one writer, {compression}", f"{speed:,.0f}", "", "", "")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
