# SPDX-License-Identifier: Apache-2.0
"""Runs the core's unit suites, which test each part of the connector separately."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import connector_nats as connector
import connector_nats_suites as suites
from connector_nats.enumerator import EnumeratorState
from connector_nats.split import StreamSplit
from connectors_core.testing import (
    AsyncSinkWriterTestSuite,
    Capabilities,
    Capability,
    OptionsTestSuite,
    SerializerTestSuite,
    SourceReaderTestSuite,
    SplitEnumeratorTestSuite,
)

pytestmark = pytest.mark.cell

# Stored state that later releases must read: one file for each layout, which
# `pytest --connector-write-state` writes once.
STATE = Path(__file__).parent / "state"


class OfOptions:
    """What the suites of options share."""

    written_for = suites.SUITES
    capabilities = Capabilities(can=frozenset({Capability.SECRETS}))


class TestReader(suites.OfSource, SourceReaderTestSuite):
    pass


class TestEnumerator(suites.OfSource, SplitEnumeratorTestSuite):
    pass


class TestSourceSerializers(suites.OfSource, SerializerTestSuite):
    state_folder = STATE

    def examples(self) -> Mapping[str, list[object]]:
        split = StreamSplit(split_id="flights/1", stream="flights", position=120, stop=200, end=200)
        state = EnumeratorState(next={"a": 60, "b": None}, waiting=(split,), complete=True)
        return {"split": [split], "enumerator-state": [state]}


class TestSourceOptions(OfOptions, OptionsTestSuite):
    factory = connector.NatsSource

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return {"servers": "nats://127.0.0.1:4222", "streams": "flights"}


class TestWriter(suites.OfSink, AsyncSinkWriterTestSuite):
    pass


class TestSinkOptions(OfOptions, OptionsTestSuite):
    factory = connector.NatsSink

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return {"servers": "nats://127.0.0.1:4222", "subject": "flights.late"}
