# SPDX-License-Identifier: Apache-2.0
"""Tests that what 3.0 has renamed or removed fails with an error that names the new form."""

from __future__ import annotations

import pytest

from connector_kafka import IsolationLevel, KafkaSource
from connectors_core.errors import InvalidOptionError, UnknownOptionError

SERVERS = "host:9092"
OPTIONS = {"properties.bootstrap.servers": SERVERS, "topic": "flights"}


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("isolation.level", "properties.isolation.level"),
        ("scan.isolation-level", "properties.isolation.level"),
        ("scan.poll-interval", "source.poll-interval"),
    ],
)
def test_a_former_key_names_the_new_one(key: str, instead: str) -> None:
    with pytest.raises(UnknownOptionError, match=f"use '{instead}'"):
        KafkaSource.from_options({**OPTIONS, key: "1"})


@pytest.mark.parametrize(
    "keyword",
    [
        "key_fields",
        "key_fields_prefix",
        "key_format",
        "metadata_columns",
        "schema",
        "value_fields",
        "value_format",
    ],
)
def test_a_keyword_of_the_columns_names_the_deserialization(keyword: str) -> None:
    instead = rf"deserialization=KafkaRecordDeserializationSchema\({keyword}=...\)"
    with pytest.raises(TypeError, match=instead):
        KafkaSource(SERVERS, topics="flights", **{keyword: "x"})


def test_the_keyword_of_a_stream_that_ends_names_the_new_ones() -> None:
    with pytest.raises(TypeError, match=r"use bounded=\.\.\., as_stream=True"):
        KafkaSource(SERVERS, topics="flights", unbounded=None)


@pytest.mark.parametrize("level", ["read_committed", IsolationLevel.READ_COMMITTED])
def test_the_isolation_level_is_a_property_with_a_keyword(level: str | IsolationLevel) -> None:
    by_keyword = KafkaSource(SERVERS, topics="flights", isolation_level=level)
    by_key = KafkaSource.from_options({**OPTIONS, "properties.isolation.level": "read_committed"})
    for source in (by_keyword, by_key):
        assert source._enumeration.isolation is IsolationLevel.READ_COMMITTED
        assert source._enumeration.isolation is IsolationLevel.READ_COMMITTED
    assert (
        KafkaSource(SERVERS, topics="f")._enumeration.isolation is IsolationLevel.READ_UNCOMMITTED
    )


def test_an_unknown_isolation_level_is_refused_with_those_of_kafka() -> None:
    with pytest.raises(InvalidOptionError, match="read_uncommitted, read_committed") as refused:
        KafkaSource(SERVERS, topics="flights", isolation_level="read-committed")
    assert refused.value.option == "isolation.level"
