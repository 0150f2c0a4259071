# SPDX-License-Identifier: Apache-2.0
"""Runs the suites for the sink of docs/write-a-connector/async-sink.md."""

from __future__ import annotations

from pathlib import Path

from document_context import DocumentsToTreat
from page_modules import modules_of

from connectors_core.testing import Capabilities, Capability, SinkTestSuite

TestDocumentWriter = modules_of("write-a-connector/async-sink.md")[
    "test_document_writer"
].TestDocumentWriter


class TestDocumentSink(SinkTestSuite):
    written_for = "1.1"
    capabilities = Capabilities(
        can=frozenset({Capability.SCHEMA_CHANGE}),
        cannot={
            Capability.EXACTLY_ONCE: "a sent request cannot be undone",
            Capability.LEASES: "it has no committer",
            Capability.REWRITING: "it has no committer",
            Capability.DATA_TYPES: "the types are those of JSON",
            Capability.SECRETS: "the example has no login",
        },
    )

    def external_context(self, folder: Path) -> DocumentsToTreat:
        return DocumentsToTreat(folder)
