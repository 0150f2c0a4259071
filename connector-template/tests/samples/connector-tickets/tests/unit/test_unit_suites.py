# SPDX-License-Identifier: Apache-2.0
"""Runs the core's unit suites, which test each part of the connector separately."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import connector_tickets as connector
import connector_tickets_suites as suites
from connectors_core.source.pages import PageEnumeratorState, PageSplit
from connectors_core.testing import (
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

    def valid_options(self, folder: Path) -> dict[str, Any]:
        login = {"client.id": "tester", "client.secret": "open sesame"}  # pragma: allowlist secret
        return {"url": "http://127.0.0.1:9000", **login}


class TestReader(suites.OfSource, SourceReaderTestSuite):
    pass


class TestEnumerator(suites.OfSource, SplitEnumeratorTestSuite):
    pass


class TestSourceSerializers(suites.OfSource, SerializerTestSuite):
    state_folder = STATE

    def examples(self) -> Mapping[str, list[object]]:
        start, end = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))
        split = PageSplit.of("tea", start, end)
        state = PageEnumeratorState(ends={"tea": end}, waiting=(split,), complete=True)
        return {"split": [split], "enumerator-state": [state]}


class TestSourceOptions(OfOptions, OptionsTestSuite):
    factory = connector.TicketsSource
