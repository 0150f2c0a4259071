# SPDX-License-Identifier: Apache-2.0
"""Tests how rows become records, and which rows are rejected."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector_kafka import (
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaSink,
    RecordPartitioner,
    UpsertMode,
    ValueFields,
)
from connector_kafka.errors import KafkaRequestError
from connector_kafka.sink.partition_assigner import PartitionAssigner
from connector_kafka.sink.preparation import RecordPreparation
from connectors_core.errors import BadRecordError, ConfigurationError, InvalidOptionError
from connectors_core.formats import AvroFormat, JsonFormat, StringFormat
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.schema import ROW_KIND_COLUMN
from connectors_core.sink import DeliveryGuarantee, WriterInitContext
from connectors_core.source import NumberSequenceSource
from connectors_core.testing import InProcess

TOPICS = {"a": 3, "b": 1}
FLIGHTS = pa.RecordBatch.from_pydict(
    {
        "origin": ["JFK", "EWR", "JFK"],
        "flight": pa.array([1, 2, 3], pa.int64()),
        "to": ["a", "b", "a"],
    }
)


def context(policy: RecordPolicy | None = None) -> WriterInitContext:
    return WriterInitContext(
        pipeline_id="p",
        sink_uid="out",
        checkpoint_id=0,
        subtask_id=0,
        attempt_number=0,
        nonce="0",
        schema=pa.schema([]),
        record_errors=RecordErrorHandler(policy or RecordPolicy.fail()),
    )


def preparation(
    schema: KafkaRecordSerializationSchema,
    *,
    upsert: UpsertMode | None = None,
    partitioner: KafkaPartitioner | RecordPartitioner = KafkaPartitioner.DEFAULT,
    of: WriterInitContext | None = None,
    max_request_size: int = 1 << 20,
) -> RecordPreparation:
    def partitions_of(topics: Iterable[str]) -> dict[str, int]:
        return {topic: TOPICS[topic] for topic in topics if topic in TOPICS}

    return RecordPreparation(
        schema,
        upsert=upsert,
        max_request_size=max_request_size,
        assigner=PartitionAssigner(partitioner, subtask_id=5, batch_size=1 << 16),
        partitions_of=partitions_of,
        context=of or context(),
    )


def prepared(made: RecordPreparation, batch: pa.RecordBatch) -> dict[str, list[tuple[Any, Any]]]:
    """Return the keys and values of the records by topic."""
    return {
        each.topic: list(
            zip(
                each.records.column("key").to_pylist(),
                each.records.column("value").to_pylist(),
                strict=True,
            )
        )
        for each in made.prepare(batch)
    }


def changelog(*changes: tuple[str, str | None, str | None]) -> pa.RecordBatch:
    kinds, keys, values = zip(*changes, strict=True) if changes else ((), (), ())
    return pa.RecordBatch.from_pydict(
        {
            "_row_kind": pa.array(kinds, pa.string()),
            "key": pa.array(keys, pa.string()),
            "value": pa.array(values, pa.string()),
        }
    )


# --- Columns and formats ----------------------------------------------------------------------


def test_key_and_value_columns_have_the_names_of_spark() -> None:
    batch = pa.RecordBatch.from_pydict({"key": ["k", None], "value": [b"v", None]})
    schema = KafkaRecordSerializationSchema(topic="a")
    schema.validate(batch.schema)
    assert prepared(preparation(schema), batch) == {"a": [(b"k", b"v"), (None, None)]}


def test_a_value_format_encodes_all_columns_without_another_role() -> None:
    schema = KafkaRecordSerializationSchema(
        topic_column="to", key_fields=("origin",), value_format=JsonFormat()
    )
    schema.validate(FLIGHTS.schema)
    assert prepared(preparation(schema), FLIGHTS) == {
        "a": [
            (b"JFK", b'{"origin":"JFK","flight":1}'),
            (b"JFK", b'{"origin":"JFK","flight":3}'),
        ],
        "b": [(b"EWR", b'{"origin":"EWR","flight":2}')],
    }


def test_a_format_can_be_given_by_name() -> None:
    named = KafkaRecordSerializationSchema(
        topic="flights", key_fields=("tail",), key_format="string", value_format="json"
    )
    assert (named.key_format, named.value_format) == (StringFormat(), JsonFormat())
    with pytest.raises(InvalidOptionError, match="jsn"):
        KafkaRecordSerializationSchema(topic="flights", value_format="jsn")


def test_a_key_has_its_own_format_and_its_field_names_lose_the_prefix() -> None:
    batch = FLIGHTS.rename_columns(["k_origin", "flight", "to"])
    schema = KafkaRecordSerializationSchema(
        topic="a",
        key_format=JsonFormat(),
        key_fields=("k_origin",),
        key_fields_prefix="k_",
        value_format=JsonFormat(),
        value_fields=ValueFields.EXCEPT_KEY,
    )
    schema.validate(batch.schema)
    first = prepared(preparation(schema), batch)["a"][0]
    assert first == (b'{"origin":"JFK"}', b'{"flight":1,"to":"a"}')


def test_value_fields_can_be_given_by_name() -> None:
    schema: Any = {"topic": "flights", "key_fields": ("tail",), "value_format": JsonFormat()}
    by_name = KafkaRecordSerializationSchema(**schema, value_fields="except-key")
    assert by_name == KafkaRecordSerializationSchema(**schema, value_fields=ValueFields.EXCEPT_KEY)
    with pytest.raises(InvalidOptionError, match="value_fields"):
        KafkaRecordSerializationSchema(**schema, value_fields="except-keys")


def test_headers_timestamp_and_partition_come_from_columns() -> None:
    when = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    batch = pa.RecordBatch.from_pydict(
        {
            "value": [b"v", b"w"],
            "at": pa.array([when, None], pa.timestamp("us", tz="UTC")),
            "headers": pa.array([[("h", b"1")], None], pa.map_(pa.string(), pa.binary())),
            "number": pa.array([2, 1], pa.int16()),
        }
    )
    schema = KafkaRecordSerializationSchema(
        topic="a", timestamp_column="at", headers_column="headers", partition_column="number"
    )
    schema.validate(batch.schema)
    (made,) = preparation(schema).prepare(batch)
    assert made.records.column("timestamp").to_pylist() == [when.timestamp() * 1000, None]
    assert made.records.column("headers").to_pylist() == [[{"key": "h", "value": b"1"}], None]
    assert made.partitions.tolist() == [2, 1]


def test_headers_of_a_sliced_batch_belong_to_the_right_rows() -> None:
    headers = [[("a", b"1")], None, [("b", b"2"), ("c", None)], []]
    batch = pa.RecordBatch.from_pydict(
        {"value": [b"v"] * 4, "headers": pa.array(headers, pa.map_(pa.string(), pa.binary()))}
    )
    schema = KafkaRecordSerializationSchema(topic="a", headers_column="headers")
    (made,) = preparation(schema).prepare(batch.slice(1, 2))
    assert made.records.column("headers").to_pylist() == [
        None,
        [{"key": "b", "value": b"2"}, {"key": "c", "value": None}],
    ]


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({}, "topic"),
        ({"topic": "a", "topic_column": "to"}, "topic"),
        ({"topic": "a", "topic_pattern": "a.*"}, "topic.column-pattern"),
        ({"topic": "a", "key_format": JsonFormat()}, "key.fields"),
        ({"topic": "a", "key_fields": ("origin", "flight")}, "key.format"),
        ({"topic": "a", "key_fields": ("x",), "key_fields_prefix": "k_"}, "key.fields-prefix"),
        ({"topic": "a", "key_fields": ("k_x",), "key_fields_prefix": "k_"}, "value.fields-include"),
    ],
)
def test_conflicting_settings_are_refused(settings: dict[str, Any], option: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        KafkaRecordSerializationSchema(**settings)
    assert refused.value.option == option


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"topic": "a"}, "value.format"),
        ({"topic_column": "flight", "value_format": JsonFormat()}, "topic.column"),
        ({"topic": "a", "timestamp_column": "origin"}, "timestamp.column"),
        ({"topic": "a", "headers_column": "origin"}, "headers.column"),
        ({"topic": "a", "partition_column": "origin"}, "partition.column"),
        ({"topic": "a", "key_fields": ("gone",), "value_format": JsonFormat()}, "key.fields"),
        ({"topic": "a", "key_fields": ("flight",), "value_format": JsonFormat()}, "key.fields"),
    ],
)
def test_rows_that_cannot_become_records_are_refused(settings: dict[str, Any], option: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        KafkaRecordSerializationSchema(**settings).validate(FLIGHTS.schema)
    assert refused.value.option == option


@pytest.mark.parametrize("partitioner", [KafkaPartitioner.FIXED, KafkaPartitioner.ROUND_ROBIN])
def test_an_upsert_refuses_partitioners_that_ignore_the_key(partitioner: KafkaPartitioner) -> None:
    schema = KafkaRecordSerializationSchema(topic="a")
    with pytest.raises(InvalidOptionError) as refused:
        KafkaSink(
            "localhost:1",
            serialization=schema,
            upsert=UpsertMode.EVERY_ROW,
            partitioner=partitioner,
        )
    assert refused.value.option == "sink.partitioner"


def test_the_error_names_the_unused_columns() -> None:
    schema = FLIGHTS.schema.append(pa.field("value", pa.binary()))
    with pytest.raises(ConfigurationError) as refused:
        KafkaRecordSerializationSchema(topic="a").validate(schema)
    assert refused.value.found == "origin, flight, to"


# --- Changelogs -------------------------------------------------------------------------------

RAW = KafkaRecordSerializationSchema(topic="a")


def test_deleted_rows_become_records_without_a_value() -> None:
    batch = changelog(("+I", "k", "1"), ("-U", "k", "1"), ("+U", "k", "2"), ("-D", "k", "2"))
    made = prepared(preparation(RAW, upsert=UpsertMode.EVERY_ROW), batch)
    assert made == {"a": [(b"k", b"1"), (b"k", b"2"), (b"k", None)]}


def test_an_update_without_a_new_version_of_its_key_deletes_it() -> None:
    """A condition may exclude the new version, or the key may change."""
    batch = changelog(("-U", "k", "1"), ("-U", "l", "1"), ("+U", "m", "2"))
    made = prepared(preparation(RAW, upsert=UpsertMode.EVERY_ROW), batch)
    assert made == {"a": [(b"k", None), (b"l", None), (b"m", b"2")]}


def test_only_the_last_record_of_each_key_is_kept() -> None:
    batch = changelog(("+I", "x", "1"), ("+I", "y", "1"), ("+U", "x", "2"), ("-D", "y", "1"))
    made = prepared(preparation(RAW, upsert=UpsertMode.LAST_OF_EACH_KEY), batch)
    assert made == {"a": [(b"x", b"2"), (b"y", None)]}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["+I", "-U", "+U", "-D"]), st.sampled_from("xyz"), st.text(max_size=2)
        ),
        max_size=30,
    )
)
def test_both_upsert_modes_lead_to_the_same_table(changes: list[tuple[str, str, str]]) -> None:
    def table(mode: UpsertMode) -> dict[Any, Any]:
        return dict(prepared(preparation(RAW, upsert=mode), changelog(*changes)).get("a", []))

    assert table(UpsertMode.LAST_OF_EACH_KEY) == table(UpsertMode.EVERY_ROW)


def test_a_changelog_needs_an_upsert_mode() -> None:
    sink = KafkaSink("localhost:9", serialization=RAW)
    with pytest.raises(ConfigurationError) as refused:
        sink.validate(changelog().schema)
    assert refused.value.option == "sink.upsert"
    upserting = KafkaSink("localhost:9", serialization=RAW, upsert=UpsertMode.EVERY_ROW)
    upserting.validate(changelog().schema)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "debezium-json",
            [
                b'{"before":null,"after":{"id":1},"op":"c"}',
                b'{"before":{"id":1},"after":null,"op":"d"}',
            ],
        ),
        (
            "canal-json",
            [b'{"data":[{"id":1}],"type":"INSERT"}', b'{"data":[{"id":1}],"type":"DELETE"}'],
        ),
        (
            "maxwell-json",
            [b'{"data":{"id":1},"type":"insert"}', b'{"data":{"id":1},"type":"delete"}'],
        ),
    ],
)
def test_a_format_for_changelogs_writes_the_kinds_of_changes(
    name: str, values: list[bytes]
) -> None:
    serialization = KafkaRecordSerializationSchema(
        topic="a", key_fields=("id",), key_format="json", value_format=name
    )
    batch = pa.RecordBatch.from_pydict(
        {"id": pa.array([1] * 4), "_row_kind": ["+I", "-U", "+U", "-D"]}
    )
    sink = KafkaSink("localhost:9", serialization=serialization)
    sink.validate(batch.schema)
    inserted, deleted = ((b'{"id":1}', each) for each in values)
    made = prepared(preparation(serialization), batch)
    assert made == {"a": [inserted, deleted, inserted, deleted]}
    rows = batch.select(["id"])
    sink.validate(rows.schema)
    assert prepared(preparation(serialization), rows) == {"a": [inserted] * 4}


def test_a_format_for_changelogs_is_refused_for_keys_and_upserts() -> None:
    with pytest.raises(InvalidOptionError) as refused:
        KafkaRecordSerializationSchema(
            topic="a", key_fields=("id",), key_format="canal-json", value_format="json"
        )
    assert refused.value.option == "key.format"
    serialization = KafkaRecordSerializationSchema(
        topic="a", key_fields=("id",), key_format="json", value_format="canal-json"
    )
    with pytest.raises(InvalidOptionError) as refused:
        KafkaSink("x:1", serialization=serialization, upsert=UpsertMode.EVERY_ROW)
    assert refused.value.option == "value.format"


# --- Bad records ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "batch", "reason"),
    [
        (
            KafkaRecordSerializationSchema(topic_column="to"),
            {"value": ["ok", "bad"], "to": ["a", None]},
            "the record has no topic",
        ),
        (
            KafkaRecordSerializationSchema(topic_column="to"),
            {"value": ["ok", "bad"], "to": ["a", "no such/topic"]},
            "the topic does not exist",
        ),
        (
            KafkaRecordSerializationSchema(topic_column="to", topic_pattern="a|c"),
            {"value": ["ok", "bad"], "to": ["a", "b"]},
            "the topic does not match the pattern",
        ),
        (
            KafkaRecordSerializationSchema(topic="a", partition_column="number"),
            {"value": ["ok", "bad"], "number": [2, 1 << 40]},
            "the topic does not have this partition",
        ),
        (
            KafkaRecordSerializationSchema(topic="a", headers_column="h"),
            {
                "value": ["ok", "bad"],
                "h": [[{"key": "k", "value": None}], [{"key": None, "value": b"x"}]],
            },
            "a header has no key",
        ),
        (RAW, {"value": ["ok", "x" * 2000]}, "more than 1000"),
    ],
)
def test_records_that_brokers_would_refuse_are_bad_records(
    schema: KafkaRecordSerializationSchema, batch: dict[str, Any], reason: str
) -> None:
    rows = pa.RecordBatch.from_pydict(batch)
    with pytest.raises(BadRecordError, match=reason) as bad:
        prepared(preparation(schema, max_request_size=1000), rows)
    assert bad.value.position == "row 1 of subtask 0"
    skipping = context(RecordPolicy.skip())
    made = preparation(schema, of=skipping, max_request_size=1000)
    assert prepared(made, rows) == {"a": [(None, b"ok")]}
    assert skipping.record_errors.summary()["skipped"] == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [(("+I", None, "1"), "has no key"), (("?", "k", "1"), "unknown row kind")],
)
def test_changes_without_a_key_or_a_known_kind_are_bad_records(change: Any, reason: str) -> None:
    with pytest.raises(BadRecordError, match=reason):
        prepared(preparation(RAW, upsert=UpsertMode.EVERY_ROW), changelog(change))


def test_values_of_deletions_are_never_encoded() -> None:
    """The value may not fit the format, or the largest record."""
    fields = [{"name": "v", "type": "string"}]
    avro = AvroFormat(schema=json.dumps({"type": "record", "name": "R", "fields": fields}))
    schema = KafkaRecordSerializationSchema(
        topic="a",
        key_format=StringFormat(),
        key_fields=["key"],
        value_format=avro,
        value_fields="except-key",
    )
    rows = pa.RecordBatch.from_pylist(
        [
            {"key": "x", "v": "1", ROW_KIND_COLUMN: "+I"},
            {"key": "y", "v": None, ROW_KIND_COLUMN: "-D"},
            {"key": "x", "v": "x" * 2000, ROW_KIND_COLUMN: "-U"},
            {"key": "x", "v": "2", ROW_KIND_COLUMN: "+U"},
            {"key": "z", "v": "x" * 2000, ROW_KIND_COLUMN: "-D"},
        ]
    )
    made = preparation(schema, upsert=UpsertMode.EVERY_ROW, max_request_size=1000)
    assert prepared(made, rows) == {
        "a": [(b"x", b"\x021"), (b"y", None), (b"x", b"\x022"), (b"z", None)]
    }


def test_the_row_number_of_a_bad_record_counts_all_batches() -> None:
    made = preparation(KafkaRecordSerializationSchema(topic_column="to"))
    good = pa.RecordBatch.from_pydict({"value": ["x"] * 3, "to": ["a"] * 3})
    list(made.prepare(good))
    bad = pa.RecordBatch.from_pydict({"value": ["x"], "to": pa.nulls(1, pa.string())})
    with pytest.raises(BadRecordError, match="row 3 of"):
        list(made.prepare(bad))


def test_a_topic_that_does_not_exist_is_an_error() -> None:
    rows = pa.RecordBatch.from_pydict({"value": ["x"]})
    with pytest.raises(KafkaRequestError) as refused:
        prepared(preparation(KafkaRecordSerializationSchema(topic="gone")), rows)
    assert refused.value.option == "topic"


# --- Partitions -------------------------------------------------------------------------------


def test_keys_go_to_the_partitions_that_java_chooses() -> None:
    batch = pa.RecordBatch.from_pydict({"key": ["21", "foobar", "a-little-bit-long-string"]})
    batch = batch.append_column("value", pa.array(["v"] * 3))
    (made,) = preparation(RAW).prepare(batch)
    # The hashes come from the tests of Kafka's own Utils.murmur2.
    expected = [(h & 0x7FFFFFFF) % 3 for h in (-973932308, -790332482, -985981536)]
    assert made.partitions.tolist() == expected


def test_the_fixed_partitioner_uses_one_partition() -> None:
    rows = pa.RecordBatch.from_pydict({"key": ["x", "y"], "value": ["1", "2"]})
    (made,) = preparation(RAW, partitioner=KafkaPartitioner.FIXED).prepare(rows)
    assert made.partitions.tolist() == [2, 2]


def test_round_robin_uses_all_partitions_and_ignores_the_key() -> None:
    rows = pa.RecordBatch.from_pydict({"key": ["k"] * 3000, "value": ["x" * 100] * 3000})
    (made,) = preparation(RAW, partitioner=KafkaPartitioner.ROUND_ROBIN).prepare(rows)
    assert set(made.partitions.tolist()) == {0, 1, 2}


def test_a_partitioner_sees_the_rows_of_the_records_that_it_assigns() -> None:
    class ByColumn(RecordPartitioner):
        def partition(self, rows: Any, keys: Any, values: Any, topic: str, count: int) -> Any:
            assert (topic, keys.to_pylist()) == ("a", [b"b", b"d"])
            return rows.column("at")

    schema = KafkaRecordSerializationSchema(
        topic_column="to", key_fields="key", value_format="json", value_fields="except-key"
    )
    made = preparation(schema, partitioner=ByColumn(), of=context(RecordPolicy.skip()))
    rows = {"key": ["a", "b", "c", "d"], "at": [0, 1, 9, 2], "to": ["x", "a", "x", "a"]}
    for _ in range(2):
        (found,) = made.prepare(pa.RecordBatch.from_pydict(rows))
        assert found.partitions.tolist() == [1, 2]


# --- Properties of the sink -------------------------------------------------------------------


def test_a_sink_can_be_pickled_and_hides_its_secrets() -> None:
    sink = KafkaSink(
        "one:1,two:2",
        serialization=RAW,
        properties={
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "me",
            "sasl.password": "canary-9",  # pragma: allowlist secret
        },
    )
    assert pickle.loads(pickle.dumps(sink)) == sink
    assert "canary" not in repr(sink)


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, "exactly-once"])
def test_a_delivery_guarantee_requires_acks_from_all_replicas(guarantee: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        KafkaSink("x:1", serialization=RAW, delivery_guarantee=guarantee, properties={"acks": "1"})
    assert refused.value.option == "properties.acks"


@pytest.mark.parametrize("shown", ["serialization.key_fields", "key.fields"])
def test_the_error_of_a_missing_column_names_the_setting_as_the_user_gave_it(
    tmp_path: Path, shown: str
) -> None:
    if shown != "key.fields":
        schema = KafkaRecordSerializationSchema(
            topic="a", key_format=JsonFormat(), key_fields=("id",), value_format=JsonFormat()
        )
        sink = KafkaSink("x:1", serialization=schema)
    else:
        options = {"topic": "a", "key.format": "json", "key.fields": "id", "value.format": "json"}
        sink = KafkaSink.from_options({"properties.bootstrap.servers": "x:1", **options})
    pipeline = InProcess().pipeline("p", tmp_path)
    rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
    with pytest.raises(ConfigurationError, match=f"option: {shown}"):
        pipeline.sink_to(rows, sink, uid="out")


def test_an_upsert_needs_a_key() -> None:
    schema = KafkaRecordSerializationSchema(topic="a", value_format=JsonFormat())
    with pytest.raises(ConfigurationError) as refused:
        KafkaSink("x:1", serialization=schema, upsert=UpsertMode.EVERY_ROW)
    assert refused.value.option == "key.fields"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("kafka.bootstrap.servers", "properties.bootstrap.servers"),
        ("sink.semantic", "sink.delivery-guarantee"),
        ("includeHeaders", "headers.column"),
        ("sink.buffer-flush.max-rows", "sink.upsert"),
        ("format", "value.format"),
    ],
)
def test_option_names_of_flink_and_spark_lead_to_a_suggestion(key: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=meant.replace(".", r"\.")):
        KafkaSink.from_options({"properties.bootstrap.servers": "x:1", "topic": "a", key: "1"})


@pytest.mark.parametrize("topic", ["flights;delays", "flights,delays", "flights delays", "x" * 250])
def test_the_topic_of_all_records_is_one_topic(topic):
    with pytest.raises(InvalidOptionError, match=r"the name of one topic.*'topic_column'"):
        KafkaRecordSerializationSchema(topic=topic)
