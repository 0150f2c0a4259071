# SPDX-License-Identifier: Apache-2.0
"""Tests how rows become lines of a bulk request, and which rows the sink rejects beforehand."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sink_writing import open_writer

from connector_elasticsearch import ElasticsearchSink
from connector_elasticsearch.sink.float_checks import not_finite
from connector_elasticsearch.sink.operations import document_of
from connectors_core.errors import BadRecordError, ConfigurationError
from connectors_core.records import RecordPolicy
from connectors_core.sink import EntryColumns, WriterInitContext

HOST = "http://one.example:9200"


def sink_of(**settings: Any) -> ElasticsearchSink:
    return ElasticsearchSink(HOST, **({"index": "flights"} | settings))


def context_of(rows: pa.RecordBatch, policy: RecordPolicy) -> WriterInitContext:
    writer = open_writer(sink_of(), rows.schema, policy=policy)
    try:
        return writer._context
    finally:
        writer.close()


def operations(
    rows: pa.RecordBatch, *, policy: RecordPolicy | None = None, **settings: Any
) -> EntryColumns:
    context = context_of(rows, policy or RecordPolicy.fail())
    sink = sink_of(**settings)
    sink.validate(rows.schema)
    return sink._converter.apply(rows, context)


def lines(found: EntryColumns) -> list[Any]:
    return [json.loads(line) for line in found.joined().splitlines()]


def skipped(rows: pa.RecordBatch, **settings: Any) -> list[Any]:
    """Return the remaining documents after the sink skips bad records."""
    found = operations(rows, policy=RecordPolicy.skip(), **settings)
    return [json.loads(document_of(each)) for each in found]


def test_each_row_becomes_an_action_and_a_document() -> None:
    rows = pa.record_batch({"id": ["a", "b"], "n": [1, None]})
    found = operations(rows, id_columns=["id"])
    assert found.keys == pa.array(["a", "b"])
    assert list(found) == [
        b'{"index":{"_id":"a"}}\n{"id":"a","n":1}\n',
        b'{"index":{"_id":"b"}}\n{"id":"b","n":null}\n',
    ]


def test_a_row_without_an_id_leaves_the_id_to_the_server() -> None:
    (found,) = operations(pa.record_batch({"n": [1]}), operation="create")
    assert found == b'{"create":{}}\n{"n":1}\n'


def test_an_action_has_the_values_of_its_columns() -> None:
    rows = pa.record_batch(
        {"carrier": ["UA", "B6"], "n": [1, 2], "to": ["lax", None], "v": [3, 4], "r": [7, None]}
    )
    found = operations(
        rows,
        index="flights-{carrier}",
        id_columns=["carrier", "n"],
        id_delimiter="/",
        routing_column="r",
        version_column="v",
        exclude_columns=["v", "r", "carrier"],
        ignore_null_fields=True,
    )
    version = {"version_type": "external_gte"}
    assert lines(found) == [
        {"index": {"_index": "flights-UA", "_id": "UA/1", "routing": "7", "version": 3} | version},
        {"n": 1, "to": "lax"},
        {"index": {"_index": "flights-B6", "_id": "B6/2", "version": 4} | version},
        {"n": 2},
    ]


@pytest.mark.parametrize(
    ("operation", "document"),
    [("update", {"doc": {"id": "a"}}), ("upsert", {"doc": {"id": "a"}, "doc_as_upsert": True})],
)
def test_update_and_upsert_become_update_actions(operation: str, document: dict[str, Any]) -> None:
    found = operations(pa.record_batch({"id": ["a"]}), operation=operation, id_columns=["id"])
    assert lines(found) == [{"update": {"_id": "a"}}, document]


MAP = pa.map_(pa.string(), pa.int64())
STRUCT = pa.struct([("k", pa.int64())])


@pytest.mark.parametrize("kind", [MAP, STRUCT, pa.list_(MAP)], ids=str)
@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize("operation", ["update", "upsert", "index"])
def test_an_update_of_objects_replaces_them_unless_they_are_merged(
    operation: str, merges: bool, kind: pa.DataType
) -> None:
    value: Any = {"k": 1}
    column = [value] if kind == STRUCT else [[("k", 1)]] if kind == MAP else [[[("k", 1)]]]
    rows = pa.record_batch({"id": ["a"], "m": pa.array(column, kind)})
    found = operations(rows, operation=operation, id_columns=["id"], merge_objects=merges)
    document = {"id": "a", "m": [value] if pa.types.is_list(kind) else value}
    upserts = operation == "upsert"
    if operation == "index":
        body: Any = document
    elif merges or pa.types.is_list(kind):  # the server replaces lists
        body = {"doc": document} | ({"doc_as_upsert": True} if upserts else {})
    else:
        script = {"source": "ctx._source.putAll(params.doc)", "params": {"doc": document}}
        more = {"scripted_upsert": True, "upsert": {}} if upserts else {}
        body = {"script": script} | more
    assert lines(found) == [{"update" if operation != "index" else "index": {"_id": "a"}}, body]


def test_a_changelog_becomes_index_and_delete_actions() -> None:
    kinds = ["+I", "-U", "+U", "-U", "+U", "-D"]
    values = [1.0, math.nan, 2, 2, 3, math.nan]
    rows = pa.record_batch({"id": list("abbccd"), "n": values, "_row_kind": kinds})
    found = operations(rows, id_columns=["id"])
    assert lines(found) == [
        {"index": {"_id": "a"}},
        {"id": "a", "n": 1.0},
        {"index": {"_id": "b"}},
        {"id": "b", "n": 2.0},
        {"index": {"_id": "c"}},
        {"id": "c", "n": 3.0},
        {"delete": {"_id": "d"}},
    ]
    assert document_of(found[3]) == b'{"delete":{"_id":"d"}}'


def test_an_update_without_a_new_version_of_its_document_deletes_it():
    """A condition may exclude the new version, or the id may change."""
    kinds = ["-U", "-U", "+U"]
    rows = pa.record_batch({"id": list("abc"), "_row_kind": kinds})
    assert lines(operations(rows, id_columns=["id"])) == [
        {"delete": {"_id": "a"}},
        {"delete": {"_id": "b"}},
        {"index": {"_id": "c"}},
        {"id": "c"},
    ]


@pytest.mark.parametrize(
    ("columns", "settings"),
    [
        ({"id": ["a", None, "", "x" * 513, "é" * 256, "x" * 512]}, {"id_columns": ["id"]}),
        ({"id": ["a", None, ""]}, {"index": "{id}"}),
        (
            {"id": ["a", "b", "c"], "v": [0, -1, None]},
            {"id_columns": ["id"], "version_column": "v"},
        ),
        (
            {"id": ["a", "b", "c"], "_row_kind": ["+I", "+D", None]},
            {"id_columns": ["id"]},
        ),
    ],
)
def test_rows_that_invalidate_their_request_are_bad_records(
    columns: dict[str, Any], settings: dict[str, Any]
) -> None:
    good = [document["id"] for document in skipped(pa.record_batch(columns), **settings)]
    assert good[0] == "a"
    assert all(0 < len(each.encode()) <= 512 for each in good)
    assert len(good) == (3 if len(columns["id"]) == 6 else 1)


@pytest.mark.parametrize(
    "kind",
    [
        pa.float64(),
        pa.float32(),
        pa.list_(pa.float64()),
        pa.struct([("x", pa.float64())]),
        pa.list_(pa.struct([("x", pa.list_(pa.float32()))])),
        pa.map_(pa.string(), pa.float64()),
    ],
)
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_row_with_nan_or_an_infinity_is_a_bad_record(kind: pa.DataType, number: float) -> None:
    def value(of: pa.DataType, number: float) -> Any:
        if pa.types.is_struct(of):
            return {"x": value(of.field(0).type, number)}
        if pa.types.is_map(of):
            return [("x", number)]
        return [value(of.value_type, number), None] if pa.types.is_list(of) else number

    values = [value(kind, 1.5), None, value(kind, number), value(kind, 2.5)]
    rows = pa.record_batch({"n": [0, 1, 2, 3], "v": pa.array(values, kind)})
    assert [document["n"] for document in skipped(rows)] == [0, 1, 3]
    with pytest.raises(BadRecordError, match="'v' contains NaN or an infinity") as failure:
        operations(rows)
    assert json.loads(failure.value.raw or b"")["n"] == 2


@given(
    kind=st.sampled_from(
        [pa.list_(pa.float64()), pa.large_list(pa.float64()), pa.map_(pa.string(), pa.float64())]
    ),
    rows=st.lists(
        st.one_of(
            st.none(), st.lists(st.sampled_from([1.5, math.nan, math.inf, None]), max_size=3)
        ),
        min_size=1,
        max_size=8,
    ),
    start=st.integers(0, 8),
)
def test_nan_and_infinities_are_found_in_a_slice_of_a_column(
    kind: pa.DataType, rows: list[Any], start: int
) -> None:
    def value(row: list[Any] | None) -> Any:
        if row is None or not pa.types.is_map(kind):
            return row
        return [(str(at), number) for at, number in enumerate(row)]

    column = pa.array([value(row) for row in rows], kind).slice(start)
    found = not_finite(column)
    assert found is not None
    assert found.tolist() == [
        any(number is not None and not math.isfinite(number) for number in row or ())
        for row in rows[start:]
    ]


@given(
    st.lists(
        st.tuples(
            st.text(min_size=1, max_size=20).filter(lambda text: "\ud800" not in text),
            st.one_of(st.none(), st.text(max_size=20)),
            st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_the_lines_of_a_row_contain_all_its_values(rows: list[Any]) -> None:
    names = ("id", "text", "number")
    batch = pa.record_batch(
        {
            name: pa.array([row[at] for row in rows], kind)
            for at, (name, kind) in enumerate(
                zip(names, (pa.string(), pa.string(), pa.int64()), strict=True)
            )
        }
    )
    found = operations(batch, id_columns=["id"])
    assert all(each.count(b"\n") == 2 for each in found)
    assert lines(found)[::2] == [{"index": {"_id": row[0]}} for row in rows]
    assert lines(found)[1::2] == [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.parametrize(
    ("schema", "settings", "option"),
    [
        ({"a": pa.string()}, {"id_columns": ["b"]}, "document-id.columns"),
        ({"a": pa.float64()}, {"id_columns": ["a"]}, "document-id.columns"),
        ({"a": pa.list_(pa.int64())}, {"id_columns": ["a"]}, "document-id.columns"),
        ({"a": pa.string()}, {"routing_column": "b"}, "routing.column"),
        ({"a": pa.float64()}, {"routing_column": "a"}, "routing.column"),
        ({"a": pa.string()}, {"id_columns": ["a"], "version_column": "a"}, "version.column"),
        ({"a": pa.string()}, {"exclude_columns": ["b"]}, "document.exclude-columns"),
        ({"a": pa.duration("us")}, {}, "document.exclude-columns"),
        (
            {"a.b": pa.int64(), "a": pa.list_(pa.struct({"b": pa.int64(), "c": pa.int64()}))},
            {},
            "document.exclude-columns",
        ),
        ({"a": pa.string()}, {"index": "{b}"}, "index"),
        ({"a": pa.string(), "_row_kind": pa.string()}, {}, "document-id.columns"),
        (
            {"a": pa.string(), "_row_kind": pa.string()},
            {"id_columns": ["a"], "operation": "create"},
            "sink.operation",
        ),
    ],
)
def test_a_schema_that_cannot_be_written_is_refused_when_the_pipeline_is_built(
    schema: dict[str, pa.DataType], settings: dict[str, Any], option: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        sink_of(**settings).validate(pa.schema(schema))
    assert refused.value.option == option


def test_columns_of_the_same_name_are_refused() -> None:
    schema = pa.schema([("a", pa.string()), ("a", pa.string())])
    with pytest.raises(ConfigurationError, match="same name"):
        sink_of().validate(schema)


def test_a_time_without_a_text_makes_its_row_bad() -> None:
    times = pa.array([0, 9_223_372_036_825_200_000]).view(pa.timestamp("us", "UTC"))
    assert skipped(pa.record_batch({"n": [1, 2], "at": times})) == [
        {"n": 1, "at": "1970-01-01T00:00:00.000000Z"}
    ]


def test_no_columns_of_an_id_are_refused_but_may_be_left_out() -> None:
    assert sink_of().id_columns == ()
    with pytest.raises(ConfigurationError, match="id_columns"):
        sink_of(id_columns=[])
