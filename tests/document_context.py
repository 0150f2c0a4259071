# SPDX-License-Identifier: Apache-2.0
"""The suites' context for the service of docs/write-a-connector/async-sink.md."""

from __future__ import annotations

from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pyarrow as pa
from document_service import running_service

from connectors_core.testing import ROWS, AsyncSinkExternalContext


class DocumentsToTreat(AsyncSinkExternalContext):
    """Start a separate service."""

    def __init__(self, folder: Path) -> None:
        self.running = ExitStack()
        self.service = self.running.enter_context(running_service(folder / "documents"))
        self.page = import_module("document_sink")  # importable through `page_modules`

    def create_sink(self):
        return self.page.DocumentSink(self.service.port)

    def create_async_sink(self, configuration):
        return self.page.DocumentSink(self.service.port, configuration)

    def treat(self, fault, requests=None):
        self.service.tell(fault=fault, requests=requests)

    def reject(self, seq):
        self.service.tell(reject=seq)

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
