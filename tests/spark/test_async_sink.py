# SPDX-License-Identifier: Apache-2.0
"""Tests the sink of docs/write-a-connector/async-sink.md on Spark, with rejections and kills."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from document_service import DocumentService, is_refused_at_first, running_service
from page_modules import modules_of
from pyspark import cloudpickle

from connectors_core import Pipeline
from connectors_core.metrics import SinkMetric
from connectors_core.records import RecordPolicy
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

document_sink = modules_of("write-a-connector/async-sink.md")["document_sink"]
cast(Any, cloudpickle).register_pickle_by_value(document_sink)  # executors cannot import it

pytestmark = pytest.mark.line("3.5")

ROWS = 3_000
SECONDS = 60.0


@pytest.fixture
def service(tmp_path: Path) -> Iterator[DocumentService]:
    with running_service(tmp_path / "documents") as running:
        yield running


def values(service: DocumentService) -> Counter[int]:
    return Counter(document["value"] for document in service.documents())


def test_a_temporarily_rejected_document_arrives_later(
    spark: SparkSession, tmp_path: Path, service: DocumentService
) -> None:
    with Pipeline(spark, "p", checkpoint_location=str(tmp_path / "c"), parallelism=2) as pipeline:
        numbers = pipeline.from_source(NumberSequenceSource(0, ROWS - 1), uid="numbers")
        pipeline.sink_to(numbers, document_sink.DocumentSink(service.port), uid="documents")
        pipeline.run()
        (sink,) = pipeline.status().sinks
    assert values(service) == Counter(range(ROWS))
    assert sink.rows == ROWS
    refused = sum(is_refused_at_first(b'{"value":%d}' % number) for number in range(ROWS))
    assert sink.counters[SinkMetric.NUM_RETRIES] == refused > 0
    assert sink.counters[SinkMetric.NUM_REQUESTS] > ROWS / document_sink.BOUNDS.max_batch_size


def test_a_permanently_rejected_document_becomes_a_dead_letter(
    spark: SparkSession, tmp_path: Path, service: DocumentService
) -> None:
    letters = DirectorySink(tmp_path / "letters")
    with Pipeline(spark, "p", checkpoint_location=str(tmp_path / "c"), parallelism=2) as pipeline:
        numbers = pipeline.from_source(NumberSequenceSource(-3, 20), uid="numbers")
        pipeline.sink_to(
            numbers,
            document_sink.DocumentSink(service.port),
            uid="documents",
            record_policy=RecordPolicy.dead_letter(letters),
        )
        pipeline.run()
    assert values(service) == Counter(range(21))
    found = letters.read()
    assert sorted(found["raw"].to_pylist()) == [b'{"value":%d}' % n for n in (-1, -2, -3)]
    assert set(found["reason"].to_pylist()) == {"the service does not take it"}


def test_no_document_is_lost_if_the_service_is_killed_and_restarts(
    spark: SparkSession, tmp_path: Path, service: DocumentService
) -> None:
    with Pipeline(
        spark, "p", checkpoint_location=str(tmp_path / "c"), parallelism=2, streaming=True
    ) as pipeline:
        numbers = pipeline.from_source(
            NumberSequenceSource(0, ROWS - 1, split_rows=100),
            uid="numbers",
            limits=ReadLimits(rows=500),
        )
        pipeline.sink_to(numbers, document_sink.DocumentSink(service.port), uid="documents")
        pipeline.start()
        for least in (100, 1_500):
            deadline = time.monotonic() + SECONDS
            while len(values(service)) <= least:
                assert time.monotonic() < deadline, f"fewer than {least} documents in time"
                pipeline.await_termination(0.02)
            service.kill()
            service.start_again()
        pipeline.await_termination()
    assert values(service).keys() == set(range(ROWS))  # at least once
