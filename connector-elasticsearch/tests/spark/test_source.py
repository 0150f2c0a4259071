# SPDX-License-Identifier: Apache-2.0
"""Tests the source against a real server, including server failures.

The pipelines run in this process.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from connector_elasticsearch import (
    ElasticsearchConnection,
    ElasticsearchRetryableError,
    ElasticsearchSource,
    PointInTimeLostError,
)
from connector_elasticsearch.client.reachability import check_reachable
from connector_elasticsearch.source.pages import Page, PageDecoder
from connector_elasticsearch.source.reader import SliceSplitReader
from connector_elasticsearch.testing import ElasticsearchServer, ElasticsearchServerError
from connectors_core.errors import BadRecordError, ConfigurationError
from connectors_core.records import RecordPolicy
from connectors_core.source import FieldPath, ReadLimits
from connectors_core.testing import (
    DirectorySink,
    Fault,
    FaultAction,
    FaultInjected,
    FaultPoint,
    LocalPipeline,
    injected,
)
from connectors_core.testing.servers import FaultyNetwork

pytestmark = pytest.mark.line("3.5")  # these tests do not use Spark
MAPPING = {
    "properties": {
        "number": {"type": "long"},
        "name": {"type": "keyword"},
        "day": {"type": "date", "format": "dd.MM.yyyy"},
        "aircraft": {"properties": {"maker": {"type": "keyword"}, "seats": {"type": "short"}}},
        "tags": {"type": "keyword"},
    }
}


def fill(server: ElasticsearchServer, index: str, documents: int, *, shards: int = 1) -> None:
    """Create an index with numbered documents."""
    settings = {"number_of_shards": shards, "number_of_replicas": 0}
    server.request("PUT", f"/{index}", {"settings": settings, "mappings": MAPPING})
    if documents:
        add(server, index, range(documents))


def add(server: ElasticsearchServer, index: str, numbers: Sequence[int]) -> None:
    lines = []
    for number in numbers:
        document = {
            "number": number,
            "name": f"N{number:05}",
            "day": "02.01.2013",
            "aircraft": {"maker": "BOEING", "seats": number % 400},
            "tags": ["new"],
        }
        lines += [{"index": {"_id": str(number)}}, document]
    body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    answer = server.request("POST", f"/{index}/_bulk?refresh=true", body)
    assert not answer["errors"]


def pipeline(source: ElasticsearchSource, folder: Path, **settings: Any) -> LocalPipeline:
    made = LocalPipeline("reading", checkpoint_location=str(folder / "checkpoint"))
    rows = made.from_source(source, uid="index", **settings)
    made.sink_to(rows, DirectorySink(folder / "out"), uid="out")
    return made


def read(source: ElasticsearchSource, folder: Path, **settings: Any) -> list[dict[str, Any]]:
    """Read all rows of a source."""
    with pipeline(source, folder, **settings) as running:
        running.run(timeout=120)
    return DirectorySink(folder / "out").read().to_pylist()


def numbers(rows: Sequence[dict[str, Any]]) -> list[int]:
    return sorted(row["number"] for row in rows)


def contexts(server: ElasticsearchServer) -> int:
    """Return the number of open search contexts. Each point in time has one per shard."""
    (node,) = server.request("GET", "/_nodes/stats/indices/search")["nodes"].values()
    found: int = node["indices"]["search"]["open_contexts"]
    return found


@pytest.mark.parametrize("slices", [1, 2, 5])
def test_slices_return_each_document_once(
    server: ElasticsearchServer, index: str, tmp_path: Path, slices: int
) -> None:
    fill(server, index, 503, shards=2)
    source = ElasticsearchSource(
        server.url, index, array_fields=["tags"], slices=slices, page_size=50
    )
    before = contexts(server)
    rows = read(source, tmp_path, limits=ReadLimits(rows=97))
    assert numbers(rows) == list(range(503))
    assert next(row for row in rows if row["number"] == 401) == {
        "aircraft": {"maker": "BOEING", "seats": 1},
        "day": datetime(2013, 1, 2, tzinfo=UTC),
        "name": "N00401",
        "number": 401,
        "tags": ["new"],
    }
    assert contexts(server) == before, "the point in time was not closed"


def test_documents_written_after_the_start_are_not_read(
    server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    fill(server, index, 200)
    source = ElasticsearchSource(server.url, index, fields=["number"], page_size=10)
    limits = ReadLimits(rows=20)
    fault = Fault(FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, nth=2)
    with injected(fault), pytest.raises(FaultInjected):
        read(source, tmp_path, limits=limits)
    add(server, index, range(200, 300))
    for number in range(0, 200, 3):
        server.request("DELETE", f"/{index}/_doc/{number}")
    server.request("POST", f"/{index}/_refresh")
    assert numbers(read(source, tmp_path, limits=limits)) == list(range(200))


def test_only_the_requested_documents_and_fields_are_read(
    server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    fill(server, f"{index}-1", 50)
    fill(server, f"{index}-2", 50)
    source = ElasticsearchSource(
        server.url,
        f"{index}-*",
        query={"range": {"number": {"gte": 47}}},
        fields=["number", "aircraft.maker"],
        metadata_columns={"_index": "index", "_id": "id", "_version": "version"},
    )
    rows = read(source, tmp_path)
    assert sorted(rows, key=lambda row: (row["index"], row["number"])) == [
        {
            "aircraft": {"maker": "BOEING"},
            "number": number,
            "index": f"{index}-{part}",
            "id": str(number),
            "version": 1,
        }
        for part in (1, 2)
        for number in (47, 48, 49)
    ]


@pytest.mark.parametrize("fields", [(), ("aircraft.maker",)])
def test_a_document_can_have_field_names_with_dots(
    server: ElasticsearchServer, index: str, tmp_path: Path, fields: Sequence[str]
) -> None:
    fill(server, index, 0)
    lines = [{"aircraft": {"maker": "EMBRAER"}}, {"aircraft.maker": "EMBRAER"}]
    for line in lines:
        server.request("POST", f"/{index}/_doc?refresh=true", line)
    rows = read(ElasticsearchSource(server.url, index, fields=fields), tmp_path)
    assert [row["aircraft"]["maker"] for row in rows] == ["EMBRAER", "EMBRAER"]


def test_the_record_policy_applies_to_bad_documents(
    server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    day = {"type": "date", "format": "dd.MM.yyyy"}
    legs = {"type": "nested", "properties": {"day": day}}
    properties = {"name": {"type": "keyword"}, "days": day, "legs": legs}
    server.request("PUT", f"/{index}", {"mappings": {"properties": properties}})
    documents = [
        b'{"name":"good","days":["02.01.2013",null],"legs":[{},{"day":"03.01.2013"}]}',
        b'{"name":"\\ud800"}',
        b'{"name":["too","many"]}',
        b'{"name":"last","legs":{"day":"01.01.2013"}}',
    ]
    lines = b"".join(b'{"index":{}}\n%s\n' % document for document in documents)
    assert not server.request("POST", f"/{index}/_bulk?refresh=true", lines)["errors"]
    source = ElasticsearchSource(server.url, index, array_fields=["days"])
    rows = read(source, tmp_path, record_policy=RecordPolicy.skip(max_records=2))
    new_year, *others = (datetime(2013, 1, number, tzinfo=UTC) for number in (1, 2, 3))
    assert sorted(rows, key=lambda row: row["name"]) == [
        {"name": "good", "days": [others[0], None], "legs": [{"day": None}, {"day": others[1]}]},
        {"name": "last", "days": None, "legs": [{"day": new_year}]},
    ]
    with pytest.raises(BadRecordError):
        read(source, tmp_path / "failing")


def test_a_limit_applies_to_the_whole_source(
    server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    fill(server, index, 200, shards=3)
    source = ElasticsearchSource(server.url, index, fields=["number"], limit=57, page_size=20)
    assert len(set(numbers(read(source, tmp_path, limits=ReadLimits(rows=10))))) == 57


def test_reading_an_empty_index_ends_at_once(
    server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    fill(server, index, 0)
    assert read(ElasticsearchSource(server.url, index), tmp_path) == []


def interrupted(source: ElasticsearchSource, folder: Path) -> None:
    """Read some rows, and then fail as in a crash."""
    fault = Fault(FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, nth=2)
    with injected(fault), pytest.raises(FaultInjected):
        read(source, folder, limits=ReadLimits(rows=30))


def test_a_lost_point_in_time_is_an_error_that_names_the_options(
    server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    fill(server, index, 200)
    source = ElasticsearchSource(server.url, index, page_size=10, keep_alive=timedelta(minutes=1))
    interrupted(source, tmp_path)
    server.kill()
    server.start()
    with pytest.raises(PointInTimeLostError, match=r"sort_field") as error:
        read(source, tmp_path, limits=ReadLimits(rows=30))
    assert error.value.option == "source.keep-alive"


@pytest.mark.parametrize("field", ["number", "name"])
def test_reading_with_a_sort_field_resumes_in_a_new_point_in_time(
    server: ElasticsearchServer, index: str, tmp_path: Path, field: str
) -> None:
    fill(server, index, 200, shards=2)
    source = ElasticsearchSource(server.url, index, page_size=10, sort_field=field)
    interrupted(source, tmp_path)
    server.kill()
    server.start()
    assert numbers(read(source, tmp_path, limits=ReadLimits(rows=30))) == list(range(200))


def test_a_sort_field_without_a_stable_order_is_refused(
    server: ElasticsearchServer, index: str
) -> None:
    fill(server, index, 1)
    with pytest.raises(ConfigurationError, match="sorted by this field") as error:
        ElasticsearchSource(server.url, index, sort_field="aircraft").schema()
    assert error.value.option == "source.sort-field"


def test_the_error_of_a_missing_index_names_it(server: ElasticsearchServer) -> None:
    with pytest.raises(ConfigurationError, match="no-such-index"):
        ElasticsearchSource(server.url, "no-such-index").schema()


def test_the_connection_check_accepts_a_running_server(server: ElasticsearchServer) -> None:
    check_reachable(ElasticsearchConnection(server.url), 20)


def test_reading_resumes_after_the_server_is_temporarily_unavailable(
    server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    fill(server, index, 2000, shards=2)
    with FaultyNetwork() as network:
        network.forward_to(server.port)
        source = ElasticsearchSource(f"http://{network.address}", index, page_size=20)
        with pipeline(source, tmp_path, limits=ReadLimits(rows=100)) as running:
            network.cut_after(50_000)
            running.start()
            while not network.cuts:
                assert not running.await_termination(0.05)
            network.refuse()
            assert not running.await_termination(1)
            network.restore()
            assert running.await_termination(120)
    assert numbers(DirectorySink(tmp_path / "out").read().to_pylist()) == list(range(2000))


def test_a_server_that_stays_unavailable_is_an_error(
    server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    fill(server, index, 10)
    with FaultyNetwork() as network:
        network.forward_to(server.port)
        source = ElasticsearchSource(
            f"http://{network.address}", index, retry_timeout=timedelta(seconds=0.5)
        )
        running = pipeline(source, tmp_path)
        network.refuse()
        with running, pytest.raises(ElasticsearchRetryableError, match="unreachable"):
            running.run(timeout=60)


def test_reading_the_mapping_is_retried_until_the_server_is_available(
    server: ElasticsearchServer, index: str
) -> None:
    fill(server, index, 1)
    with FaultyNetwork() as network:
        network.forward_to(server.port)
        network.refuse()
        source = ElasticsearchSource(f"http://{network.address}", index)
        restoring = threading.Timer(0.5, network.restore)
        restoring.start()
        assert "number" in source.schema().names
        restoring.join()


# --- pushed to the server -------------------------------------------------------------------------

ODD_DOCUMENTS = (
    b"{}",
    b'{"aircraft":{}}',
    b'{"aircraft":null}',
    b'{"aircraft":{"seats":3}}',
    b'{"aircraft":{"unknown":{"seats":3}}}',
    b'{"aircraft":[{"maker":"AIRBUS"}]}',
    b'{"aircraft.maker":"EMBRAER"}',
    b'{"aircraft.seats":"7"}',
    b'{"name":1.10,"number":5.7}',
    b'{"name":"\\u00e9\\n","number":"5","tags":["a",null]}',
    b'{"number":9007199254740993,"tags":[]}',
    b'{"number":9.007199254740993e15,"name":true}',
    b'{"unknown":[{"name":1.10}],"day":"03.01.2013"}',
)
PROJECTIONS: tuple[tuple[FieldPath, ...], ...] = (
    (("number",),),
    (("name",),),
    (("aircraft",),),
    (("aircraft", "maker"),),
    (("aircraft", "seats"), ("number",)),
    (("day",), ("tags",)),
    (("id",),),
)


@pytest.mark.parametrize("page_size", [1, 100])
def test_a_projection_returns_the_same_values_of_all_documents(
    server: ElasticsearchServer,
    index: str,
    tmp_path: Path,
    page_size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The reader tries it with each page, although one could not be decoded.
    always = property(lambda reader: True, lambda reader, value: None)
    monkeypatch.setattr(SliceSplitReader, "_projects", always, raising=False)
    fill(server, index, 0)
    lines = [
        b'{"index":{"_id":"%d"}}\n%s\n' % (number, document)
        for number, document in enumerate(ODD_DOCUMENTS)
    ]
    answer = server.request("POST", f"/{index}/_bulk?refresh=true", b"".join(lines))
    assert not answer["errors"]
    source = ElasticsearchSource(
        server.url,
        index,
        array_fields=["tags"],
        metadata_columns={"_id": "id"},
        slices=1,
        page_size=page_size,
    )
    whole = read(source, tmp_path / "whole")
    assert len(whole) == len(ODD_DOCUMENTS)
    for number, paths in enumerate(PROJECTIONS):
        projected = read(source.apply_projection(paths), tmp_path / str(number))
        assert [[_at(row, path) for path in paths] for row in projected] == [
            [_at(row, path) for path in paths] for row in whole
        ], paths


@pytest.mark.parametrize("document", [b'{"name":"\\ud800"}', b'{"name":["too","many"]}'])
def test_a_projection_finds_a_bad_value_in_its_columns(
    server: ElasticsearchServer, index: str, tmp_path: Path, document: bytes
) -> None:
    fill(server, index, 1)
    server.request("POST", f"/{index}/_doc?refresh=true", document)
    source = ElasticsearchSource(server.url, index)
    with pytest.raises(BadRecordError):
        read(source.apply_projection([("name",)]), tmp_path)
    assert len(read(source.apply_projection([("number",)]), tmp_path / "other")) == 2


@pytest.mark.parametrize(
    ("paths", "sent"),
    [
        ((("number",), ("aircraft", "seats")), {"number", "aircraft", "maker", "seats"}),
        ((("tags",),), {"tags"}),
        ((("id",),), set()),
    ],
)
def test_the_server_sends_only_the_needed_fields_and_no_more_documents_than_the_limit(
    server: ElasticsearchServer,
    index: str,
    tmp_path: Path,
    paths: Sequence[FieldPath],
    sent: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(server, index, 20)
    bodies: list[bytes] = []
    decode = PageDecoder.decode_at_once

    def decoded(decoder: PageDecoder, body: bytes) -> Page | None:
        bodies.append(body)
        return decode(decoder, body)

    monkeypatch.setattr(PageDecoder, "decode_at_once", decoded)
    source = ElasticsearchSource(
        server.url, index, array_fields=["tags"], metadata_columns={"_id": "id"}, slices=1
    )
    assert len(read(source.apply_projection(paths).apply_limit(8), tmp_path)) == 20
    fields = {"number", "name", "day", "aircraft", "maker", "seats", "tags"}
    assert [body.count(b'"_id":') for body in bodies] == [8, 8, 4]
    for body in bodies:
        assert {name for name in fields if f'"{name}":'.encode() in body} == sent


def _at(row: Any, path: FieldPath) -> Any:
    for name in path:
        row = None if row is None else row[name]
    return row


def test_the_page_names_the_field_types_that_this_server_lacks(
    server: ElasticsearchServer, index: str
) -> None:
    page = Path(__file__).parents[2].joinpath("docs", "source.md").read_text(encoding="utf-8")
    table = page.partition("| Mapping | Column |")[2].partition("\n\nAny Elasticsearch")[0]
    of_table = set(re.findall("`(.*?)`", table)) - {"alias"}  # the field of another
    untested = re.findall("`(.*?)`", table.partition("no modules for")[2])
    lacking = []
    for number, kind in enumerate(sorted(of_table)):
        mappings = {"properties": {"field": {"type": kind}}}
        try:
            server.request("PUT", f"/{index}-{number}", {"mappings": mappings})
            server.request("DELETE", f"/{index}-{number}")
        except ElasticsearchServerError:
            lacking.append(kind)
    assert sorted(untested) == lacking
