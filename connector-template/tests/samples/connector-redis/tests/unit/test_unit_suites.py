# SPDX-License-Identifier: Apache-2.0
"""Runs the core's unit suites, which test each part of the connector separately."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import connector_redis as connector
import connector_redis_suites as suites
from connector_redis.enumerator import EnumeratorState
from connector_redis.split import PartSplit, Position
from connector_redis.writer import Committable
from connectors_core.testing import (
    Capabilities,
    Capability,
    CommitterTestSuite,
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

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return {"address": "127.0.0.1:6379", "stream": "flights"}


class TestReader(suites.OfSource, SourceReaderTestSuite):
    pass


class TestEnumerator(suites.OfSource, SplitEnumeratorTestSuite):
    pass


class TestSourceSerializers(suites.OfSource, SerializerTestSuite):
    state_folder = STATE

    def examples(self) -> Mapping[str, list[object]]:
        start, end = Position(1700000000000, 0, 120), Position(1700000000009, 3, 200)
        split = PartSplit(split_id="flights/0-0", part="flights", position=start, end=end)
        assigned = {"flights": end, "delays": None}
        state = EnumeratorState(assigned=assigned, waiting=(split,), complete=True)
        return {"split": [split], "enumerator-state": [state]}


class TestSourceOptions(OfOptions, OptionsTestSuite):
    factory = connector.RedisSource

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return super().valid_options(folder) | {"columns": "id BIGINT"}


class TestCommitter(suites.OfSink, CommitterTestSuite):
    pass


class TestSinkSerializer(suites.OfSink, SerializerTestSuite):
    state_folder = STATE

    def examples(self) -> Mapping[str, list[object]]:
        transaction = "p-1/out/0000000001/00000-0-1a2b"
        return {"committable": [Committable(transaction=transaction, rows=20)]}


class TestSinkOptions(OfOptions, OptionsTestSuite):
    factory = connector.RedisSink
