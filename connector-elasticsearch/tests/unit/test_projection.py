# SPDX-License-Identifier: Apache-2.0
"""Tests which fields a projection reads, and that it restores the columns' types."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector_elasticsearch.documents import DocumentDecoder, DocumentMetadata
from connector_elasticsearch.source.pages import PageDecoder
from connector_elasticsearch.source.projection import Projection
from connectors_core.source import FieldPath

pytestmark = pytest.mark.cell

INNER = pa.struct([("long", pa.int64()), ("text", pa.string())])
SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("object", pa.struct([("half", pa.float32()), ("inner", INNER)])),
        ("several", pa.list_(INNER)),
        ("strict", pa.struct([pa.field("long", pa.int64(), False), ("text", pa.string())])),
        ("price", pa.decimal128(20, 0)),
    ]
)
METADATA = ((DocumentMetadata.ID, "id"), (DocumentMetadata.VERSION, "version"))
PATHS: list[FieldPath] = [
    ("number",),
    ("object", "half"),
    ("object", "inner"),
    ("object", "inner", "text"),
    ("several",),
    ("id",),
]


def projection(*paths: FieldPath) -> Projection:
    return Projection.of(SCHEMA, METADATA, paths)


def test_only_the_needed_fields_are_requested_and_decoded() -> None:
    found = projection(("number",), ("object", "inner", "text"), ("version",))
    assert DocumentDecoder(found.read).paths == ["number", "object"]
    assert found.schema == pa.schema([SCHEMA.field("number"), SCHEMA.field("object")])
    inner = pa.struct([("text", pa.string())])
    assert found.read.field("object").type == pa.struct([("inner", inner)])
    assert found.metadata_columns == ((DocumentMetadata.VERSION, "version"),)


@pytest.mark.parametrize("column", ["several", "strict"])
def test_a_field_that_cannot_be_null_is_read_with_its_whole_column(column: str) -> None:
    found = projection((column, "text"))
    assert found.read == pa.schema([SCHEMA.field(column)])


def test_a_decimal_keeps_its_digits_because_whole_documents_are_requested() -> None:
    assert projection(("number",)).is_exact
    assert not projection(("number",), ("price",)).is_exact


TEXTS = st.none() | st.sampled_from(["", "a"])
INNERS = st.none() | st.fixed_dictionaries(
    {}, optional={"long": st.none() | st.integers(0, 9), "text": TEXTS}
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "number": st.none() | st.integers(0, 9) | st.just("7"),
        "object": st.none()
        | st.fixed_dictionaries({}, optional={"half": st.just(0.5), "inner": INNERS}),
        "several": st.none() | st.lists(INNERS, max_size=2),
        "strict": st.just({"long": 1}),
    },
)


@given(
    documents=st.lists(DOCUMENTS, min_size=1, max_size=4),
    paths=st.lists(st.sampled_from(PATHS), min_size=1, unique=True),
)
def test_projected_values_are_the_values_of_whole_documents(
    documents: list[dict[str, Any]], paths: list[FieldPath]
) -> None:
    body = page(documents)
    whole = DocumentDecoder(SCHEMA, metadata_columns=METADATA)
    chosen = projection(*paths)
    narrow = DocumentDecoder(chosen.read, metadata_columns=chosen.metadata_columns)
    (piece,) = PageDecoder(narrow).decode(body).pieces
    assert piece.batch is not None
    rows = chosen.restored(piece.batch)
    assert rows.schema.names == [
        name for name in whole.schema.names if name in {path[0] for path in paths}
    ]
    assert all(field.type == whole.schema.field(field.name).type for field in rows.schema)
    assert [[at(row, path) for path in paths] for row in rows.to_pylist()] == [
        [at(row, path) for path in paths] for row in rows_of(whole, body)
    ]


def rows_of(decoder: DocumentDecoder, body: bytes) -> list[dict[str, Any]]:
    (piece,) = PageDecoder(decoder).decode(body).pieces
    assert piece.batch is not None
    return piece.batch.to_pylist()


def page(documents: list[dict[str, Any]]) -> bytes:
    hits = [
        {"_index": "i", "_id": str(number), "_version": 1, "_source": document, "sort": [number]}
        for number, document in enumerate(documents)
    ]
    return orjson.dumps({"pit_id": "point", "hits": {"hits": hits}})


def at(row: Any, path: FieldPath) -> Any:
    for name in path:
        row = None if row is None else row[name]
    return row
