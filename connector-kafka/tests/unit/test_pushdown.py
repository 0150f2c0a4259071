# SPDX-License-Identifier: Apache-2.0
"""Tests that a source decodes only what a query needs, and that its rows stay the same."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector_kafka import KafkaSource
from connector_kafka.client.fetcher import Fetched
from connector_kafka.records import COLUMNS
from connector_kafka.source.deserialization import KafkaRecordDeserializationSchema
from connector_kafka.source.layout import METADATA, RecordLayout
from connector_kafka.source.reader import KafkaRecordEmitter
from connector_kafka.source.split import KafkaPartitionSplit, KafkaSplitState
from connectors_core.formats import AvroFormat, CsvFormat, DecodingFormat, JsonFormat, StringFormat
from connectors_core.metrics import MetricGroup
from connectors_core.source import Comparison, IsIn, Not, Or, Predicate, ValueRange

SCHEMA = pa.schema(
    [("key_id", pa.int64()), ("number", pa.int64()), ("text", pa.string()), ("flag", pa.bool_())]
)
VALUES = pa.schema([SCHEMA.field(name) for name in ("number", "text", "flag")])
NAMES = {
    "key": "raw_key",
    "value": "raw",
    "topic": "t",
    "partition": "p",
    "offset": "o",
    "timestamp": "at",
    "timestamp_type": "kind",
    "headers": "h",
}
START = datetime(2026, 1, 1, tzinfo=UTC)
FORMATS = [JsonFormat(), AvroFormat(), CsvFormat()]


def source(value: DecodingFormat | None = None, **options: Any) -> KafkaSource:
    if value is None:
        return KafkaSource("broker:9092", topics=["t"], **options)
    columns = KafkaRecordDeserializationSchema(
        value_format=value,
        key_format=JsonFormat(),
        key_fields=["key_id"],
        key_fields_prefix="key_",
        value_fields="except-key",
        schema=SCHEMA,
        metadata_columns=NAMES,
    )
    return KafkaSource("broker:9092", topics=["t"], deserialization=columns, **options)


def records(layout: RecordLayout, rows: list[dict[str, Any]], value: Any) -> pa.RecordBatch:
    """Return the fetched columns of records with these values; None is a tombstone."""
    present = [row for row in rows if row is not None]
    encoded = iter(value.encode(pa.RecordBatch.from_pylist(present, schema=VALUES)).messages)
    moments = [START + timedelta(seconds=at) for at in range(len(rows))]
    fetched = {
        "key": [json.dumps({"id": at}).encode() for at in range(len(rows))],
        "value": [None if row is None else next(encoded).as_py() for row in rows],
        "offset": [7 + 2 * at for at in range(len(rows))],
        "timestamp": moments,
        "timestamp_type": [0] * len(rows),
        "headers": [[{"key": "h", "value": b"x"}]] * len(rows),
    }
    schema = pa.schema([COLUMNS.field(name) for name in layout.fetched_columns])
    return pa.RecordBatch.from_pydict({name: fetched[name] for name in schema.names}, schema=schema)


def rows_of(of: KafkaSource, rows: list[Any], value: Any) -> pa.RecordBatch:
    made = of._layout.rows(records(of._layout, rows, value), "t", 3)
    assert made.damaged == ()
    return made.rows


ROWS = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "number": st.none() | st.integers(0, 9),
            "text": st.sampled_from(["", "a", "é", '"']),
            "flag": st.none() | st.booleans(),
        }
    ),
    max_size=6,
)
CONDITIONS: list[Predicate] = [
    Comparison(("o",), ">=", 10),
    Comparison(("o",), "<", 13),
    Comparison(("at",), ">", START + timedelta(seconds=1)),
    Or((IsIn(("o",), (9,)), Not(Comparison(("kind",), "=", 0)))),
    Comparison(("p",), "=", 3),
    Comparison(("t",), "=", "other"),
]


@settings(max_examples=100, deadline=None)
@given(
    rows=ROWS,
    value=st.sampled_from(FORMATS),
    names=st.lists(st.sampled_from([*SCHEMA.names, *NAMES.values()]), min_size=1, unique=True),
)
def test_projected_rows_are_the_projection_of_all_rows(
    rows: list[Any], value: DecodingFormat, names: list[str]
) -> None:
    whole = source(value)
    wanted = [name for name in whole.schema().names if name in names]
    projected = pickle.loads(pickle.dumps(whole.apply_projection([(name,) for name in wanted])))
    assert projected.schema().equals(pa.schema([whole.schema().field(name) for name in wanted]))
    found = rows_of(projected, rows, value)
    assert found.schema.equals(projected.schema())
    assert found.equals(rows_of(whole, rows, value).select(wanted))


@settings(max_examples=100, deadline=None)
@given(
    rows=ROWS,
    conditions=st.lists(st.sampled_from(CONDITIONS), max_size=3, unique=True),
    names=st.lists(st.sampled_from(["number", "raw_key"]), unique=True),
)
def test_no_wanted_row_is_left_out_and_the_others_are_counted_in_order(
    rows: list[Any], conditions: list[Predicate], names: list[str]
) -> None:
    value = JsonFormat()
    whole = source(value)
    fields = {path[0] for each in conditions for path in each.fields()} | {*names, "o"}
    paths = [(name,) for name in whole.schema().names if name in fields]
    pushed, used = whole.apply_projection(paths).apply_filters(conditions)
    assert list(used) == conditions
    layout = pickle.loads(pickle.dumps(pushed))._layout
    made = layout.rows(records(layout, rows, value), "t", 3)
    left_out = made.excluded_before + made.excluded_after
    assert left_out + made.rows.num_rows == len(rows)
    everything = rows_of(whole, rows, value).select([path[0] for path in paths])
    assert made.rows.equals(everything.slice(made.excluded_before, made.rows.num_rows))
    expected, found = everything, made.rows
    for each in conditions:
        expected, found = expected.filter(each.mask(expected)), found.filter(each.mask(found))
    assert found.equals(expected)


# --- what is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "fetched"),
    [
        (["number"], ("value", "offset")),
        (["key_id"], ("key", "offset")),
        (["t", "p"], ("offset",)),
        (["h"], ("headers",)),
        (["raw"], ("value",)),
        (["at"], ("offset", "timestamp")),
    ],
)
def test_only_the_used_parts_of_a_record_are_copied(
    columns: list[str], fetched: tuple[str, ...]
) -> None:
    projected = source(JsonFormat()).apply_projection([(name,) for name in columns])
    assert projected._layout.fetched_columns == fetched


@pytest.mark.parametrize("value", [JsonFormat(), AvroFormat(), StringFormat()])
def test_a_value_that_is_not_used_is_not_decoded(value: DecodingFormat) -> None:
    columns = KafkaRecordDeserializationSchema(
        value_format=value, schema="text STRING", metadata_columns=["offset"]
    )
    whole = KafkaSource("broker:9092", topics=["t"], deserialization=columns)
    projected = whole.apply_projection([("offset",)])
    broken = pa.RecordBatch.from_pydict({"value": [b"\xff"], "offset": [7]})
    assert len(whole._layout.rows(broken, "t", 0).damaged) == 1
    made = projected._layout.rows(broken.select(["offset"]), "t", 0)
    assert (made.rows.to_pylist(), made.damaged) == ([{"offset": 7}], ())


def test_a_json_field_that_is_not_used_is_not_decoded() -> None:
    projected = source(JsonFormat()).apply_projection([("number",)])
    message = pa.RecordBatch.from_pydict({"value": [b'{"number":1,"flag":"?"}'], "offset": [7]})
    assert projected._layout.rows(message, "t", 0).rows.to_pylist() == [{"number": 1}]


def test_a_format_that_needs_all_columns_decodes_them() -> None:
    strict = source(JsonFormat(fail_on_unknown_field=True)).apply_projection([("number",)])
    messages = [b'{"number":1,"flag":true}', b'{"number":2,"other":1}']
    given = pa.RecordBatch.from_pydict({"value": messages, "offset": [7, 8]})
    made = strict._layout.rows(given, "t", 0)
    assert made.rows.to_pylist() == [{"number": 1}]
    assert [each.offset for each in made.damaged] == [8]


def test_records_that_a_condition_on_offsets_excludes_are_not_decoded() -> None:
    paths = [("number",), ("o",)]
    pushed, _ = (
        source(JsonFormat())
        .apply_projection(paths)
        .apply_filters([Comparison(("o",), "=", 8), Comparison(("number",), "=", 1)])
    )
    messages = [b"broken", b'{"number":1}', b"broken"]
    made = pushed._layout.rows(
        pa.RecordBatch.from_pydict({"value": messages, "offset": [7, 8, 9]}), "t", 0
    )
    assert (made.rows.to_pylist(), made.damaged) == ([{"number": 1, "o": 8}], ())
    assert (made.excluded_before, made.excluded_after) == (1, 1)


def test_only_conditions_on_metadata_let_it_read_less() -> None:
    offset, number = Comparison(("o",), ">", 1), Comparison(("number",), ">", 1)
    _, used = source(JsonFormat()).apply_filters([number, offset, Or((offset, number))])
    assert list(used) == [offset]


def test_the_reader_counts_the_records_that_it_leaves_out() -> None:
    pushed, _ = source().apply_filters([Comparison(("offset",), "=", 8)])
    assert pushed._layout.fetched_columns == tuple(
        name
        for name in METADATA.names
        if name not in {"headers", "topic", "partition", "kafka_cluster"}
    )
    columns = {name: [None] * 3 for name in pushed._layout.fetched_columns}
    columns |= {"offset": [7, 8, 9], "timestamp": [START] * 3}
    schema = pa.schema([COLUMNS.field(name) for name in columns])
    split = KafkaSplitState(KafkaPartitionSplit(split_id="t-0", topic="t", partition=0, offset=7))
    output = _Output()
    emitter = KafkaRecordEmitter(_Context(), pushed._layout)
    fetched = pa.RecordBatch.from_pydict(columns, schema=schema)
    emitter.emit_record(Fetched(key="t-0", records=fetched, next_offset=10), output, split)
    assert output.seen == [1, [8], 1]
    assert split.to_split().offset == 10


class _Context:
    metric_group = MetricGroup()


class _Output:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def collect(self, batch: pa.RecordBatch) -> None:
        self.seen.append(batch.column("offset").to_pylist())

    def pass_over(self, rows: int) -> None:
        self.seen.append(rows)


# --- splits ---------------------------------------------------------------------------------------


def split(**fields: Any) -> KafkaPartitionSplit:
    return KafkaPartitionSplit(
        split_id="t-3", topic="t", partition=3, **({"offset": 5, "stop": 9} | fields)
    )


def known(of: KafkaSource, split: KafkaPartitionSplit) -> Any:
    return of.partition_of(split)


@pytest.mark.parametrize(
    ("condition", "may_match"),
    [
        (Comparison(("o",), "<", 5), False),
        (Comparison(("o",), "<=", 5), True),
        (Comparison(("o",), ">=", 9), False),
        (Comparison(("o",), ">=", 8), True),
        (Comparison(("p",), "=", 4), False),
        (Comparison(("t",), "=", "t"), True),
        (Comparison(("number",), "=", 1), True),
    ],
)
def test_a_split_knows_its_topic_its_partition_and_its_offsets(
    condition: Comparison, may_match: bool
) -> None:
    found = known(source(JsonFormat()), split())
    ranges = {
        (name,): value if isinstance(value, ValueRange) else ValueRange.of(value)
        for name, value in found.items()
    }
    assert condition.may_match(ranges) is may_match


def test_a_split_knows_only_what_is_a_column() -> None:
    projected = source(JsonFormat()).apply_projection([("number",), ("p",)])
    assert known(projected, split()) == {"p": 3}


def test_a_reader_may_continue_at_an_earlier_offset_after_a_loss() -> None:
    found = known(source(on_data_loss="earliest"), split())["offset"]
    assert (found.low, found.high) == (None, 8)


def test_a_split_without_a_planned_end_has_no_range_of_offsets() -> None:
    assert set(known(source(), split(stop=None))) == {"topic", "partition"}


def test_a_split_whose_reader_sends_the_position_of_a_later_run_is_always_read() -> None:
    assert known(source(), split(pauses=True)) == {}
