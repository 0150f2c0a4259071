# SPDX-License-Identifier: Apache-2.0
"""The unit suites of the core: each part of the connector by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from log_suites import (
    SINK,
    SUITES,
    SinkTopic,
)

from connector_elasticsearch.lookup import TABLE_OPTIONS, ElasticsearchTable
from connector_elasticsearch.sink import SINK_OPTIONS, ElasticsearchSink
from connector_elasticsearch.source import SOURCE_OPTIONS, ElasticsearchSource
from connector_elasticsearch.testing import LogSystem
from connector_elasticsearch.writer import Committable
from connectors_core.testing import (
    Capabilities,
    Capability,
    CommitterTestSuite,
    OptionsTestSuite,
    SerializerTestSuite,
)

pytestmark = pytest.mark.cell

# What a release stored later ones must read: one file for each layout, which is written once, by
# `pytest --connector-write-state`.
STATE = Path(__file__).parent / "state"
OPTIONS = Capabilities(can=frozenset({Capability.SECRETS}))
VALID = {"address": "127.0.0.1:9000", "topic": "flights"}


class TestSourceOptions(OptionsTestSuite):
    written_for = SUITES
    capabilities = OPTIONS
    factory = ElasticsearchSource
    options = SOURCE_OPTIONS

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return {"hosts": "http://127.0.0.1:9200", "index": "flights"}


class TestTableOptions(OptionsTestSuite):
    written_for = SUITES
    capabilities = OPTIONS
    factory = ElasticsearchTable
    options = TABLE_OPTIONS

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return {"hosts": "http://127.0.0.1:9200", "index": "planes"}


class TestCommitter(CommitterTestSuite):
    system = LogSystem()
    written_for = SUITES
    capabilities = SINK

    def external_context(self, folder: Path) -> SinkTopic:
        return SinkTopic(self.address)


class TestSinkSerializer(SerializerTestSuite):
    system = LogSystem()
    written_for = SUITES
    capabilities = SINK
    state_folder = STATE

    def external_context(self, folder: Path) -> SinkTopic:
        return SinkTopic(self.address)

    def examples(self) -> Mapping[str, list[object]]:
        transaction = "p-1/out/0000000001/00000-0-1a2b"
        return {"committable": [Committable(transaction=transaction, rows=20)]}


class TestSinkOptions(OptionsTestSuite):
    written_for = SUITES
    capabilities = OPTIONS
    factory = ElasticsearchSink
    options = SINK_OPTIONS

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return VALID
