# SPDX-License-Identifier: Apache-2.0
"""Tests which documents and columns the source and the table select."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from connector_elasticsearch.documents import DocumentOptions, Layout, selection
from connector_elasticsearch.documents.source_filters import check_source
from connector_elasticsearch.lookup import ElasticsearchTable
from connector_elasticsearch.source import ElasticsearchSource
from connectors_core.errors import ConfigurationError, UnsupportedError

READERS = pytest.mark.parametrize("reader", [ElasticsearchSource, ElasticsearchTable])
HOST = "http://127.0.0.1:9"


@READERS
def test_arrays_are_declared_by_a_schema_or_an_option_but_not_both(
    reader: type[ElasticsearchSource | ElasticsearchTable],
) -> None:
    reader(HOST, "flights", array_fields=["stops"])
    with pytest.raises(ConfigurationError, match="the schema already determines") as error:
        reader(HOST, "flights", schema="n BIGINT", array_fields=["stops"])
    assert error.value.option == "array-fields"


@READERS
def test_unsupported_types_are_refused_unless_their_column_is_excluded(
    reader: type[ElasticsearchSource | ElasticsearchTable],
) -> None:
    schema = pa.schema([("n", pa.int64()), ("took", pa.duration("s"))])
    with pytest.raises(UnsupportedError, match="duration"):
        reader(HOST, "flights", schema=schema)
    reader(HOST, "flights", schema=schema, fields=["n"])


def serve(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]) -> list[str]:
    """Serve the mapping of an index with these fields; return the paths of the requests."""
    asked = []

    class Client:
        def __init__(self, connection: object) -> None:
            pass

        def request(self, method: str, path: str, **arguments: object) -> object:
            asked.append(path)
            return {"flights-2013": {"mappings": {"properties": fields}}}

        def close(self) -> None:
            pass

    monkeypatch.setattr(selection, "ElasticsearchClient", Client)
    return asked


@pytest.mark.parametrize("values", ["TIMESTAMP", "STRUCT<day: DATE>"])
def test_timestamps_of_a_map_that_only_the_server_can_parse_are_refused(
    monkeypatch: pytest.MonkeyPatch, values: str
) -> None:
    at = {"type": "date", "format": "epoch_second"}
    serve(monkeypatch, {"seen": {"properties": {"at": at}}, "other": at})

    def selected(kind: str) -> Layout:
        schema = f"seen MAP<STRING, {kind}>"
        return ElasticsearchSource(HOST, "flights", schema=schema)._documents.layout

    with pytest.raises(UnsupportedError, match="'seen'") as error:
        selected(values)
    assert error.value.found == "seen.at"
    selected("STRING")


def test_the_mapping_is_requested_once_and_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = serve(monkeypatch, {"n": {"type": "long"}})
    documents = DocumentOptions(HOST, ["flights-2013", "flights-2014"]).selection(
        timedelta(seconds=1)
    )
    layout = documents.layout
    assert documents.layout is layout
    assert pickle.loads(pickle.dumps(documents)).layout.schema == layout.schema
    assert asked == ["/flights-2013,flights-2014/_mapping"]


LAYOUT = pa.schema(
    [("secret", pa.string()), ("host", pa.struct([("name", pa.string()), ("port", pa.int32())]))]
)
FIELDS = {
    "secret": {"type": "keyword", "fields": {"text": {"type": "text"}}},
    "host": {"properties": {"name": {"type": "keyword"}, "port": {"type": "integer"}}},
}


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ({"excludes": ["secret"]}, "secret"),
        ({"excludes": "secret"}, "secret"),
        ({"excludes": ["host"]}, "host.name, host.port"),
        ({"excludes": ["host.*"]}, "host.name, host.port"),
        ({"excludes": ["*.name", "other"]}, "host.name"),
        ({"excludes": ["secret.part"]}, "secret"),
        ({"includes": ["host.name"]}, "host.port, secret"),
        ({"includes": ["host"], "excludes": ["host.p*"]}, "host.port, secret"),
        ({"excludes": ["other", "secret.text", "hos"]}, None),
        ({"includes": ["*"]}, None),
        ({"includes": ["h*", "secret"]}, None),
        ({"mode": "synthetic"}, None),
        ({"enabled": False}, None),  # the decoder refuses the first document
    ],
    ids=repr,
)
def test_a_column_that_the_source_of_documents_lacks_is_refused(
    source: dict[str, Any], missing: str | None
) -> None:
    mappings = {"whole": {"properties": FIELDS}, "cut": {"_source": source, "properties": FIELDS}}
    if missing is None:
        check_source(LAYOUT, mappings)
        return
    with pytest.raises(ConfigurationError, match="'cut' does not keep") as error:
        check_source(LAYOUT, mappings)
    assert (error.value.found, error.value.option) == (missing, "fields")


def test_a_lookup_lets_the_server_write_timestamps_of_columns_with_dots() -> None:
    moment = pa.timestamp("us", tz="UTC")
    inner = pa.struct([("moment", moment), ("day", moment)])
    schema = pa.schema([("a.moment", moment), ("o", inner), ("n", pa.int64())])
    table = ElasticsearchTable(HOST, "flights", schema=schema)
    formatted = ("a.moment", "n.moment", "o.moment")
    vars(table._documents)["layout"] = Layout(schema, formatted, {})
    assert table._rows(schema).formatted == ("a.moment", "o.moment")
    assert table._rows(schema.remove(0)).formatted == ("o.moment",)
