# SPDX-License-Identifier: Apache-2.0
"""Costs of structures that grow, ten times as large in each step, in one process without Spark.

Each cost is that of one element, so a constant curve means linear growth.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from kafka import KafkaProducer

from benchmarks.comparison import Result
from connector_filesystem import FileSink, FileSource
from connector_kafka import KafkaSource, OffsetsInitializer
from connector_kafka.testing import KafkaBroker
from connectors_core import NumberSequenceSource, ReadLimits
from connectors_core.lookup import DefaultLookupCache
from connectors_core.metrics import MetricGroup
from connectors_core.testing import DirectorySink, LocalPipeline

SIZES = (10, 100, 1_000, 10_000)
# A broker with one disk needs minutes to create more.
MOST_PARTITIONS = 1_000
_PLANS = 20


def measure(root: Path) -> Iterator[Result]:
    """Return the curves, from one run of each size.

    Args:
        root: A folder for state and output.
    """
    shutil.rmtree(root, ignore_errors=True)
    curves: dict[str, Callable[[Path, int], float]] = {
        "read a split, ms": _splits,
        "read a file of one row, ms": _files,
        "write a bucket of one row, ms": _buckets,
        "run an epoch, ms": _epochs,
        "restart after epochs, ms": _restart,
        "find a key in a cache, microseconds": _cached_keys,
    }
    _epochs(_new(root), SIZES[0])  # warms up
    for what, cost in curves.items():
        for size in SIZES:
            yield Result(f"{what}: {size:,}", cost(_new(root), size))
    with (
        KafkaBroker() as broker,
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        for size in (each for each in SIZES if each <= MOST_PARTITIONS):
            topic = broker.topics.create(f"of-{size}", partitions=size)
            for _ in range(_PLANS):
                producer.send(topic, b"x", partition=0)
            producer.flush()
            what = f"plan with partitions of Kafka, ms per plan: {size:,}"
            yield Result(what, _plans(broker, topic, _new(root)))


def _new(root: Path) -> Path:
    folder = root / uuid.uuid4().hex
    folder.mkdir(parents=True)
    return folder


def _copied(root: Path, source: object, sink: object, limits: ReadLimits | None = None) -> float:
    """Copy rows as a stream, and return the seconds."""
    began = time.perf_counter()
    with LocalPipeline("growth", checkpoint_location=str(root / "state")) as pipeline:
        rows = pipeline.from_source(source, uid="from", limits=limits)
        pipeline.sink_to(rows, sink, uid="to")
        pipeline.run(timeout=3_600)
    return time.perf_counter() - began


def _splits(root: Path, size: int) -> float:
    source = NumberSequenceSource(0, size - 1, split_rows=1)
    return 1e3 * _copied(root, source, DirectorySink(root / "out")) / size


def _files(root: Path, size: int) -> float:
    folder = root / "in"
    folder.mkdir()
    for number in range(size):
        (folder / f"{number}.json").write_text(f'{{"value": {number}}}\n')
    source = FileSource(str(folder), format="json", schema="value BIGINT")
    return 1e3 * _copied(root, source, DirectorySink(root / "out")) / size


def _buckets(root: Path, size: int) -> float:
    source = NumberSequenceSource(0, size - 1, split_rows=size)
    sink = FileSink.from_options(
        {
            "path": str(root / "out"),
            "format": "json",
            "partition.columns": "value",
            "partition.keep-columns": "true",
        }
    )
    return 1e3 * _copied(root, source, sink) / size


def _epochs(root: Path, size: int) -> float:
    source = NumberSequenceSource(0, size - 1, split_rows=size)
    return 1e3 * _copied(root, source, DirectorySink(root / "out"), ReadLimits(rows=1)) / size


def _restart(root: Path, size: int) -> float:
    _epochs(root, size)
    source = NumberSequenceSource(0, size - 1, split_rows=size)
    return 1e3 * _copied(root, source, DirectorySink(root / "out"), ReadLimits(rows=1))


def _cached_keys(_root: Path, size: int) -> float:
    keys = pa.record_batch({"key": list(range(size))})
    cache = DefaultLookupCache(max_rows=2 * size)
    cache.open(MetricGroup())
    cache.put(keys, pa.Table.from_batches([keys]))
    began = time.perf_counter()
    present, _ = cache.get_if_present(keys)
    seconds = time.perf_counter() - began
    assert present.true_count == size
    return 1e6 * seconds / size


def _plans(broker: KafkaBroker, topic: str, root: Path) -> float:
    """Return the milliseconds of a plan that reads one record of one partition."""
    source = KafkaSource(
        broker.bootstrap_servers,
        topics=topic,
        starting_offsets=OffsetsInitializer.earliest(),
    )
    sink = DirectorySink(root / "out")
    arrived: list[float] = []
    with LocalPipeline("growth", checkpoint_location=str(root / "state")) as pipeline:
        rows = pipeline.from_source(source, uid="from", limits=ReadLimits(rows=1))
        pipeline.sink_to(rows, sink, uid="to")
        pipeline.start()
        for wanted in (1, _PLANS):
            while pipeline.status().sinks[0].rows < wanted:
                pipeline.await_termination(0.01)
            arrived.append(time.perf_counter())
    return 1e3 * (arrived[1] - arrived[0]) / (_PLANS - 1)
