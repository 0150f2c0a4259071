# SPDX-License-Identifier: Apache-2.0
"""Runs the suite for the sink of docs/write-a-connector/compaction.md."""

from __future__ import annotations

from page_modules import modules_of

TestLinesSink = modules_of("write-a-connector/compaction.md")["test_lines_sink"].TestLinesSink
