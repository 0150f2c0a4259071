# SPDX-License-Identifier: Apache-2.0
"""Tests that the source reads documents like the server itself, or reports bad records."""

from __future__ import annotations

import itertools
import json
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from documents_as_the_server_reads_them import Index, differences, indices
from hypothesis import HealthCheck, Phase, given, settings

from connector_elasticsearch import ElasticsearchSource, ElasticsearchTable
from connector_elasticsearch.source.pages import PageDecoder, Piece
from connector_elasticsearch.source.searcher import Searcher
from connector_elasticsearch.source.split import SliceSplit
from connector_elasticsearch.testing import ElasticsearchServer
from connectors_core.errors import BadRecordError, ConfigurationError
from connectors_core.lookup import FunctionContext, LookupFunctionProvider
from connectors_core.source import FieldPath
from connectors_core.table import LookupContext

pytestmark = pytest.mark.line("4.3")  # these tests use the newer client, but not Spark

_numbers = itertools.count()
_HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


def check(server: ElasticsearchServer, index: Index) -> None:
    found = differences(server, f"documents-{next(_numbers)}", index)
    assert not found, "\n".join(found)


@settings(
    max_examples=8,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=_HEALTH,
)
@given(index=indices(documents=25))
def test_documents_are_read_as_the_server_reads_them(
    server: ElasticsearchServer, index: Index
) -> None:
    check(server, index)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=400, suppress_health_check=_HEALTH)
@given(index=indices(documents=25))
def test_random_documents_are_read_as_the_server_reads_them(
    server: ElasticsearchServer, index: Index
) -> None:
    check(server, index)


STRUCTS = "number BIGINT, host STRUCT<name: STRING, port: INT>, place STRUCT<lat: DOUBLE>"
NOT_OBJECTS: list[dict[str, Any]] = [
    {"host": "text"},
    {"place": "POINT (1 2)"},
    {"place": [1.5, 2.5]},
    {"place": "1.5,2.5"},
]


def pieces_of(source: ElasticsearchSource, *needed: FieldPath) -> tuple[Piece, ...]:
    """Read the documents as the reader does: the needed fields at once, if they match."""
    settings = (source.apply_projection(needed) if needed else source)._settings()
    decoder = PageDecoder(settings.projected_decoder())
    with closing(Searcher(settings)) as searcher:
        opened = searcher.open()
        split = SliceSplit(
            split_id="a", point_in_time=opened.id, slice=0, slices=1, documents=opened.documents
        )
        page = searcher.page(split, decoder.decode_at_once, projected=True) if needed else None
        page = page or searcher.page(split, decoder.decode)
        searcher.close_point_in_time(opened.id)
    return page.pieces


@pytest.mark.parametrize("document", NOT_OBJECTS, ids=json.dumps)
def test_a_struct_column_over_a_value_that_is_not_an_object_is_a_bad_record(
    server: ElasticsearchServer, index: str, document: dict[str, Any]
) -> None:
    properties = {"host": {"type": "keyword"}, "place": {"type": "geo_point"}}
    server.request("PUT", f"/{index}", {"mappings": {"properties": properties}})
    server.request("POST", f"/{index}/_doc/a?refresh=true", {"number": 1} | document)
    source = ElasticsearchSource(server.url, index, schema=STRUCTS)
    for needed in ((), (("host",), ("place",)), (("host", "name"), ("place", "lat"))):
        (piece,) = pieces_of(source, *needed)
        assert piece.damaged is not None, needed
    assert not any(piece.damaged for piece in pieces_of(source, ("number",)))
    for key in ("id", "number"):  # by a request of documents, and by a search
        with pytest.raises(BadRecordError, match=r"host|place"):
            looked_up(ElasticsearchTable(server.url, index, schema=STRUCTS, id_column="id"), key)


def looked_up(table: ElasticsearchTable, key: str) -> None:
    provider = table.get_lookup_runtime_provider(LookupContext(keys=(key,), schema=table.schema()))
    assert isinstance(provider, LookupFunctionProvider)
    with closing(provider.function) as function:
        function.open(FunctionContext(uid="table"))
        function.lookup(pa.record_batch({key: ["a"] if key == "id" else [1]}))


@pytest.mark.parametrize("reader", [ElasticsearchSource, ElasticsearchTable])
@pytest.mark.parametrize("pattern", ["ho*", "host.name", "*.name"])
def test_a_field_that_the_index_keeps_out_of_the_source_is_refused_with_the_others_to_read(
    server: ElasticsearchServer,
    index: str,
    reader: type[ElasticsearchSource | ElasticsearchTable],
    pattern: str,
) -> None:
    fields = {"number": {"type": "long"}, "host": {"properties": {"name": {"type": "keyword"}}}}
    mapping = {"_source": {"excludes": [pattern]}, "properties": fields}
    server.request("PUT", f"/{index}", {"mappings": mapping})
    server.request("POST", f"/{index}/_doc?refresh=true", {"number": 1, "host": {"name": "a"}})
    (kept,) = server.documents(index)
    assert "name" not in kept["_source"].get("host", {})
    with pytest.raises(ConfigurationError, match="does not keep") as error:
        reader(server.url, index).schema()
    others = (error.value.hint or "").rpartition(": ")[2]
    assert reader(server.url, index, fields=others.split(", ")).schema().names == ["number"]
