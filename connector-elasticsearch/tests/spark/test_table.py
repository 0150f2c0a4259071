# SPDX-License-Identifier: Apache-2.0
"""Tests lookups by key on a real server, in this process and without Spark."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from connector_elasticsearch import (
    ElasticsearchConnection,
    ElasticsearchRequestError,
    ElasticsearchTable,
)
from connector_elasticsearch.testing import ElasticsearchServer
from connectors_core.errors import BadRecordError, ConfigurationError
from connectors_core.lookup import (
    AsyncLookupFunctionProvider,
    DefaultLookupCache,
    FunctionContext,
    LookupFunctionProvider,
    PartialCachingLookupProvider,
)
from connectors_core.table import LookupContext

pytestmark = pytest.mark.line("3.5")  # these tests do not use Spark
MOMENT = pa.timestamp("us", tz="UTC")
PLANES = {
    "properties": {
        "tailnum": {"type": "keyword"},
        "name": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
        "about": {"type": "text"},
        "seats": {"type": "short"},
        "built": {"type": "date", "format": "yyyy"},
        "engine": {"properties": {"kind": {"type": "keyword"}}},
    }
}


def fill(
    server: ElasticsearchServer,
    index: str,
    documents: Mapping[str, Mapping[str, Any]],
    *,
    refresh: bool = True,
) -> None:
    """Create an index with the documents of these IDs."""
    server.request("PUT", f"/{index}", {"mappings": PLANES})
    lines = []
    for name, document in documents.items():
        lines += [{"index": {"_id": name}}, document]
    body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    how = "true" if refresh else "false"
    assert not server.request("POST", f"/{index}/_bulk?refresh={how}", body)["errors"]


@contextmanager
def looking_up(
    table: ElasticsearchTable, keys: Sequence[str], columns: Sequence[str], *, raw: bool = False
) -> Iterator[Any]:
    """Yield a function that looks up rows of the table by columns of keys, or by a raw batch."""
    schema = pa.schema([table.schema().field(name) for name in (*keys, *columns)])
    context = LookupContext(keys=tuple(keys), schema=schema)
    provider = table.get_lookup_runtime_provider(context)

    def batch(*values: Sequence[Any]) -> pa.RecordBatch:
        arrays = [
            pa.array(column, schema.field(name).type)
            for name, column in zip(keys, values, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(keys))

    if isinstance(provider, AsyncLookupFunctionProvider):
        with asyncio.Runner() as runner:
            yield lambda *values: runner.run(
                provider.function.async_lookup(batch(*values))
            ).to_pylist()
            runner.run(provider.function.close())
        return
    assert isinstance(provider, LookupFunctionProvider)
    with closing(provider.function) as function:
        function.open(FunctionContext(uid="table"))
        if raw:
            yield function.lookup
            return
        yield lambda *values: function.lookup(batch(*values)).to_pylist()


both_ways = pytest.mark.parametrize("is_async", [False, True], ids=["waits", "async"])


@both_ways
def test_lookups_by_id_find_documents_before_searches_do(
    server: ElasticsearchServer, index: str, is_async: bool
) -> None:
    fill(server, index, {"N1": {"seats": 100}, "N2": {"seats": None}}, refresh=False)
    table = ElasticsearchTable(server.url, index, id_column="plane", asynchronous=is_async)
    with looking_up(table, ["plane"], ["seats"]) as ask:
        assert ask(["N1", "N2", "N3"]) == [
            {"plane": "N1", "seats": 100},
            {"plane": "N2", "seats": None},
        ]
        assert ask(["N3"]) == []
    with looking_up(table, ["plane"], []) as ask:
        assert ask(["N3", "N2"]) == [{"plane": "N2"}]


def test_lookups_by_id_respect_the_filter_of_an_alias(
    server: ElasticsearchServer, index: str
) -> None:
    fill(server, index, {"N1": {"seats": 100}, "N2": {"seats": 200}})
    alias = {"index": index, "alias": f"{index}-large", "filter": {"term": {"seats": 200}}}
    server.request("POST", "/_aliases", {"actions": [{"add": alias}]})
    table = ElasticsearchTable(server.url, f"{index}-large", id_column="plane")
    with looking_up(table, ["plane"], ["seats"]) as ask:
        assert ask(["N1", "N2"]) == [{"plane": "N2", "seats": 200}]


def test_lookups_by_id_find_documents_of_a_data_stream(
    server: ElasticsearchServer, index: str
) -> None:
    template = {"index_patterns": [index], "data_stream": {}, "template": {"mappings": PLANES}}
    server.request("PUT", f"/_index_template/{index}", template)
    document = {"@timestamp": "2013-01-01T00:00:00Z", "seats": 100}
    server.request("PUT", f"/{index}/_create/N1?refresh=true", document)
    table = ElasticsearchTable(server.url, index, id_column="plane")
    with looking_up(table, ["plane"], ["seats"]) as ask:
        assert ask(["N1", "N2"]) == [{"plane": "N1", "seats": 100}]


@pytest.mark.parametrize("query", [None, {"match_all": {}}])
def test_lookups_by_id_find_documents_with_a_routing_in_all_shards(
    server: ElasticsearchServer, index: str, query: Mapping[str, Any] | None
) -> None:
    mappings = PLANES if query else {**PLANES, "_routing": {"required": True}}
    settings = {"number_of_shards": 5, "number_of_replicas": 0}
    server.request("PUT", f"/{index}", {"settings": settings, "mappings": mappings})
    planes = [f"N{number}" for number in range(10)]
    for plane in planes:
        path = f"/{index}/_doc/{plane}?refresh=true&routing=of-{plane}"
        server.request("PUT", path, {"seats": 100})
    table = ElasticsearchTable(server.url, index, query=query, id_column="plane")
    with looking_up(table, ["plane"], []) as ask:
        assert sorted(row["plane"] for row in ask(planes)) == planes


@pytest.mark.parametrize("end", ["/_close", ""])
def test_lookups_by_id_fail_at_once_if_the_index_is_closed_or_deleted(
    server: ElasticsearchServer, index: str, end: str
) -> None:
    fill(server, index, {"N1": {"seats": 100}})
    table = ElasticsearchTable(server.url, index, id_column="plane")
    with looking_up(table, ["plane"], ["seats"]) as ask:
        server.request("POST" if end else "DELETE", f"/{index}{end}")
        with pytest.raises(ElasticsearchRequestError, match="index_"):
            ask(["N1"])


def test_lookups_by_id_find_documents_in_several_indices(
    server: ElasticsearchServer, index: str
) -> None:
    fill(server, f"{index}-1", {"N1": {"seats": 100}})
    fill(server, f"{index}-2", {"N1": {"seats": 200}, "N2": {"seats": 300}})
    table = ElasticsearchTable(server.url, f"{index}-*", id_column="plane")
    with looking_up(table, ["plane"], ["seats"]) as ask:
        found = ask(["N1", "N2", "N3"])
    assert sorted(found, key=lambda row: row["seats"]) == [
        {"plane": "N1", "seats": 100},
        {"plane": "N1", "seats": 200},
        {"plane": "N2", "seats": 300},
    ]


def test_an_id_can_be_a_number(server: ElasticsearchServer, index: str) -> None:
    fill(server, index, {"7": {"seats": 70}, "8": {"seats": 80}})
    schema = pa.schema([("seats", pa.int16())])
    table = ElasticsearchTable(server.url, index, id_column="number", schema=schema)
    assert table.schema().field("number").type == pa.string()
    declared = ElasticsearchTable(
        server.url, index, id_column="number", schema="number BIGINT, seats SMALLINT"
    )
    with looking_up(declared, ["number"], ["seats"]) as ask:
        assert ask([8, 9]) == [{"number": 8, "seats": 80}]


FAR = 10**18  # microseconds of the year 33658
ODD_KEYS: Mapping[str, tuple[pa.DataType, Mapping[str, Any], list[Any]]] = {
    # the type of the key, the field, and keys after that of the only document
    "ip": (pa.string(), {"type": "ip"}, ["10.0.0.1", "-", "", "10.0.0.0/8"]),
    "keyword": (pa.string(), {"type": "keyword"}, ["a", "", "x" * 40_000, "\0"]),
    "long": (pa.string(), {"type": "long"}, ["7", "seven", "", "9" * 19, "7.5"]),
    "byte": (pa.int64(), {"type": "byte"}, [7, 128, -(2**63)]),
    "decimal": (pa.decimal128(20, 0), {"type": "long"}, [Decimal(7), Decimal(2**63)]),
    "date": (MOMENT, {"type": "date"}, [0, FAR, -FAR, 2**63 - 1, -(2**63)]),
    "date_without_numbers": (
        MOMENT,
        {"type": "date", "format": "strict_date_optional_time"},
        [0, FAR, -(2**63)],
    ),
    "date_nanos": (MOMENT, {"type": "date_nanos"}, [0, -1, FAR, 2**63 - 1]),
}


@pytest.mark.parametrize("name", ODD_KEYS)
def test_a_key_that_no_document_can_have_has_no_match(
    server: ElasticsearchServer, index: str, name: str
) -> None:
    kind, definition, keys = ODD_KEYS[name]
    column = pa.array(keys, kind)
    mapping = {"properties": {"key": definition, "name": {"type": "keyword"}}}
    server.request("PUT", f"/{index}", {"mappings": mapping})
    document = {"key": int(keys[0]) if isinstance(keys[0], Decimal) else keys[0], "name": "it"}
    if kind == MOMENT:
        document["key"] = "1970-01-01T00:00:00Z"
    server.request("PUT", f"/{index}/_doc/1?refresh=true", document)
    schema = pa.schema([("key", kind), ("name", pa.string())])
    table = ElasticsearchTable(server.url, index, schema=schema)
    with looking_up(table, ["key"], ["name"], raw=True) as ask:
        found = ask(pa.record_batch({"key": column}))
        assert found["key"].combine_chunks().equals(column[:1])
    with looking_up(table, ["key", "name"], [], raw=True) as ask:
        names = pa.array(["it"] * len(column))
        assert ask(pa.record_batch({"key": column, "name": names})).num_rows == 1


@pytest.mark.parametrize("name", ["", "x" * 513, "é" * 300])
def test_an_id_that_no_document_can_have_has_no_match(
    server: ElasticsearchServer, index: str, name: str
) -> None:
    fill(server, index, {"N1": {"seats": 100}})
    for query in (None, {"match_all": {}}):
        table = ElasticsearchTable(server.url, index, id_column="plane", query=query)
        with looking_up(table, ["plane"], ["seats"]) as ask:
            assert ask([name, "N1"]) == [{"plane": "N1", "seats": 100}]
            assert ask([name]) == []


@both_ways
def test_the_table_contains_only_documents_that_match_the_query(
    server: ElasticsearchServer, index: str, is_async: bool
) -> None:
    fill(server, index, {"N1": {"seats": 100}, "N2": {"seats": 5}})
    table = ElasticsearchTable(
        server.url,
        index,
        id_column="plane",
        query={"range": {"seats": {"gte": 50}}},
        asynchronous=is_async,
    )
    with looking_up(table, ["plane"], ["seats"]) as ask:
        assert ask(["N1", "N2"]) == [{"plane": "N1", "seats": 100}]


def test_texts_are_compared_by_their_keyword_field(server: ElasticsearchServer, index: str) -> None:
    fill(server, index, {"1": {"name": "Big Jet"}, "2": {"name": "big jet"}, "3": {"name": "Jet"}})
    table = ElasticsearchTable(server.url, index)
    with looking_up(table, ["name"], []) as ask:
        assert ask(["Big Jet", "Jet", "et"]) == [{"name": "Big Jet"}, {"name": "Jet"}]


def test_lookups_with_two_key_columns_match_their_combination(
    server: ElasticsearchServer, index: str
) -> None:
    pairs = [(f"N{number % 40}", number // 40) for number in range(1600)]
    documents = {
        str(number): {"tailnum": name, "seats": seats} for number, (name, seats) in enumerate(pairs)
    }
    fill(server, index, documents)
    table = ElasticsearchTable(server.url, index)
    asked = pairs[::2]
    with looking_up(table, ["tailnum", "seats"], []) as ask:
        found = ask([name for name, _ in asked], [seats for _, seats in asked])
    assert sorted((row["tailnum"], row["seats"]) for row in found) == sorted(asked)


@both_ways
def test_a_key_can_have_more_documents_than_fit_in_one_response(
    server: ElasticsearchServer, index: str, is_async: bool
) -> None:
    documents = {str(number): {"tailnum": "N1", "seats": number % 400} for number in range(12_345)}
    fill(server, index, documents)
    table = ElasticsearchTable(server.url, index, asynchronous=is_async)
    with looking_up(table, ["tailnum"], ["seats"]) as ask:
        found = ask(["N1", "N2"])
    assert sorted(row["seats"] for row in found) == sorted(
        document["seats"] for document in documents.values()
    )


def test_timestamps_in_a_custom_format_can_be_columns_but_not_keys(
    server: ElasticsearchServer, index: str
) -> None:
    fill(server, index, {"N1": {"built": "1998", "tailnum": "N1"}})
    table = ElasticsearchTable(server.url, index, id_column="plane")
    for key in ("plane", "tailnum"):
        with looking_up(table, [key], ["built"]) as ask:
            assert [row["built"].year for row in ask(["N1"])] == [1998]
    with (
        pytest.raises(ConfigurationError, match="custom format"),
        looking_up(table, ["built"], []),
    ):
        pass


def test_a_key_without_exact_comparison_is_refused(server: ElasticsearchServer, index: str) -> None:
    fill(server, index, {"N1": {}})
    table = ElasticsearchTable(server.url, index)
    with (
        pytest.raises(ConfigurationError, match=r"'about'(.|\n)*text") as error,
        looking_up(table, ["about"], []),
    ):
        pass
    assert error.value.option == "on"


def test_the_error_of_an_unreadable_document_names_it(
    server: ElasticsearchServer, index: str
) -> None:
    fill(server, index, {"N1": {"seats": [1, 2]}})
    table = ElasticsearchTable(server.url, index, id_column="plane")
    with looking_up(table, ["plane"], ["seats"]) as ask:
        with pytest.raises(BadRecordError, match="array-fields") as error:
            ask(["N1"])
        assert error.value.position == f"{index}/N1"


def test_a_deleted_index_is_a_configuration_error(server: ElasticsearchServer, index: str) -> None:
    fill(server, index, {"N1": {"tailnum": "N1"}})
    table = ElasticsearchTable(server.url, index, id_column="plane")
    for key in ("plane", "tailnum"):
        with looking_up(table, [key], []) as ask:
            ask(["N1"])
            server.request("DELETE", f"/{index}")
            with pytest.raises(ConfigurationError, match="no such index"):
                ask(["N1"])
        fill(server, index, {"N1": {"tailnum": "N1"}})


def test_a_table_accepts_a_custom_cache(server: ElasticsearchServer, index: str) -> None:
    fill(server, index, {"N1": {}})
    cache = DefaultLookupCache(max_rows=5)
    table = ElasticsearchTable(server.url, index, cache=cache)
    schema = pa.schema([table.schema().field("tailnum")])
    context = LookupContext(keys=("tailnum",), schema=schema)
    provider = table.get_lookup_runtime_provider(context)
    assert isinstance(provider, PartialCachingLookupProvider)
    assert provider.cache is cache


def test_options_build_the_same_table_as_arguments(server: ElasticsearchServer, index: str) -> None:
    fill(server, index, {"N1": {"seats": 1}})
    table = ElasticsearchTable.from_options(
        {
            "hosts": server.url,
            "index": index,
            "id-column": "plane",
            "fields": "seats, engine.kind",
            "lookup.cache": "PARTIAL",
            "lookup.partial-cache.max-rows": "7",
        }
    )
    assert table.schema().names == ["plane", "engine", "seats"]
    context = LookupContext(keys=("plane",), schema=table.schema())
    provider = table.get_lookup_runtime_provider(context)
    assert isinstance(provider, PartialCachingLookupProvider)
    assert isinstance(provider.cache, DefaultLookupCache)
    assert provider.cache.max_rows == 7
    assert repr(table) == f"ElasticsearchTable({ElasticsearchConnection(server.url)!r}, {index!r})"


@both_ways
@pytest.mark.parametrize("key", ["plane", "tailnum"])
def test_decimals_keep_all_their_digits(
    server: ElasticsearchServer, index: str, is_async: bool, key: str
) -> None:
    price = Decimal("1234567890123456789.0123456789")
    kinds = {"tailnum": {"type": "keyword"}, "price": {"type": "double"}}
    server.request("PUT", f"/{index}", {"mappings": {"properties": kinds}})
    document = f'{{"tailnum": "N1", "price": {price}, "more": 1}}'.encode()
    server.request("PUT", f"/{index}/_doc/N1?refresh=true", document)
    schema = pa.schema([("tailnum", pa.string()), ("price", pa.decimal128(38, 10))])
    table = ElasticsearchTable(
        server.url, index, schema=schema, id_column="plane", asynchronous=is_async
    )
    with looking_up(table, [key], ["price"]) as ask:
        assert ask(["N1"]) == [{key: "N1", "price": price}]
