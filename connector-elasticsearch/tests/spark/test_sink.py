# SPDX-License-Identifier: Apache-2.0
"""Tests the sink against a real server, including server failures.

The writers run in this process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sink_writing import QUICK, open_writer, write

from connector_elasticsearch import ElasticsearchRequestError, ElasticsearchSink
from connector_elasticsearch.sink.writer import ALREADY_WRITTEN_METRIC, STALE_METRIC
from connector_elasticsearch.testing import ElasticsearchServer
from connector_elasticsearch.testing.plugins import Plugin
from connectors_core.errors import BadRecordError, RetryableError
from connectors_core.metrics import MetricGroup, SinkMetric
from connectors_core.records import RecordPolicy

pytestmark = pytest.mark.line("4.3")  # these tests use the newer client, but not Spark

MAX_CONTENT = 1 << 20
SCRIPTS = Plugin("update-scripts", Path(__file__).parents[1] / "update_scripts")
MAP = pa.map_(pa.string(), pa.int64())
STRUCT = pa.struct([("known", pa.int64())])


@pytest.fixture(scope="module")
def server() -> Iterator[ElasticsearchServer]:
    with ElasticsearchServer(settings={"http.max_content_length": f"{MAX_CONTENT}b"}) as server:
        yield server


@pytest.fixture
def index(server: ElasticsearchServer, request: pytest.FixtureRequest) -> str:
    """Create an empty index for numbers, and name it after the test."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name).lower()
    create(server, name)
    return name


def create(server: ElasticsearchServer, index: str) -> None:
    properties = {"id": {"type": "keyword"}, "n": {"type": "long"}}
    settings = {"number_of_replicas": 0}
    server.request(
        "PUT", f"/{index}", {"settings": settings, "mappings": {"properties": properties}}
    )


def numbered(*numbers: Any, ids: list[str] | None = None, **columns: Any) -> pa.Table:
    names = ids or [f"d{number}" for number in numbers]
    return pa.table({"id": names, "n": pa.array(numbers), **columns})


def found(server: ElasticsearchServer, index: str) -> dict[str, Any]:
    """Return the numbers of the documents by their IDs."""
    return {hit["_id"]: hit["_source"]["n"] for hit in server.documents(index)}


def sink_of(server: ElasticsearchServer, index: str, **settings: Any) -> ElasticsearchSink:
    given = {"id_columns": ["id"], "bulk_flush": QUICK} | settings
    if not given["id_columns"]:
        del given["id_columns"]  # without the option, the server assigns IDs
    return ElasticsearchSink(server.url, index, **given)


# --- Operations -----------------------------------------------------------------------------------


def test_rows_with_ids_replace_themselves_when_they_are_rewritten(
    server: ElasticsearchServer, index: str
) -> None:
    for _ in range(2):
        write(sink_of(server, index), numbered(1, 2, 3))
    assert found(server, index) == {"d1": 1, "d2": 2, "d3": 3}


def test_rows_without_ids_are_duplicated_when_they_are_rewritten(
    server: ElasticsearchServer, index: str
) -> None:
    for _ in range(2):
        write(sink_of(server, index, id_columns=[]), numbered(1, 2, 3))
    assert sorted(found(server, index).values()) == [1, 1, 2, 2, 3, 3]


@pytest.fixture(scope="module")
def scripting() -> Iterator[ElasticsearchServer]:
    """Start a server that runs the script of updates."""
    with ElasticsearchServer(plugins=[SCRIPTS]) as server:
        yield server


def objects(*keys: dict[str, int], **columns: Any) -> pa.Table:
    """Return rows with the ids d0, d1, ... and the same values as a map and as a struct."""
    ids = [f"d{number}" for number in range(len(keys))]
    maps = pa.array([list(each.items()) for each in keys], MAP)
    structs = pa.array([{"known": each.get("known")} for each in keys], STRUCT)
    return pa.table({"id": ids, "map": maps, "struct": structs, **columns})


