# SPDX-License-Identifier: Apache-2.0
"""What the suites of the core need to know: how to fill the system, and what the connector can."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from connector_elasticsearch.sink import ElasticsearchSink
from connector_elasticsearch.testing import LogSystem, Topic
from connectors_core.testing import (
    ROWS,
    Capabilities,
    Capability,
    SinkExternalContext,
    SinkTestSuite,
)

# The release of the suites that these tests are written for: what later ones bring is new.
SUITES = "1.1"
# They select the cases. What the system cannot do at all goes into `cannot={...: "the reason"}`.
SINK = Capabilities(
    can=frozenset(
        {
            Capability.EXACTLY_ONCE,
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
        }
    ),
    cannot={
        Capability.LEASES: "every writer begins a transaction of its own",
        Capability.REWRITING: "a transaction stays open until it is ended",
    },
)


class SinkTopic(SinkExternalContext):
    """A topic for one case of a sink."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._name = f"suite-{uuid.uuid4().hex}"
        self._token = uuid.uuid4().hex
        self._topic = Topic(address, self._name)
        self._topic.create(ROWS)

    def create_sink(self) -> ElasticsearchSink:
        return ElasticsearchSink(self._address, self._name, token=self._token)

    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        return self._topic.rows(schema)

    def leftovers(self) -> Sequence[str]:
        return self._topic.open_transactions()

    def secrets(self) -> Sequence[str]:
        return [self._token]


class LogSinkSuite(SinkTestSuite):
    system = LogSystem()
    written_for = SUITES
    capabilities = SINK

    def external_context(self, folder: Path) -> SinkTopic:
        return SinkTopic(self.address)
