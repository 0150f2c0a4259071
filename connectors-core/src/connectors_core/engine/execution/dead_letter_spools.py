# SPDX-License-Identifier: Apache-2.0
"""Spool files of dead letters: each attempt writes its own, the driver reads the valid ones."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from connectors_core.engine.state import StateStore
from connectors_core.errors import StateCorruptedError
from connectors_core.records import DEAD_LETTER_SCHEMA, BadRecord

_SPOOL_FOLDER: Final = "spool"
_BATCH_ROWS: Final = 1000
_BATCH_BYTES: Final = 8 << 20


class DeadLetterSpool:
    """Writes the dead letters of one attempt to a file, as an Arrow IPC stream; executor.

    Memory is bounded: the spool flushes every 1000 rows or 8 MiB. The file becomes visible when it
    is closed. A failed attempt leaves no file.

    Args:
        store: The state location.
        name: Path of the file; must be unique to the attempt.
        batch_rows: Maximum number of rows in memory.
        batch_bytes: Maximum number of bytes of raw records in memory.
    """

    def __init__(
        self,
        store: StateStore,
        name: str,
        *,
        batch_rows: int = _BATCH_ROWS,
        batch_bytes: int = _BATCH_BYTES,
    ) -> None:
        self._name = name
        self._batch_rows = batch_rows
        self._batch_bytes = batch_bytes
        self._output = store.open_output(name)
        self._writer = pa.ipc.new_stream(self._output, DEAD_LETTER_SCHEMA)
        self._buffer: list[BadRecord] = []
        self._buffered_bytes = 0
        self._rows = 0

    @property
    def name(self) -> str:
        """Path of the file within the store."""
        return self._name

    @property
    def rows(self) -> int:
        """Number of records appended."""
        return self._rows

    def append(self, record: BadRecord) -> None:
        """Add a record."""
        self._buffer.append(record)
        self._buffered_bytes += len(record.raw or b"") + len(record.reason)
        self._rows += 1
        if len(self._buffer) >= self._batch_rows or self._buffered_bytes >= self._batch_bytes:
            self._flush()

    def close(self) -> None:
        """Flush and publish the file; durable when this returns."""
        if self._output.closed:
            return
        try:
            self._flush()
            self._writer.close()
        except BaseException:
            self.abort()
            raise
        self._output.close()

    def abort(self) -> None:
        """Discard the file."""
        self._output.abort()

    def _flush(self) -> None:
        if not self._buffer:
            return
        records, self._buffer, self._buffered_bytes = self._buffer, [], 0
        columns: list[list[Any]] = [
            [record.code for record in records],
            [record.reason for record in records],
            [record.source_uid for record in records],
            [record.split_id for record in records],
            [record.position for record in records],
            [record.raw for record in records],
            [record.when for record in records],
        ]
        arrays = [
            pa.array(column, type=each.type)
            for column, each in zip(columns, DEAD_LETTER_SCHEMA, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=DEAD_LETTER_SCHEMA))


def read_spool(store: StateStore, name: str) -> Iterator[pa.RecordBatch]:
    """Read the dead letters of a spool batch by batch; driver or executor.

    Raises:
        FileNotFoundError: If the spool does not exist.
        StateCorruptedError: If it is not a spool of dead letters.
    """
    with store.open_input(name) as file:
        try:
            with pa.ipc.open_stream(file) as reader:
                yield from reader
        except pa.ArrowInvalid as exc:
            raise StateCorruptedError(
                f"the dead-letter spool {name} is truncated or was altered", found=str(exc)
            ) from exc


def spool_factory(store: StateStore, *labels: str) -> Callable[[], DeadLetterSpool]:
    """Return a function that opens the spool of an attempt at the first dead letter.

    Args:
        store: The state location.
        *labels: Labels that tell a person whose spool it is, such as epoch, uid, and subtask. They
            become folders below `spool/`, so the spools of an epoch can be removed together.

    Returns:
        A function that opens a spool under a unique name.
    """
    folders = "/".join((_SPOOL_FOLDER, *(_safe(label) for label in labels)))

    def open_spool() -> DeadLetterSpool:
        return DeadLetterSpool(store, f"{folders}/{uuid.uuid4().hex}.arrows")

    return open_spool


def _safe(label: str) -> str:
    """Turn a label into a folder name, which need not be unique."""
    return re.sub(r"[^A-Za-z0-9_\-]", "_", label) or "_"
