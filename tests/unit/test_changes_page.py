# SPDX-License-Identifier: Apache-2.0
"""Runs the suite for the sink of docs/write-a-connector/changes.md."""

from __future__ import annotations

from page_modules import modules_of

TestTableSink = modules_of("write-a-connector/changes.md")["test_table_sink"].TestTableSink