@pytest.mark.parametrize("operation", ["update", "upsert"])
@pytest.mark.parametrize("merges", [False, True])
def test_a_row_replaces_its_maps_and_structs_unless_they_are_merged(
    scripting: ElasticsearchServer, operation: str, merges: bool
) -> None:
    index = f"objects-{operation}-{merges}".lower()
    before = {"n": 7, "map": {"gone": 1, "known": 2}, "struct": {"other": 3, "known": 4}}
    scripting.request("PUT", f"/{index}/_doc/d0", before)
    sink = sink_of(scripting, index, operation=operation, merge_objects=merges)
    write(sink, objects({"known": 5}))
    (document,) = (each["_source"] for each in scripting.documents(index))
    kept: tuple[dict[str, int], ...] = ({"gone": 1}, {"other": 3}) if merges else ({}, {})
    assert document == {
        "n": 7, "id": "d0", "map": {**kept[0], "known": 5}, "struct": {**kept[1], "known": 5}
    }  # fmt: skip


def test_an_upsert_of_maps_creates_updates_and_deletes_documents(
    scripting: ElasticsearchServer,
) -> None:
    sink = sink_of(scripting, "changes", operation="upsert", ignore_null_fields=True)
    write(sink, objects({"a": 1}, {"b": 2}, {"c": 3}, n=[1, 2, 3]))
    write(sink, objects({"x": 4}, {}, {}, n=[None, 5, 6], _row_kind=["+U", "+U", "-D"]))
    rows = {each["_id"]: each["_source"] for each in scripting.documents("changes")}
    assert {name: (row["map"], row["n"]) for name, row in rows.items()} == {
        "d0": ({"x": 4}, 1),  # a null that is omitted leaves the field unchanged
        "d1": ({}, 5),
    }


def test_a_server_without_scripts_fails_the_sink_and_names_the_option(
    server: ElasticsearchServer, index: str
) -> None:
    sink = sink_of(server, index, operation="upsert")
    with pytest.raises(ElasticsearchRequestError, match="setting of the sink") as error:
        write(sink, objects({"a": 1}), policy=RecordPolicy.skip())
    assert error.value.option == "sink.merge-objects"
    write(sink_of(server, index, operation="upsert", merge_objects=True), objects({"a": 1}))
    assert len(server.documents(index)) == 1


def test_create_keeps_existing_documents_and_counts_them(
    server: ElasticsearchServer, index: str
) -> None:
    metrics = MetricGroup()
    sink = sink_of(server, index, operation="create")
    write(sink, numbered(1, 2))
    write(sink, numbered(10, 3, ids=["d1", "d3"]), metrics=metrics)
    assert found(server, index) == {"d1": 1, "d2": 2, "d3": 3}
    assert metrics.counters[ALREADY_WRITTEN_METRIC] == 1


def test_an_older_version_does_not_replace_a_newer_one(
    server: ElasticsearchServer, index: str
) -> None:
    sink = sink_of(server, index, version_column="version", exclude_columns=["version"])
    metrics = MetricGroup()
    write(sink, numbered(5, 5, ids=["a", "b"], version=[5, 5]))
    write(sink, numbered(4, 6, 50, ids=["a", "b", "a"], version=[4, 6, 5]), metrics=metrics)
    assert found(server, index) == {"a": 50, "b": 6}  # an equal version replaces the document
    assert metrics.counters[STALE_METRIC] == 1
    external = sink_of(server, index, version_column="version", version_type="external")
    write(external, numbered(51, ids=["a"], version=[5]), metrics=metrics)
    assert found(server, index)["a"] == 50
    assert metrics.counters[STALE_METRIC] == 2


def test_a_deletion_with_an_older_version_deletes_nothing(
    server: ElasticsearchServer, index: str
) -> None:
    sink = sink_of(server, index, version_column="version")
    write(sink, numbered(5, ids=["a"], version=[5]))
    write(sink, numbered(4, ids=["a"], version=[4], _row_kind=["-D"]))
    assert found(server, index) == {"a": 5}


