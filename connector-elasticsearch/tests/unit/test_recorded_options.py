# SPDX-License-Identifier: Apache-2.0
"""Tests which options of the source and the sink a restart may change."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from connector_elasticsearch import ElasticsearchSink, ElasticsearchSource
from connectors_core.sink import Sink
from connectors_core.source import Source

HOST = "http://127.0.0.1:9"
SCHEMA = pa.schema(
    [("a", pa.string()), ("b", pa.string()), ("m", pa.map_(pa.string(), pa.int64()))]
)
SINK: dict[str, Any] = {"index": "flights", "id_columns": ["a", "b"], "routing_column": "a"}
SOURCE: dict[str, Any] = {"index": "flights", "query": {"term": {"b": 1}}, "sort_field": "a"}


def recorded(part: Sink | Source[Any, Any]) -> dict[str, str]:
    """Return the recorded options as a pipeline compares them: by name, as text."""
    found = part.recorded_options(SCHEMA) if isinstance(part, Sink) else part.recorded_options()
    assert len({each.name for each in found}) == len(found)
    assert all(isinstance(each.value, str) and each.hint for each in found)
    return {each.name: each.value for each in found}


def refused(first: Sink | Source[Any, Any], second: Sink | Source[Any, Any]) -> set[str]:
    """Return the names of the options that keep the second from continuing the first."""
    before, after = recorded(first), recorded(second)
    return {name for name, value in after.items() if before.get(name, value) != value}


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"id_columns": ["b", "a"]}, {"document-id.columns of index flights"}),
        ({"id_columns": ["a"]}, {"document-id.columns of index flights"}),
        ({"id_delimiter": "/"}, {"document-id.key-delimiter of index flights"}),
        ({"routing_column": "b"}, {"routing.column of index flights"}),
        ({"routing_column": None}, {"routing.column of index flights"}),
        ({"index": "others", "id_columns": ["b"]}, set()),
        ({"operation": "upsert", "exclude_columns": ["b"], "ignore_null_fields": True}, set()),
        ({}, set()),
    ],
)
def test_a_sink_keeps_the_ids_of_an_index(changed: dict[str, Any], names: set[str]) -> None:
    first, second = (ElasticsearchSink(HOST, **(SINK | each)) for each in ({}, changed))
    assert refused(first, second) == names
    assert {name for name in refused(second, first) if "columns" in name} == {
        name for name in names if "columns" in name
    }


def test_a_sink_keeps_whether_the_server_assigns_ids() -> None:
    without, with_ids = ElasticsearchSink(HOST, "flights"), ElasticsearchSink(HOST, **SINK)
    assert refused(without, with_ids) == {"document-id.columns of index flights"}
    assert refused(with_ids, without) == {"document-id.columns of index flights"}


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"sort_field": "b"}, {"source.sort-field"}),
        ({"sort_field": None}, {"source.sort-field"}),
        ({"query": {"term": {"b": 2}}}, {"query"}),
        ({"query": None}, {"query"}),
        ({"index": ["flights", "others"]}, {"index"}),
        ({"slices": 3, "page_size": 7, "fields": ["a"]}, set()),
    ],
)
def test_a_source_keeps_the_documents_and_the_order_of_its_positions(
    changed: dict[str, Any], names: set[str]
) -> None:
    first, second = (ElasticsearchSource(HOST, **(SOURCE | each)) for each in ({}, changed))
    assert refused(first, second) == refused(second, first) == names
