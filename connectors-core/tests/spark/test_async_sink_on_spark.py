# SPDX-License-Identifier: Apache-2.0
"""Rows sent in requests from Spark's tasks, to a service that refuses and is killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pytest
from pipeline_support import new_pipeline, travel_with_closures, wait_until

from connectors_core.errors import RetryableError
from connectors_core.metrics import SinkMetric
from connectors_core.records import RecordPolicy
from connectors_core.sink import (
    AsyncSink,
    AsyncSinkWriter,
    AsyncSinkWriterConfiguration,
    ElementConverter,
    WriterInitContext,
)
from connectors_core.source import NumberSequenceSource, PlanLimits
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

travel_with_closures(__name__)

ROWS = 3_000
SERVER = Path(__file__).with_name("document_server.py")
BOUNDS = AsyncSinkWriterConfiguration(
    max_batch_size=50, max_buffered_requests=200, initial_backoff=timedelta(milliseconds=5)
)


class Documents(ElementConverter[bytes]):
    """JSON of each row."""

    def apply(self, batch: pa.RecordBatch, context: WriterInitContext) -> Iterable[bytes]:
        return map(orjson.dumps, batch.to_pylist())


@dataclass(frozen=True)
class DocumentSink(AsyncSink[bytes]):
    """Sends documents to the server on a port."""

    port: int

    def create_writer(self, context: WriterInitContext) -> DocumentWriter:
        return DocumentWriter(self.port, context)


class DocumentWriter(AsyncSinkWriter[bytes]):
    """A connection for each request."""

    def __init__(self, port: int, context: WriterInitContext) -> None:
        super().__init__(Documents(), context, BOUNDS)
        self._port = port

    async def submit_request_entries(self, entries: Sequence[bytes]) -> Sequence[bytes]:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(b"[" + b",".join(entries) + b"]\n")
            answer = await reader.readline()
            writer.close()
        except OSError as error:
            raise RetryableError("the server does not answer") from error
        if not answer.endswith(b"\n"):
            raise RetryableError("the server did not end its answer")
        refused = orjson.loads(answer)
        for at in refused["never"]:
            self.reject(entries[at], "negative")
        return [entries[at] for at in refused["later"]]

    def get_size_in_bytes(self, entry: bytes) -> int:
        return len(entry)


@dataclass
class Server:
    """A running server; what it took stays when it is killed."""

    file: Path
    port: int
    process: subprocess.Popen[str]

    def found(self) -> Counter[int]:
        return Counter(map(int, self.file.read_text().split()))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        self.process = start(self.port, self.file)
        assert self.process.stdout is not None
        assert int(self.process.stdout.readline()) == self.port


def start(port: int, file: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(SERVER), str(port), str(file)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running(tmp_path / "documents") as found:
        yield found


@contextmanager
def running(file: Path) -> Iterator[Server]:
    process = start(0, file)
    assert process.stdout is not None
    server = Server(file, int(process.stdout.readline()), process)
    try:
        yield server
    finally:
        server.kill()


def test_what_is_refused_for_now_arrives_later(
    spark: SparkSession, tmp_path: Path, server: Server
) -> None:
    with new_pipeline(spark, tmp_path, streaming=False) as pipeline:
        numbers = pipeline.from_source(NumberSequenceSource(0, ROWS - 1), uid="numbers")
        pipeline.sink_to(numbers, DocumentSink(server.port), uid="documents")
        pipeline.run()
        (sink,) = pipeline.status().sinks
    assert server.found() == Counter(range(ROWS))
    assert sink.rows == ROWS
    assert sink.counters[SinkMetric.NUM_RETRIES] == ROWS / 5
    assert sink.counters[SinkMetric.NUM_REQUESTS] > ROWS / BOUNDS.max_batch_size


def test_what_is_refused_for_good_is_a_dead_letter(
    spark: SparkSession, tmp_path: Path, server: Server
) -> None:
    letters = DirectorySink(tmp_path / "letters")
    with new_pipeline(spark, tmp_path, streaming=False) as pipeline:
        numbers = pipeline.from_source(NumberSequenceSource(-3, 20), uid="numbers")
        pipeline.sink_to(
            numbers,
            DocumentSink(server.port),
            uid="documents",
            record_policy=RecordPolicy.dead_letter(letters),
        )
        pipeline.run()
    assert server.found() == Counter(range(21))
    found = letters.read()
    assert sorted(found["raw"].to_pylist()) == [b'{"value":%d}' % n for n in (-1, -2, -3)]
    assert set(found["reason"].to_pylist()) == {"negative"}


def test_nothing_is_lost_when_the_service_is_killed_and_comes_back(
    spark: SparkSession, tmp_path: Path, server: Server
) -> None:
    with new_pipeline(spark, tmp_path) as pipeline:
        numbers = pipeline.from_source(
            NumberSequenceSource(0, ROWS - 1, split_rows=100),
            uid="numbers",
            limits=PlanLimits(rows=500),
        )
        pipeline.sink_to(numbers, DocumentSink(server.port), uid="documents")
        pipeline.start()
        for least in (100, 1_500):
            wait_until(lambda least=least: len(server.found()) > least, "documents", pipeline)
            server.kill()
            server.start_again()
        pipeline.await_termination()
    assert server.found().keys() == set(range(ROWS))  # at least once
