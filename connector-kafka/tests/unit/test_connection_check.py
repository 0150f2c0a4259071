# SPDX-License-Identifier: Apache-2.0
"""Tests that an unresponsive cluster is reported within seconds."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from connector_kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from connectors_core.errors import RetryableError
from connectors_core.testing import check_connections


@pytest.fixture(params=["refuses", "is silent"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            server.listen()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_source_and_sink_name_the_unresponsive_brokers(address: str) -> None:
    parts = {
        "source": KafkaSource(address, topics="flights"),
        "sink": KafkaSink(
            address, serialization=KafkaRecordSerializationSchema(topic="t", value_format="json")
        ),
    }
    for name, part in parts.items():
        with pytest.raises(RetryableError, match=name) as raised:
            check_connections({name: part}, 1.0)
        assert address in str(raised.value)
