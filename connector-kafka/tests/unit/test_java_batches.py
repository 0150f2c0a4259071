# SPDX-License-Identifier: Apache-2.0
"""Tests reading batches that Java's producer wrote and a broker stored."""

from __future__ import annotations

from pathlib import Path

import pytest
from java_batches.make import CODECS, FOLDER, RECORDS
from record_batches import START, rows_of

from connector_kafka.records.batches import HEADER


def of_java(name: str) -> bytes:
    return (Path(FOLDER) / f"{name}.log").read_bytes()


def contents(rows):
    return [
        (
            row["offset"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in rows
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_java_are_read_in_every_codec(codec):
    raw = of_java(codec)
    assert HEADER.unpack_from(raw)[5] & 7 == CODECS.index(codec)
    rows, position = rows_of(raw)
    assert position == len(RECORDS)
    assert contents(rows) == [
        (offset, record.key, record.value, record.headers) for offset, record in enumerate(RECORDS)
    ]
    assert {row["timestamp_type"] for row in rows} == {0}
    assert min(row["timestamp"] for row in rows) > START


def test_the_append_times_of_the_broker_are_read():
    rows, _ = rows_of(of_java("log-append-time"))
    assert len(rows) == 20
    assert {row["timestamp_type"] for row in rows} == {1}
    assert len({row["timestamp"] for row in rows}) == 1


def test_transaction_markers_end_transactions():
    raw = of_java("transactions")
    (producer_id,) = {HEADER.unpack_from(raw)[9]}
    every, position = rows_of(raw, columns=["value"])
    # The log has three transactions, each with three records and a marker.
    assert (len(every), position) == (9, 12)
    rows, position = rows_of(raw, columns=["value"], aborted=[(producer_id, 4)])
    assert position == 12
    assert [row["value"] for row in rows] == [b"0-0", b"0-1", b"0-2", b"2-0", b"2-1", b"2-2"]