def test_a_changelog_leaves_the_last_state_of_each_row(
    server: ElasticsearchServer, index: str
) -> None:
    """Rows with the same ID keep their order, even within one batch."""
    kinds = ["+I", "+I", "-U", "+U", "-D", "+I", "-D"]
    rows = numbered(1, 2, 1, 10, 2, 3, 4, ids=list("abaabcx"), _row_kind=kinds)
    write(sink_of(server, index), rows)
    assert found(server, index) == {"a": 10, "c": 3}


def test_an_update_changes_only_the_fields_of_the_row(
    server: ElasticsearchServer, index: str
) -> None:
    write(sink_of(server, index), numbered(1, 2, more=["x", "y"]))
    changed = pa.table({"id": ["d1", "d2", "d3"], "n": pa.array([10, None, 30])})
    skipped = write(
        sink_of(server, index, operation="update", ignore_null_fields=True),
        changed,
        policy=RecordPolicy.skip(),
    )
    assert skipped == 1  # d3 does not exist
    assert found(server, index) == {"d1": 10, "d2": 2}
    write(sink_of(server, index, operation="upsert"), changed.slice(2))
    assert found(server, index)["d3"] == 30
    assert {hit["_source"].get("more") for hit in server.documents(index)} == {"x", "y", None}


def test_columns_and_dates_name_the_index(server: ElasticsearchServer) -> None:
    days = [datetime(2013, 1, 31, 23, 59, tzinfo=UTC), datetime(2013, 2, 1, tzinfo=UTC)]
    rows = numbered(1, 2, to=["lax", "sfo"], at=pa.array(days, pa.timestamp("us", "UTC")))
    write(sink_of(server, "by-{to}-{at|yyyy.MM}"), rows)
    write(sink_of(server, "written-{now()|yyyy}", id_columns=[]), rows)
    assert found(server, "by-lax-2013.01") == {"d1": 1}
    assert found(server, "by-sfo-2013.02") == {"d2": 2}
    assert server.count("written-*") == 2


def test_an_alias_and_a_data_stream_accept_rows(server: ElasticsearchServer, index: str) -> None:
    server.request("PUT", f"/{index}/_alias/an-alias", {"is_write_index": True})
    write(sink_of(server, "an-alias"), numbered(1))
    assert found(server, index) == {"d1": 1}
    template = {"index_patterns": ["stream-*"], "data_stream": {}}
    server.request("PUT", "/_index_template/streams", template)
    rows = numbered(1, 2).append_column("@timestamp", pa.array([datetime.now(UTC)] * 2))
    metrics = MetricGroup()
    for _ in range(2):  # the second time, the documents already exist
        write(sink_of(server, "stream-a", operation="create"), rows, metrics=metrics)
    assert server.count("stream-a") == 2
    assert metrics.counters[ALREADY_WRITTEN_METRIC] == 2
    with pytest.raises(ElasticsearchRequestError, match="op_type of create") as failure:
        write(sink_of(server, "stream-a"), rows, policy=RecordPolicy.skip())
    assert failure.value.option == "sink.operation"


def test_the_routing_column_sets_the_routing_of_documents(
    server: ElasticsearchServer, index: str
) -> None:
    write(sink_of(server, index, routing_column="to"), numbered(1, 2, to=["lax", None]))
    routing = {hit["_id"]: hit.get("_routing") for hit in server.documents(index)}
    assert routing == {"d1": "lax", "d2": None}


def test_refresh_wait_for_makes_written_rows_visible_to_searches(
    server: ElasticsearchServer, index: str
) -> None:
    server.request("PUT", f"/{index}/_settings", {"index.refresh_interval": "100ms"})
    write(sink_of(server, index, refresh="wait-for"), numbered(1))
    answer = server.request("GET", f"/{index}/_search")
    assert answer["hits"]["total"]["value"] == 1


# --- Bad documents --------------------------------------------------------------------------------


