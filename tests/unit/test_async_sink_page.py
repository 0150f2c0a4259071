# SPDX-License-Identifier: Apache-2.0
"""The sink of docs/write-a-connector/async-sink.md passes the suites."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
from document_service import running_service
from page_modules import modules_of

from connectors_core.testing import (
    ROWS,
    Capabilities,
    Capability,
    SinkExternalContext,
    SinkTestSuite,
)

document_sink = modules_of("async-sink.md")["document_sink"]


class Documents(SinkExternalContext):
    def __init__(self, folder: Path) -> None:
        self.running = ExitStack()
        self.service = self.running.enter_context(running_service(folder / "documents"))

    def create_sink(self):
        return document_sink.DocumentSink(self.service.port)

    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        columns = [
            pa.array([document.get(field.name) for document in self.service.documents()])
            for field in schema
        ]
        return pa.table(
            [column.cast(field.type) for column, field in zip(columns, schema, strict=True)],
            schema=schema,
        )

    def close(self) -> None:
        self.running.close()


class TestDocumentSink(SinkTestSuite):
    written_for = "1.1"
    capabilities = Capabilities(
        can=frozenset({Capability.SCHEMA_CHANGE}),
        cannot={
            Capability.EXACTLY_ONCE: "what a request has written cannot be taken back",
            Capability.LEASES: "it has no committer",
            Capability.REWRITING: "it has no committer",
            Capability.DATA_TYPES: "the types are those of JSON",
            Capability.SECRETS: "the example has no login",
        },
    )

    def external_context(self, folder: Path) -> Documents:
        return Documents(folder)
