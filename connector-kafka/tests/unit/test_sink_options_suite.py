# SPDX-License-Identifier: Apache-2.0
"""Runs the core's options suite on the Kafka sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from connector_kafka import KAFKA_SINK_OPTIONS, KafkaSink
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
