# SPDX-License-Identifier: Apache-2.0
"""Runs the core's options suite on the Kafka sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connector_kafka import KAFKA_SINK_OPTIONS, KafkaSink
from connectors_core.errors import UnknownOptionError
from connectors_core.testing import Capabilities, Capability, OptionsTestSuite

SUITES = "1.1"


class TestKafkaSinkOptions(OptionsTestSuite):
    written_for = SUITES
    capabilities = Capabilities(can=frozenset({Capability.SECRETS}))
    factory = KafkaSink
    options = KAFKA_SINK_OPTIONS

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return {
            "properties.bootstrap.servers": "localhost:9092",
            "topic": "out",
            "value.format": "json",
            "sink.delivery-guarantee": "exactly-once",
        }


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("sink.buffer-flush.max-rows", "'sink.upsert' last-of-each-key"),
        ("sink.buffer-flush.interval", "'sink.upsert' last-of-each-key"),
        ("value.json.timestamp-format.standard", "ISO 8601; remove it"),
    ],
)
def test_an_option_of_flinks_sink_is_refused_with_its_replacement(key: str, instead: str) -> None:
    given = {"properties.bootstrap.servers": "localhost:9092", "topic": "out", key: "1"}
    with pytest.raises(UnknownOptionError) as refused:
        KafkaSink.from_options(given)
    assert instead in (refused.value.hint or "")
