# SPDX-License-Identifier: Apache-2.0
"""Rows of entries that readers keep in the state location for later drivers. Executor."""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Iterator
from typing import IO, Final

import pyarrow as pa

from connectors_core.engine.protocol import Entry, KeptRows, kept_path
from connectors_core.engine.state import StateStore

KEPT_ROWS: Final = pa.ipc.IpcWriteOptions(compression="lz4")
"""The format of kept rows."""


def keep_rows(store: StateStore, entry: Entry, shape: str, spooled: IO[bytes]) -> KeptRows:
    """Store the emitted rows of an entry; durable when this returns.

    Args:
        store: The state location of the entry's query.
        entry: The entry.
        shape: The shape of its reader; see `ReaderTask.shape`.
        spooled: All rows, as a stream of Arrow.
    """
    path = kept_path(entry.plan, entry.source, entry.subtask, secrets.token_hex(8))
    spooled.seek(0)
    with store.open_output(path) as output:
        shutil.copyfileobj(spooled, output)
    return KeptRows(path=path, shape=_digest(shape))


def kept_rows(
    store: StateStore, kept: KeptRows | None, shape: str
) -> Iterator[pa.RecordBatch] | None:
    """Return the kept rows of an entry, or None if its reader must read them again.

    Args:
        store: The state location of the entry's query.
        kept: The rows, if any are kept.
        shape: The shape of the reader that needs them.
    """
    if kept is None or kept.shape != _digest(shape):
        return None
    try:
        file = store.open_input(kept.path)
    except FileNotFoundError:
        return None
    return _batches(file)


def _batches(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
    with file, pa.ipc.open_stream(file) as reader:
        yield from reader


def _digest(shape: str) -> str:
    return hashlib.sha256(shape.encode()).hexdigest()
