# SPDX-License-Identifier: Apache-2.0
"""Runs the core's unit suites, which test each part of the connector separately."""

from __future__ import annotations

{% if cookiecutter.source or cookiecutter.__commits %}
from collections.abc import Mapping
{% endif %}
from pathlib import Path
from typing import Any

import pytest
from log_suites import (
{% if cookiecutter.sink %}
    SINK,
{% endif %}
{% if cookiecutter.source %}
    SOURCE,
{% endif %}
    SUITES,
{% if cookiecutter.sink %}
    SinkTopic,
{% endif %}
{% if cookiecutter.source %}
    SourceTopic,
{% endif %}
)

{% if cookiecutter.source %}
from {{ cookiecutter.__package }}.enumerator import EnumeratorState
{% endif %}
{% if cookiecutter.sink %}
from {{ cookiecutter.__package }}.sink import {{ cookiecutter.__class }}Sink
{% endif %}
{% if cookiecutter.source %}
from {{ cookiecutter.__package }}.source import {{ cookiecutter.__class }}Source
from {{ cookiecutter.__package }}.split import PartitionSplit
{% endif %}
{% if cookiecutter.lookup %}
from {{ cookiecutter.__package }}.table import {{ cookiecutter.__class }}Table
{% endif %}
{% if cookiecutter.source or cookiecutter.sink %}
from {{ cookiecutter.__package }}.testing import LogSystem
{% endif %}
{% if cookiecutter.__commits %}
from {{ cookiecutter.__package }}.writer import Committable
{% endif %}
from connectors_core.testing import (
{% if cookiecutter.__requests %}
    AsyncSinkWriterTestSuite,
{% endif %}
    Capabilities,
    Capability,
{% if cookiecutter.__commits %}
    CommitterTestSuite,
{% endif %}
    OptionsTestSuite,
{% if cookiecutter.source or cookiecutter.__commits %}
    SerializerTestSuite,
{% endif %}
{% if cookiecutter.source %}
    SourceReaderTestSuite,
    SplitEnumeratorTestSuite,
{% endif %}
)

pytestmark = pytest.mark.cell

# Stored state that later releases must read: one file for each layout, which
# `pytest --connector-write-state` writes once.
STATE = Path(__file__).parent / "state"
OPTIONS = Capabilities(can=frozenset({Capability.SECRETS}))
VALID = {"address": "127.0.0.1:9000", "topic": "flights"}
{% if cookiecutter.source %}


class OfSource:
    """What the suites of the parts of the source share."""

    system = LogSystem()
    written_for = SUITES
    capabilities = SOURCE

    def external_context(self, folder: Path) -> SourceTopic:
        return SourceTopic(self.address)


class TestReader(OfSource, SourceReaderTestSuite):
    pass


class TestEnumerator(OfSource, SplitEnumeratorTestSuite):
    pass


class TestSourceSerializers(OfSource, SerializerTestSuite):
    state_folder = STATE

    def examples(self) -> Mapping[str, list[object]]:
        split = PartitionSplit(split_id="flights/3/100", partition=3, offset=120, end=200)
        state = EnumeratorState(assigned={0: 60, 1: None}, waiting=(split,), complete=True)
        return {"split": [split], "enumerator-state": [state]}


class TestSourceOptions(OptionsTestSuite):
    written_for = SUITES
    capabilities = OPTIONS
    factory = {{ cookiecutter.__class }}Source

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return VALID
{% endif %}
{% if cookiecutter.sink %}


{% if cookiecutter.__requests %}
class TestWriter(AsyncSinkWriterTestSuite):
    system = LogSystem()
    written_for = SUITES
    capabilities = SINK

    def external_context(self, folder: Path) -> SinkTopic:
        return SinkTopic(self.address)
{% else %}
class OfSink:
    """What the suites of the parts of the sink share."""

    system = LogSystem()
    written_for = SUITES
    capabilities = SINK

    def external_context(self, folder: Path) -> SinkTopic:
        return SinkTopic(self.address)


class TestCommitter(OfSink, CommitterTestSuite):
    pass


class TestSinkSerializer(OfSink, SerializerTestSuite):
    state_folder = STATE

    def examples(self) -> Mapping[str, list[object]]:
        transaction = "p-1/out/0000000001/00000-0-1a2b"
        return {"committable": [Committable(transaction=transaction, rows=20)]}
{% endif %}


class TestSinkOptions(OptionsTestSuite):
    written_for = SUITES
    capabilities = OPTIONS
    factory = {{ cookiecutter.__class }}Sink

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return VALID
{% endif %}
{% if cookiecutter.lookup %}


class TestTableOptions(OptionsTestSuite):
    written_for = SUITES
    capabilities = OPTIONS
    factory = {{ cookiecutter.__class }}Table

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return VALID
{% endif %}
