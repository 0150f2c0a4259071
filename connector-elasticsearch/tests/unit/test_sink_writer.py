# SPDX-License-Identifier: Apache-2.0
"""Tests the writer against a fake Elasticsearch, with the core's suite and additional faults."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sink_writing
from elasticsearch_system import SUITES
from fake_elasticsearch import FakeElasticsearch
from sink_writing import QUICK, open_writer
from treating_server import BUSY, Answer

from connector_elasticsearch import (
    ElasticsearchAuthenticationError,
    ElasticsearchAuthorizationError,
    ElasticsearchConnection,
    ElasticsearchRequestError,
    ElasticsearchSink,
    ElasticsearchVersionError,
)
from connector_elasticsearch.sink.writer import (
    ALREADY_WRITTEN_METRIC,
    STALE_METRIC,
)
from connectors_core.errors import BadRecordError, ConnectorError, RetryableError
from connectors_core.metrics import MetricGroup
from connectors_core.records import RecordPolicy
from connectors_core.sink import AsyncSinkWriterConfiguration
from connectors_core.testing import (
    ROWS,
    AsyncSinkExternalContext,
    AsyncSinkWriterTestSuite,
    Capabilities,
    Capability,
    RequestFault,
)

PASSWORD = "canary-77c1"  # pragma: allowlist secret


class FakeIndex(AsyncSinkExternalContext):
    """A fake server for one test case. The split of a row is its key."""

    def __init__(self) -> None:
        self._fake = FakeElasticsearch()
        self._fake.__enter__()

    def create_async_sink(self, configuration: AsyncSinkWriterConfiguration) -> ElasticsearchSink:
        return ElasticsearchSink(
            ElasticsearchConnection(self._fake.url, username="ann", password=PASSWORD),
            index="rows",
            id_columns=["split"],
            bulk_flush=configuration,
        )

    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        table = pa.Table.from_pylist([document for _, document in self._fake.written])
        return table.cast(schema) if table.num_rows else schema.empty_table()

    def treat(self, fault: RequestFault | None, requests: int | None = None) -> None:
        self._fake.treat(fault, requests)

    def reject(self, seq: int) -> None:
        self._fake.never.add(seq)

    def secrets(self) -> list[str]:
        return [PASSWORD]

    def close(self) -> None:
        self._fake.__exit__()


class TestElasticsearchWriter(AsyncSinkWriterTestSuite):
    written_for = SUITES
    capabilities = Capabilities(can=frozenset({Capability.KEYS, Capability.SECRETS}))

    def external_context(self, folder: Path) -> FakeIndex:
        return FakeIndex()


@pytest.fixture
def fake() -> Iterator[FakeElasticsearch]:
    with FakeElasticsearch() as fake:
        yield fake


def rows(count: int, *, letters: int = 1) -> pa.RecordBatch:
    return pa.record_batch({"seq": pa.array(range(count)), "text": ["x" * letters] * count})


def sink_of(
    fake: FakeElasticsearch,
    *,
    connection: ElasticsearchConnection | None = None,
    bulk_flush: AsyncSinkWriterConfiguration = QUICK,
    **settings: Any,
) -> ElasticsearchSink:
    return ElasticsearchSink(connection or fake.url, "rows", bulk_flush=bulk_flush, **settings)


def write(
    fake: FakeElasticsearch,
    batch: pa.RecordBatch,
    *,
    policy: RecordPolicy | None = None,
    **settings: Any,
) -> None:
    rows = pa.Table.from_batches([batch])
    sink_writing.write(sink_of(fake, **settings), rows, policy=policy)


def written(fake: FakeElasticsearch) -> list[int]:
    return sorted(document["seq"] for _, document in fake.written)


# --- Requests -------------------------------------------------------------------------------------


def test_a_request_uses_the_protocol_of_servers_8_and_9(fake: FakeElasticsearch) -> None:
    connection = ElasticsearchConnection(
        fake.url,
        api_key="id:key",  # pragma: allowlist secret
        headers={"x-tenant": "7"},
        path_prefix="search",
    )
    write(fake, rows(1), connection=connection, ingest_pipeline="clean", refresh="wait_for")
    (headers,) = fake.headers
    assert headers["accept"] == "application/vnd.elasticsearch+json; compatible-with=8"
    assert headers["content-type"] == "application/vnd.elasticsearch+x-ndjson; compatible-with=8"
    assert headers["authorization"] == "ApiKey aWQ6a2V5"
    assert headers["x-tenant"] == "7"
    (path,) = fake.paths
    assert path.startswith("/search/rows/_bulk?filter_path=")
    assert path.endswith("&pipeline=clean&refresh=wait_for")
    assert fake.bodies == [b'{"index":{}}\n{"seq":0,"text":"x"}\n']


def test_rows_without_ids_are_sent_in_batches_of_the_maximum_size(
    fake: FakeElasticsearch,
) -> None:
    write(fake, rows(25), bulk_flush=replace(QUICK, max_batch_size=10))
    assert sorted(body.count(b"\n") // 2 for body in fake.bodies) == [5, 10, 10]


# --- Retries --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_temporarily_refused_request_is_retried(fake: FakeElasticsearch, status: int) -> None:
    fake.answers = [Answer(status, {"error": BUSY}), Answer(status)]
    write(fake, rows(3))
    assert written(fake) == [0, 1, 2]
    assert len(fake.bodies) == 3


def test_a_refused_request_waits_for_the_retry_after_time_of_the_server(
    fake: FakeElasticsearch,
) -> None:
    fake.answers = [Answer(503, {"error": BUSY}, headers={"retry-after": "3600"})]
    patient = replace(QUICK, max_batch_size=1, retry_timeout=timedelta(hours=2))
    sink = sink_of(fake, bulk_flush=patient)
    with closing(open_writer(sink, rows(0).schema)) as writer:
        writer.write(rows(1))
        sending = writer._sending
        deadline = time.monotonic() + 10
        while not sending._buffer._later:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert sending._buffer._later[0][0] > sending._loop.time() + 3000
    assert len(fake.bodies) == 1


GOOD = b'{"index":{"status":201}}'


def bulk(*items: bytes, errors: bytes = b"false") -> bytes:
    return b'{"errors":' + errors + b',"items":[' + b",".join(items) + b"]}"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"}",
        b"[]",
        b"null",
        b"{}",
        b'{"errors":false}',
        b'{"errors":false,"items":{}}',
        bulk(GOOD, GOOD)[:-1],
        bulk(GOOD, GOOD)[:-20],
        bulk(),
        bulk(GOOD),
        bulk(GOOD, GOOD, GOOD),
        bulk(GOOD, b"{}"),
        bulk(GOOD, b"null"),
        bulk(GOOD, b'{"index":null}'),
        bulk(GOOD, b'{"index":{}}'),
        bulk(GOOD, b'{"index":{"status":"201"}}'),
        bulk(GOOD, b'{"index":{"status":0}}'),
        bulk(GOOD, b'{"index":{"status":302}}'),
        bulk(GOOD, b'{"delete":{"status":404}}'),
        bulk(GOOD, b'{"index":{"status":404}}'),
        bulk(GOOD, b'{"index":{"status":400}}', errors=b"true"),
        bulk(GOOD, b'{"index":{"status":400,"error":"no"}}', errors=b"true"),
        bulk(GOOD, b'{"index":{"status":400,"error":{}}}', errors=b"true"),
        bulk(GOOD, b'{"index":{"status":201,"error":{"type":"a"}}}', errors=b"true"),
        bulk(GOOD, b'{"create":{"status":409,"error":{"type":"a"}}}', errors=b"true"),
        b'{"error":{"type":"a","reason":"b"},"status":200}',
    ],
    ids=bytes.decode,
)
def test_a_response_without_the_status_of_each_document_is_retried(
    fake: FakeElasticsearch, answer: bytes
) -> None:
    fake.answers = [lambda _: answer]
    write(fake, rows(2))
    assert written(fake) == [0, 0, 1, 1]


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b""])
def test_a_truncated_response_is_retried(
    fake: FakeElasticsearch, damage: Callable[[bytes], bytes]
) -> None:
    fake.answers = [damage]
    fake.keeps_length = True
    write(fake, rows(2))
    assert written(fake) == [0, 0, 1, 1]


@pytest.mark.parametrize("kind", ["text/html", "text/plain", "application/json"])
def test_a_response_with_another_content_type_is_retried(
    fake: FakeElasticsearch, kind: str
) -> None:
    page = Answer(200, data=b"<html>Sign in", headers={"content-type": kind})
    fake.answers = [page, page]
    write(fake, rows(2))
    assert written(fake) == [0, 1]


def test_a_bad_record_is_reported_only_if_the_whole_response_is_valid(
    fake: FakeElasticsearch,
) -> None:
    """Otherwise the next response would report the same bad record again."""
    refused = b'{"index":{"status":400,"error":{"type":"document_parsing_exception"}}}'
    fake.answers = [lambda _: bulk(refused, b"{}", errors=b"true")]
    fake.never = {0}
    skipped = sink_writing.write(
        sink_of(fake), pa.Table.from_batches([rows(2)]), policy=RecordPolicy.skip()
    )
    assert skipped == 1


def test_an_unreachable_server_is_retried_until_the_timeout(fake: FakeElasticsearch) -> None:
    gone = ElasticsearchConnection("http://127.0.0.1:9")
    bounds = replace(QUICK, retry_timeout=timedelta(milliseconds=50))
    with pytest.raises(RetryableError, match="did not accept") as failure:
        write(fake, rows(2), connection=gone, bulk_flush=bounds)
    assert "unreachable" in (failure.value.found or "")


def test_the_error_names_the_reason_why_the_server_refused_documents(
    fake: FakeElasticsearch,
) -> None:
    fake.treat(RequestFault.REFUSE_SOME)
    bounds = replace(QUICK, retry_timeout=timedelta(milliseconds=50))
    with pytest.raises(RetryableError) as failure:
        write(fake, rows(1), bulk_flush=bounds)
    assert failure.value.found == "es_rejected_execution_exception: the queue is full"


# --- Size limits ----------------------------------------------------------------------------------


def test_an_oversized_request_is_split_into_halves(fake: FakeElasticsearch) -> None:
    fake.max_content_length = 1000
    write(fake, rows(40, letters=100))
    assert written(fake) == list(range(40))


def test_the_writer_remembers_the_size_limit_of_the_server(fake: FakeElasticsearch) -> None:
    fake.max_content_length = 1000
    with closing(open_writer(sink_of(fake), rows(0).schema)) as writer:
        for _ in range(3):
            writer.write(rows(40, letters=100))
            writer.flush()
    refused = [len(body) for body in fake.bodies if len(body) > 1000]
    assert len(refused) == len(set(refused)) < 5
    assert len(fake.written) == 120


def test_an_oversized_document_is_a_bad_record(fake: FakeElasticsearch) -> None:
    fake.max_content_length = 1000
    batch = pa.record_batch({"seq": [0, 1, 2], "text": ["a", "x" * 1000, "b"]})
    write(fake, batch, policy=RecordPolicy.skip(max_records=1))
    assert written(fake) == [0, 2]


def test_documents_written_before_a_failure_are_not_resent(fake: FakeElasticsearch) -> None:
    """After the writer splits an oversized request, it resends only the half that failed."""
    fake.answers = [Answer(413), lambda data: data, Answer(503, {"error": BUSY})]
    write(fake, rows(4))
    assert written(fake) == [0, 1, 2, 3]


def test_an_oversized_document_is_reported_once_even_if_another_one_is_retried(
    fake: FakeElasticsearch,
) -> None:
    fake.answers = [Answer(413), Answer(413), Answer(503, {"error": BUSY})]
    rejected = sink_writing.write(
        sink_of(fake), pa.Table.from_batches([rows(2)]), policy=RecordPolicy.skip()
    )
    assert rejected == 1
    assert written(fake) == [1]


# --- Permanent errors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error", "option"),
    [
        (Answer(401, {"error": {"type": "security_exception"}}), ElasticsearchAuthenticationError,
         "username"),
        (Answer(403, {"error": {"type": "security_exception"}}), ElasticsearchAuthorizationError,
         "username"),
        (Answer(400, {"error": {"type": "illegal_argument_exception"}}), ElasticsearchRequestError,
         None),
        (Answer(400, {"error": {"type": "media_type_header_exception"}}),
         ElasticsearchVersionError, "hosts"),
        (Answer(406), ElasticsearchVersionError, "hosts"),
        (Answer(200, {"errors": False, "items": []}, headers={"x-elastic-product": "Other"}),
         ElasticsearchVersionError, "hosts"),
        (Answer(305, headers={"location": "http://other.example/?token=1"}),
         ElasticsearchRequestError, "hosts"),
    ],
    ids=["401", "403", "400", "media type", "406", "another product", "305"],
)  # fmt: skip
def test_an_error_that_a_retry_cannot_fix_ends_the_attempt(
    fake: FakeElasticsearch, answer: Answer, error: type[ConnectorError], option: str | None
) -> None:
    fake.answers = [answer]
    with pytest.raises(error) as failure:
        write(fake, rows(2))
    assert failure.value.option == option
    assert len(fake.bodies) == 1


def test_a_missing_write_privilege_ends_the_attempt(
    fake: FakeElasticsearch,
) -> None:
    fake.answers = [item(403, "security_exception", "index")]
    connection = ElasticsearchConnection(fake.url, api_key="id:key")
    with pytest.raises(ElasticsearchAuthorizationError) as failure:
        write(fake, rows(1), connection=connection)
    assert failure.value.option == "api-key"


def test_a_bad_document_is_a_bad_record_and_its_value_is_not_shown(fake: FakeElasticsearch) -> None:
    fake.never = {1}
    with pytest.raises(BadRecordError) as failure:
        write(fake, rows(3))
    assert "document_parsing_exception: failed to parse field [seq]" in str(failure.value)
    assert "canary-value" not in str(failure.value)
    assert json.loads(failure.value.raw or b"")["seq"] == 1


def refused_by(name: str, reason: str, *, status: int = 400) -> Answer:
    result = {"status": status, "error": {"type": name, "reason": reason, "index": "rows"}}
    return Answer(200, {"errors": True, "items": [{"index": result}]})


def test_rows_for_a_closed_index_wait_and_are_not_bad_records(fake: FakeElasticsearch) -> None:
    fake.answers = [refused_by("index_closed_exception", "closed")]
    write(fake, rows(1), policy=RecordPolicy.skip(max_records=0))
    assert written(fake) == [0]


def test_the_error_of_an_index_that_stays_closed_names_it(fake: FakeElasticsearch) -> None:
    fake.answers = [refused_by("index_closed_exception", "closed")] * 1000
    bounds = replace(QUICK, retry_timeout=timedelta(milliseconds=50))
    with pytest.raises(RetryableError) as failure:
        write(fake, rows(1), policy=RecordPolicy.skip(), bulk_flush=bounds)
    assert failure.value.found == "index_closed_exception: closed [rows]"


@pytest.mark.parametrize(
    ("name", "reason", "option"),
    [
        ("index_not_found_exception", "no such index [rows]", "index"),
        ("invalid_index_name_exception", "Invalid index name [Rows]", "index"),
        ("illegal_argument_exception", "pipeline with id [a] does not exist", "ingest-pipeline"),
        ("illegal_argument_exception", "no write index is defined for alias [rows].", "index"),
        (
            "illegal_argument_exception",
            "only write ops with an op_type of create are allowed in data streams",
            "sink.operation",
        ),
    ],
)
def test_an_error_that_no_document_causes_ends_the_attempt(
    fake: FakeElasticsearch, name: str, reason: str, option: str
) -> None:
    fake.answers = [refused_by(name, reason)]
    with pytest.raises(ElasticsearchRequestError) as failure:
        write(fake, rows(1), policy=RecordPolicy.skip())
    assert failure.value.option == option


def test_a_row_with_an_invalid_index_name_is_a_bad_record(fake: FakeElasticsearch) -> None:
    fake.answers = [refused_by("invalid_index_name_exception", "Invalid index name [a b]")]
    batch = pa.table({"seq": [0], "to": ["a b"]})
    sink = ElasticsearchSink(fake.url, "{to}", bulk_flush=QUICK)
    assert sink_writing.write(sink, batch, policy=RecordPolicy.skip()) == 1


# --- Conflicts ------------------------------------------------------------------------------------


def item(status: int, name: str, action: str) -> Answer:
    result = {"status": status, "error": {"type": name, "reason": "because"}}
    return Answer(200, {"errors": True, "items": [{action: result}]})


@pytest.mark.parametrize(
    ("settings", "action", "metric"),
    [
        ({"operation": "create"}, "create", ALREADY_WRITTEN_METRIC),
        ({"version_column": "seq"}, "index", STALE_METRIC),
    ],
)
def test_conflicts_that_change_nothing_are_counted(
    fake: FakeElasticsearch, settings: dict[str, Any], action: str, metric: str
) -> None:
    fake.answers = [item(409, "version_conflict_engine_exception", action)]
    metrics = MetricGroup()
    sink = sink_of(fake, id_columns=["seq"], **settings)
    sink_writing.write(sink, pa.Table.from_batches([rows(1)]), metrics=metrics)
    assert metrics.counters[metric] == 1
    assert len(fake.bodies) == 1


def test_an_update_that_conflicts_with_another_one_is_retried(fake: FakeElasticsearch) -> None:
    fake.answers = [item(409, "version_conflict_engine_exception", "update")]
    write(fake, rows(1), operation="upsert", id_columns=["seq"])
    assert len(fake.bodies) == 2