def test_one_mapping_conflict_rejects_only_one_document(
    server: ElasticsearchServer, index: str
) -> None:
    values = [str(number) for number in range(10_000)]
    values[6789] = "canary-value"
    rows = pa.table({"id": [f"d{number}" for number in range(10_000)], "n": values})
    with pytest.raises(BadRecordError, match="document_parsing_exception") as failure:
        write(sink_of(server, index), rows)
    assert "canary-value" not in str(failure.value)
    assert write(sink_of(server, index), rows, policy=RecordPolicy.skip()) == 1
    assert server.count(index) == 9_999


def test_a_document_above_the_size_limit_of_the_server_is_a_bad_record(
    server: ElasticsearchServer, index: str
) -> None:
    """The sink writes the other documents of the oversized request in smaller requests."""
    texts = ["x" * 100_000] * 15 + ["x" * (MAX_CONTENT + 1)] + ["x" * 100_000] * 15
    rows = numbered(*range(31), text=texts)
    assert write(sink_of(server, index), rows, policy=RecordPolicy.skip()) == 1
    assert sorted(found(server, index).values()) == [n for n in range(31) if n != 15]


def test_a_row_with_an_invalid_index_name_is_a_bad_record(
    server: ElasticsearchServer,
) -> None:
    with pytest.raises(BadRecordError, match="invalid_index_name_exception"):
        write(sink_of(server, "{id}"), numbered(1, ids=["UPPER"]))


# --- Faults ---------------------------------------------------------------------------------------


def many(count: int) -> pa.Table:
    return numbered(*range(count), text=["x" * 200] * count)


def times_by_number(server: ElasticsearchServer, index: str) -> dict[int, int]:
    """Return the count of documents for each number."""
    server.request("POST", f"/{index}/_refresh")
    counting = {"size": 0, "aggs": {"all": {"terms": {"field": "n", "size": 50_000}}}}
    answer = server.request("POST", f"/{index}/_search", counting)
    return {each["key"]: each["doc_count"] for each in answer["aggregations"]["all"]["buckets"]}


@pytest.mark.parametrize("id_columns", [["id"], []], ids=["ids", "automatic ids"])
def test_no_row_is_lost_when_the_server_is_killed_during_a_bulk_request(
    server: ElasticsearchServer, index: str, id_columns: list[str]
) -> None:
    """With IDs, the sink writes each row once. Without IDs, it writes each row at least once."""
    bounds = replace(QUICK, max_batch_size=200, max_buffered_requests=1000)
    bounds = replace(bounds, retry_timeout=timedelta(minutes=2), max_backoff=timedelta(seconds=1))
    rows = many(20_000)
    metrics = MetricGroup()
    written = threading.Event()

    def killer() -> None:
        written.wait(60)
        server.kill()
        server.start()

    thread = threading.Thread(target=killer)
    thread.start()
    sink = sink_of(server, index, bulk_flush=bounds, id_columns=id_columns)
    with closing(open_writer(sink, rows.schema, metrics=metrics)) as writer:
        for number, batch in enumerate(rows.to_batches(max_chunksize=1000)):
            if number == 5:
                written.set()
            writer.write(batch)
        writer.flush()
    thread.join()
    assert metrics.counters[SinkMetric.NUM_RETRIES] > 0
    times = times_by_number(server, index)
    assert times.keys() == set(range(20_000))
    assert set(times.values()) == {1} or not id_columns


