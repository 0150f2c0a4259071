# SPDX-License-Identifier: Apache-2.0
"""Runs the suite for the sink of docs/write-a-connector/topologies.md."""

from __future__ import annotations

from page_modules import modules_of

TestSnapshotSink = modules_of("write-a-connector/topologies.md")[
    "test_snapshot_sink"
].TestSnapshotSink
