# SPDX-License-Identifier: Apache-2.0
"""Runs the core's unit suites, which test each part of the connector separately."""

from __future__ import annotations

{% if cookiecutter.source or cookiecutter.__commits %}
from collections.abc import Mapping
{% endif %}
from pathlib import Path
from typing import Any

import pytest

import {{ cookiecutter.__package }} as connector
import {{ cookiecutter.__package }}_suites as suites
{% if cookiecutter.source %}
from {{ cookiecutter.__package }}.enumerator import EnumeratorState
from {{ cookiecutter.__package }}.split import PartSplit
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


class OfOptions:
    """What the suites of options share."""

    written_for = suites.SUITES
    capabilities = Capabilities(can=frozenset({Capability.SECRETS}))

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return {"address": "127.0.0.1:9000", "topic": "flights"}
{% if cookiecutter.source %}


class TestReader(suites.OfSource, SourceReaderTestSuite):
    pass


class TestEnumerator(suites.OfSource, SplitEnumeratorTestSuite):
    pass


class TestSourceSerializers(suites.OfSource, SerializerTestSuite):
    state_folder = STATE

    def examples(self) -> Mapping[str, list[object]]:
        split = PartSplit(split_id="3/100", part="3", position=120, end=200)
        state = EnumeratorState(assigned={"0": 60, "1": None}, waiting=(split,), complete=True)
        return {"split": [split], "enumerator-state": [state]}


class TestSourceOptions(OfOptions, OptionsTestSuite):
    factory = connector.{{ cookiecutter.__class }}Source
{% endif %}
{% if cookiecutter.sink %}


{% if cookiecutter.__requests %}
class TestWriter(suites.OfSink, AsyncSinkWriterTestSuite):
    pass
{% else %}
class TestCommitter(suites.OfSink, CommitterTestSuite):
    pass


class TestSinkSerializer(suites.OfSink, SerializerTestSuite):
    state_folder = STATE

    def examples(self) -> Mapping[str, list[object]]:
        transaction = "p-1/out/0000000001/00000-0-1a2b"
        return {"committable": [Committable(transaction=transaction, rows=20)]}
{% endif %}


class TestSinkOptions(OfOptions, OptionsTestSuite):
    factory = connector.{{ cookiecutter.__class }}Sink
{% endif %}
{% if cookiecutter.lookup %}


class TestTableOptions(OfOptions, OptionsTestSuite):
    factory = connector.{{ cookiecutter.__class }}Table
{% endif %}