@pytest.mark.parametrize(
    "block",
    ["index.blocks.write", "index.blocks.read_only", "index.blocks.read_only_allow_delete"],
    ids=["write", "read-only", "flood"],
)
def test_the_sink_waits_for_an_index_that_blocks_writes(
    server: ElasticsearchServer, index: str, block: str
) -> None:
    server.request("PUT", f"/{index}/_settings", {block: True})
    bounds = replace(QUICK, retry_timeout=timedelta(milliseconds=300))
    with pytest.raises(RetryableError) as failure:
        write(sink_of(server, index, bulk_flush=bounds), numbered(1))
    assert f"cluster_block_exception: index [{index}] blocked by" in (failure.value.found or "")
    metrics = MetricGroup()
    sink = sink_of(server, index)
    with closing(open_writer(sink, numbered(1).schema, metrics=metrics)) as writer:
        writer.write(numbered(1).to_batches()[0])
        opening = threading.Timer(
            0.5, server.request, ("PUT", f"/{index}/_settings", {block: False})
        )
        opening.start()
        writer.flush()
        opening.join()
    assert metrics.counters[SinkMetric.NUM_RETRIES] > 0
    assert found(server, index) == {"d1": 1}


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param({"thread_pool.write.queue_size": "1"}, id="by document"),
        pytest.param(
            {"indexing_pressure.memory.limit": "256kb"}, id="by request", marks=pytest.mark.slow
        ),
    ],
)
def test_a_throttling_server_receives_all_rows(setting: dict[str, str]) -> None:
    """A full queue rejects single documents. A memory limit rejects whole requests."""
    settings = setting | {"node.processors": "1"}
    bounds = replace(QUICK, max_batch_size=500, max_in_flight_requests=8)
    bounds = replace(bounds, retry_timeout=timedelta(minutes=2), max_backoff=timedelta(seconds=1))
    metrics = MetricGroup()
    with ElasticsearchServer(settings=settings) as server:
        shards = {"number_of_shards": 8, "number_of_replicas": 0}
        server.request("PUT", "/busy", {"settings": shards})
        sink = sink_of(server, "busy", bulk_flush=bounds)
        write(sink, many(20_000), metrics=metrics)
        assert server.count("busy") == 20_000
    assert metrics.counters[SinkMetric.NUM_RETRIES] > 0


# --- Errors that no document causes ---------------------------------------------------------------


def test_a_row_with_date_math_as_its_index_name_is_not_written(
    server: ElasticsearchServer, index: str
) -> None:
    """The sink refuses date math that the server itself resolves: `<x>` names the index x."""
    names = [f"<{index}-{{now/d}}>", f"<{index}>", f"{index}-b"]
    sink = sink_of(server, "{to}", exclude_columns=["to"])
    assert write(sink, numbered(1, 2, 3, to=names), policy=RecordPolicy.skip()) == 2
    assert sorted(server.request("GET", f"/{index}*/_settings")) == [index, f"{index}-b"]
    assert found(server, index) == {}
    lines = b'{"index":{"_index":"<%s>"}}\n{"n":1}\n' % index.encode()
    server.request("POST", "/_bulk", lines)
    assert server.count(index) == 1


def test_rows_for_a_closed_index_wait_and_are_not_bad_records(
    server: ElasticsearchServer, index: str
) -> None:
    server.request("POST", f"/{index}/_close")
    sink = sink_of(server, index)
    with closing(open_writer(sink, numbered(1).schema, policy=RecordPolicy.skip())) as writer:
        writer.write(numbered(1, 2).to_batches()[0])
        flushing = threading.Thread(target=writer.flush)
        flushing.start()
        retries = writer._metrics.counters
        deadline = time.monotonic() + 20
        while not retries.get(SinkMetric.NUM_RETRIES):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        server.request("POST", f"/{index}/_open?wait_for_active_shards=1")
        flushing.join(20)
        assert not flushing.is_alive()
        assert writer._context.record_errors.summary()["skipped"] == 0
    assert found(server, index) == {"d1": 1, "d2": 2}


@pytest.mark.parametrize(
    ("name", "settings", "option"),
    [
        ("Bad Name", {}, "index"),
        ("two-indices", {}, "index"),
        ("plain", {"ingest_pipeline": "no-such-pipeline"}, "ingest-pipeline"),
    ],
)
def test_wrong_settings_are_configuration_errors_and_not_bad_records(
    server: ElasticsearchServer, index: str, name: str, settings: dict[str, str], option: str
) -> None:
    create(server, f"{index}-b")
    server.request("PUT", f"/{index}*/_alias/two-indices")
    with pytest.raises(ElasticsearchRequestError) as failure:
        write(sink_of(server, name, **settings), numbered(1), policy=RecordPolicy.skip())
    assert failure.value.option == option
