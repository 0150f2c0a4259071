# SPDX-License-Identifier: Apache-2.0
"""Tests that tables of indices have the options and the keys of Flink's."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector_elasticsearch import ElasticsearchSink
from connector_elasticsearch.sink.document_ids import document_ids
from connector_elasticsearch.table_factory import ElasticsearchTableFactory
from connectors_core.errors import ConfigurationError, UnknownOptionError
from connectors_core.table import (
    CatalogTable,
    ChangelogMode,
    DynamicTableContext,
    DynamicTableSink,
    PhysicalColumn,
    TableSchema,
)

OPTIONS = {"hosts": "http://localhost:9200", "index": "flights"}
ID = PhysicalColumn("id", pa.int64())


def written(
    options: dict[str, str], *columns: PhysicalColumn, keys: tuple[str, ...] = ()
) -> DynamicTableSink:
    schema = TableSchema(columns=columns or (ID,), primary_key=keys)
    context = DynamicTableContext.of("t", CatalogTable(schema=schema, options=options))
    ElasticsearchTableFactory().validate(context)
    made = ElasticsearchTableFactory().create_sink(context)
    made.sink.validate(schema.physical)
    return made


@pytest.mark.parametrize(
    ("changed", "option"),
    [
        ({"hosts": ""}, "hosts"),
        ({"hosts": "wrong-host"}, "hosts"),
        ({"index": ""}, "index"),
        ({"sink.bulk-flush.max-actions": "-2"}, "sink.bulk-flush.max-actions"),
        ({"sink.bulk-flush.backoff.delay": "-1s"}, "sink.bulk-flush.backoff.delay"),
        ({"username": "ann", "password": ""}, "password"),
        ({"username": "ann"}, "password"),
    ],
)
def test_an_option_with_a_wrong_value_is_refused(changed: dict[str, str], option: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        written({**OPTIONS, **changed})
    assert refused.value.option == option


@pytest.mark.parametrize("missing", ["hosts", "index"])
def test_an_option_that_is_missing_is_named(missing: str) -> None:
    options = {key: each for key, each in OPTIONS.items() if key != missing}
    with pytest.raises(ConfigurationError, match=f"'?{missing}'?"):
        written(options)


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("sink.bulk-flush.backoff.max-retries", "sink.bulk-flush.backoff.timeout"),
        ("failure-handler", "record policy"),
        ("sink.flush-on-checkpoint", "epoch"),
        ("document-type", "no types"),
        ("format", "always JSON"),
    ],
)
def test_the_error_of_an_option_of_flink_names_its_replacement(option: str, remedy: str) -> None:
    with pytest.raises(UnknownOptionError, match=remedy):
        written({**OPTIONS, option: "0"})


def test_requests_have_any_size_and_sinks_a_number_of_writers() -> None:
    made = written({**OPTIONS, "sink.bulk-flush.max-size": "1kb", "sink.parallelism": "2"}).sink
    assert isinstance(made, ElasticsearchSink)
    assert made.bulk_flush.max_batch_size_in_bytes == 1024
    assert made.writer_parallelism() == 2


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int64()),
        pa.map_(pa.int64(), pa.string()),
        pa.struct([("a", pa.int64())]),
        pa.binary(),
        pa.float32(),
        pa.float64(),
    ],
)
def test_a_key_of_a_type_without_an_exact_text_is_refused(kind: pa.DataType) -> None:
    key = PhysicalColumn("key", kind, nullable=False)
    with pytest.raises(ConfigurationError) as refused:
        written(OPTIONS, key, ID, keys=("key",))
    assert refused.value.option == "document-id.columns"


def test_changes_need_a_key_and_an_index_without_the_clock() -> None:
    clock = {**OPTIONS, "index": "flights-{now()|yyyy-MM-dd}_index"}
    assert written(OPTIONS).changelog_mode == ChangelogMode.insert_only()
    assert written(OPTIONS, keys=("id",)).changelog_mode == ChangelogMode.upsert()
    assert written(clock).changelog_mode == ChangelogMode.insert_only()
    with pytest.raises(ConfigurationError, match="without the clock"):
        written(clock, keys=("id",))


def test_an_id_joins_the_texts_of_the_key() -> None:
    values: list[tuple[Any, pa.DataType]] = [
        (1, pa.int8()),
        (2, pa.int16()),
        (3, pa.int32()),
        (4, pa.int64()),
        (True, pa.bool_()),
        (Decimal("1.50"), pa.decimal128(3, 2)),
        ("ABCD", pa.string()),
        (datetime(2012, 12, 12, 12, 12, 12), pa.timestamp("s")),
        (datetime(2013, 1, 13, 13, 13, 13, tzinfo=UTC), pa.timestamp("s", "UTC")),
        (date(2015, 5, 15), pa.date32()),
    ]
    columns = [pa.array([value], kind) for value, kind in values]
    assert document_ids(columns, "_").to_pylist() == [
        "1_2_3_4_true_1.50_ABCD_2012-12-12 12:12:12_2013-01-13 13:13:13Z_2015-05-15"
    ]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_a_key_of_one_column_is_its_text(values: list[int]) -> None:
    assert document_ids([pa.array(values, pa.int64())], "_").to_pylist() == list(map(str, values))
