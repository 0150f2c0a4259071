# SPDX-License-Identifier: Apache-2.0
"""Tests that the server finds every document that satisfies a condition of a query."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pytest
from documents_as_the_server_reads_them import KINDS
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from connector_elasticsearch import ElasticsearchSource
from connector_elasticsearch.source.pages import PageDecoder
from connector_elasticsearch.source.searcher import Searcher
from connector_elasticsearch.source.split import SliceSplit
from connector_elasticsearch.testing import ElasticsearchServer
from connectors_core.source import (
    And,
    Comparison,
    IsIn,
    IsNull,
    Not,
    Or,
    Predicate,
)

pytestmark = pytest.mark.line("4.3")  # these tests use the newer client, but not Spark

_numbers = itertools.count()
_DOCUMENTS_OF_FIELD = 5
_HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]

# Besides the usual types, fields whose index does not have what the document has.
FIELDS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    **{name: (kind.mapping, name) for name, kind in KINDS.items()},
    "cut": ({"type": "keyword", "ignore_above": 2}, "keyword"),
    "replaced": ({"type": "keyword", "null_value": "nothing"}, "keyword"),
    "copied": ({"type": "keyword", "copy_to": "keyword"}, "keyword"),
    "folded": ({"type": "keyword", "normalizer": "lowercase"}, "keyword"),
    "unsearchable": ({"type": "keyword", "index": False, "doc_values": False}, "keyword"),
    "unsorted": ({"type": "long", "doc_values": False}, "long"),
    "uncoerced": ({"type": "long", "coerce": False}, "long"),
    "replaced_long": ({"type": "long", "null_value": 7}, "long"),
    "shadowed": ({"type": "keyword"}, "keyword"),
}
VALUES = st.fixed_dictionaries(
    {
        name: st.lists(
            KINDS[kind].values | st.sampled_from(["null", "[]", "[null]"]),
            min_size=_DOCUMENTS_OF_FIELD,
            max_size=_DOCUMENTS_OF_FIELD,
        )
        for name, (_, kind) in FIELDS.items()
    }
)


def conditions_on(rows: pa.Table) -> Iterator[tuple[str, Predicate]]:
    """Yield conditions on each field, with values that it has."""
    for name in FIELDS:
        kind = rows.schema.field(name).type
        if not (pa.types.is_floating(kind) or pa.types.is_binary(kind)):
            for condition in conditions_on_field(rows[name], (name,)):
                yield name, condition


def conditions_on_field(column: pa.ChunkedArray, field: tuple[str, ...]) -> Iterator[Predicate]:
    present = [each for each in column.unique().to_pylist() if each is not None]
    yield Not(IsNull(field))
    for value in present[:2]:
        for operator in ("=", "!=", "<", "<=", ">", ">="):
            yield Comparison(field, operator, value)  # type: ignore[arg-type]
        yield Or((IsNull(field), Comparison(field, "=", value)))
        yield Not(Comparison(field, "=", value))
    if present:
        yield IsIn(field, tuple(present))
        low, high = Comparison(field, ">=", min(present)), Comparison(field, "<=", max(present))
        yield And((low, high, Not(IsNull(field))))
        yield Or((Comparison(field, "=", present[0]), Comparison(field, "=", present[-1])))


def rows_of(source: ElasticsearchSource, point_in_time: str) -> pa.Table:
    sought = source._settings()
    decoder = PageDecoder(sought.decoder())
    split = SliceSplit(split_id="a", point_in_time=point_in_time, slice=0, slices=1, documents=1000)
    with closing(Searcher(sought)) as searcher:
        pieces = searcher.page(split, decoder.decode).pieces
    batches = [each.batch for each in pieces if each.batch is not None]
    return pa.Table.from_batches(batches, schema=source.schema())


@contextmanager
def opened(source: ElasticsearchSource) -> Iterator[str]:
    """Yield a point in time."""
    with closing(Searcher(source._settings())) as searcher:
        point_in_time = searcher.open().id
        yield point_in_time
        searcher.close_point_in_time(point_in_time)


def satisfying(rows: pa.Table, condition: Predicate) -> list[str]:
    rows = pa.Table.from_batches(
        [batch.filter(condition.mask(batch)) for batch in rows.to_batches()], schema=rows.schema
    )
    return sorted(rows["_id"].to_pylist())


@settings(
    max_examples=2,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=_HEALTH,
)
@given(values=VALUES)
def test_the_server_finds_all_documents_that_satisfy_a_condition(
    server: ElasticsearchServer, values: dict[str, list[str]]
) -> None:
    check(server, values)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=20, suppress_health_check=_HEALTH, phases=[Phase.generate])
@given(values=VALUES)
def test_the_server_finds_random_documents_that_satisfy_a_condition(
    server: ElasticsearchServer, values: dict[str, list[str]]
) -> None:
    check(server, values)


def check(server: ElasticsearchServer, values: dict[str, list[str]]) -> None:
    index = f"conditions-{next(_numbers)}"
    mappings = {
        "properties": {name: mapping for name, (mapping, _) in FIELDS.items()},
        "runtime": {"shadowed": {"type": "keyword"}},
    }
    server.request("PUT", f"/{index}", {"mappings": mappings})
    lines = [
        f'{{"index":{{}}}}\n{{{json.dumps(name)}:{value}}}\n'
        for name, written in values.items()
        for value in written
    ]
    server.request("POST", f"/{index}/_bulk?refresh=true", "".join(lines).encode())
    source = ElasticsearchSource(server.url, index, metadata_columns=["_id"])
    translated = set()
    with opened(source) as point_in_time:
        rows = rows_of(source, point_in_time)
        for name, condition in conditions_on(rows):
            pushed, used = source.apply_filters([condition])
            asking = pushed.without_counts()
            if asking is None:
                assert not used
                continue
            translated.add(name)
            found = rows_of(asking, point_in_time)
            assert satisfying(found, condition) == satisfying(rows, condition), str(condition)
            assert found.num_rows < rows.num_rows, str(condition)
    assert {"keyword", "replaced", "long", "boolean", "date", "date_days"} <= translated
    assert not translated & {"text", "ip", "folded", "unsearchable", "shadowed", "date_nanos"}
    server.request("DELETE", f"/{index}")


def test_documents_of_an_index_whose_mapping_is_not_known_are_found(
    server: ElasticsearchServer, index: str
) -> None:
    fields = {"properties": {"number": {"type": "long"}}}
    server.request("PUT", f"/{index}-1", {"mappings": fields})
    source = ElasticsearchSource(server.url, f"{index}-*", metadata_columns=["_id"])
    asking = source.apply_filters([Comparison(("number",), "=", 5)])[0].without_counts()
    assert asking is not None
    server.request("PUT", f"/{index}-2", {"mappings": {"dynamic": False}})
    for name, identifier, number in (("1", "a", 5), ("1", "b", 6), ("2", "c", 5)):
        server.request("PUT", f"/{index}-{name}/_doc/{identifier}?refresh=true", {"number": number})
    with opened(source) as point_in_time:
        assert sorted(rows_of(asking, point_in_time)["_id"].to_pylist()) == ["a", "c"]
