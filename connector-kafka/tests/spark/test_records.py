# SPDX-License-Identifier: Apache-2.0
"""Tests that a broker accepts the encoder's records and that Java reads them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from record_batches import START, rows_of

from connector_kafka.client.config import PRODUCER_PROPERTIES, ClientConfig
from connector_kafka.client.producer import Producer
from connector_kafka.records import Compression, Encoder
from connector_kafka.testing import KafkaBroker
from connector_kafka.testing.tools import console_consumer

pytestmark = pytest.mark.line("3.5")  # this test does not use Spark

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ROWS = [
    {
        "key": None if number % 7 == 0 else b"key-%d" % number,
        "value": None if number % 5 == 0 else b"value-%d " % number * (number % 50),
        "headers": [{"key": "a", "value": None}, {"key": "b", "value": b"1"}][: number % 3],
        "timestamp": START - 1_000 * number,
    }
    for number in range(500)
]


def test_java_reads_the_records_of_the_encoder_in_every_codec(
    broker: KafkaBroker, topic: str
) -> None:
    records = pa.RecordBatch.from_pylist(
        ROWS,
        schema=pa.schema(
            [
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("headers", HEADERS),
                ("timestamp", pa.int64()),
            ]
        ),
    )
    config = ClientConfig.of({"bootstrap.servers": broker.bootstrap_servers}, PRODUCER_PROPERTIES)
    producer = Producer(config)
    producer.be_idempotent()
    for compression in Compression:
        encoder = Encoder(
            compression=compression,
            batch_size=3_000,
            producer_id=producer.identity.producer_id,
            producer_epoch=producer.identity.epoch,
        )
        batches = encoder.encode(
            records,
            np.zeros(len(ROWS), np.int32),
            now=START,
            next_sequence=lambda partition: producer.next_sequence(topic, partition),
        )
        producer.send({(topic, partition): each for partition, each in batches.items()})
    producer.flush()
    producer.close()

    expected = len(Compression) * ROWS
    raw = b"".join(broker.segments(topic))
    codecs = {raw[at + 22] & 7 for at in batch_starts(raw)}
    assert codecs == set(Compression)
    rows, _ = rows_of(raw)
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == expected
    seen = console_consumer(broker.internal_servers, topic, quiet=3)
    assert [(each.offset, each.key, each.value, each.headers, each.timestamp) for each in seen] == [
        (
            offset,
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
            row["timestamp"],
        )
        for offset, row in enumerate(expected)
    ]


def batch_starts(raw: bytes) -> list[int]:
    starts, at = [], 0
    while at < len(raw):
        starts.append(at)
        at += 12 + int.from_bytes(raw[at + 8 : at + 12], "big")
    return starts
