# SPDX-License-Identifier: Apache-2.0
"""Tests the columns of rows and messages, and the IDs of messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from connector_nats import NatsSink, NatsSource
from connector_nats.client import MESSAGES
from connector_nats.publisher import Message
from connector_nats.source import check_retention
from connectors_core.errors import ConfigurationError
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.sink import WriterInitContext

SERVER = "nats://localhost:4222"
FLIGHTS = pa.schema([("flight", pa.string()), ("delay", pa.int64())])
ROWS = pa.RecordBatch.from_pylist(
    [{"flight": "UA1545", "delay": 2}, {"flight": "UA1545", "delay": 2}], schema=FLIGHTS
)


def messages_of(sink: NatsSink, rows: pa.RecordBatch = ROWS, **context: Any) -> list[Message]:
    """Return the messages of rows, as one attempt of one task makes them."""
    settings: dict[str, Any] = {
        "pipeline_id": "p",
        "sink_uid": "s",
        "checkpoint_id": 3,
        "subtask_id": 1,
        "attempt_number": 0,
        "nonce": "n",
        "schema": rows.schema,
        "record_errors": RecordErrorHandler(RecordPolicy.fail()),
    }
    made = WriterInitContext(**{**settings, **context})
    return list(sink.columns.converter(made).apply(rows, made))


def test_metadata_stay_with_their_messages_if_one_is_bad() -> None:
    source = NatsSource(
        SERVER, streams="a", format="json", schema=FLIGHTS, metadata_columns=["sequence"]
    )
    data = [b'{"flight": "UA1545", "delay": 2}', b"{", b'{"flight": "B6725", "delay": 9}']
    found = [{"sequence": at, "data": each} for at, each in enumerate(data)]
    rows, bad = source.layout.rows(pa.RecordBatch.from_pylist(found, schema=MESSAGES))
    assert rows.schema == source.schema()
    assert rows.column("sequence").to_pylist() == [0, 2]
    assert [each.at for each in bad] == [1]


def test_without_a_format_the_data_is_the_only_column() -> None:
    assert NatsSource(SERVER, streams="a").schema() == pa.schema([("value", pa.binary())])


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"format": "json"}, "schema"),
        ({"format": "json", "schema": "time INT", "metadata_columns": "time"}, "metadata.columns"),
    ],
)
def test_columns_that_do_not_fit_are_refused(settings: dict[str, Any], option: str) -> None:
    with pytest.raises(ConfigurationError) as failure:
        NatsSource(SERVER, streams="a", **settings)
    assert failure.value.option == option


@pytest.mark.parametrize(
    ("retention", "durable", "option"),
    [
        ("workqueue", "spark", "streams"),
        ("workqueue", None, "streams"),
        ("interest", None, "source.durable"),
    ],
)
def test_a_stream_that_does_not_keep_messages_is_refused(
    retention: str, durable: str | None, option: str
) -> None:
    with pytest.raises(ConfigurationError) as failure:
        check_retention("orders", retention, durable)
    assert failure.value.option == option


def test_another_attempt_repeats_the_ids_of_its_rows() -> None:
    sink = NatsSink(SERVER, subject="late")
    first, second = messages_of(sink)
    assert first.body == second.body
    assert first.id != second.id  # two equal rows are two messages
    assert messages_of(sink, attempt_number=1, nonce="other") == [first, second]


@pytest.mark.parametrize(
    "other",
    [{"pipeline_id": "q"}, {"sink_uid": "t"}, {"checkpoint_id": 4}, {"subtask_id": 2}],
)
def test_rows_of_another_origin_have_other_ids(other: dict[str, Any]) -> None:
    sink = NatsSink(SERVER, subject="late")
    ids = {each.id for each in messages_of(sink)}
    assert ids.isdisjoint(each.id for each in messages_of(sink, **other))


def test_other_rows_at_the_same_place_have_other_ids() -> None:
    sink = NatsSink(SERVER, subject="late")
    changed = ROWS.set_column(1, "delay", pa.array([2, 3]))
    kept, dropped = messages_of(sink), messages_of(sink, changed)
    assert kept[0] == dropped[0]
    assert kept[1].id != dropped[1].id


def test_columns_give_the_subject_and_the_id() -> None:
    sink = NatsSink(SERVER, subject_column="flight", id_column="delay")
    sink.validate(FLIGHTS)
    rows = ROWS.append_column("gate", pa.array(["A", "B"]))
    assert messages_of(sink, rows)[1] == Message("UA1545", "2", b'{"gate":"B"}')


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ConfigurationError, match="'gate'") as failure:
        NatsSink(SERVER, subject="late", id_column="gate").validate(FLIGHTS)
    assert failure.value.option == "id.column"
