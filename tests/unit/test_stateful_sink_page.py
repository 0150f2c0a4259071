# SPDX-License-Identifier: Apache-2.0
"""Runs the suite for the sink of docs/write-a-connector/stateful-sink.md."""

from __future__ import annotations

from page_modules import modules_of

TestLedgerSink = modules_of("write-a-connector/stateful-sink.md")["test_ledger_sink"].TestLedgerSink
