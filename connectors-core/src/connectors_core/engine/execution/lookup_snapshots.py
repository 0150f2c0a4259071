# SPDX-License-Identifier: Apache-2.0
"""Snapshots of fully cached tables: one task writes them, all others map them into memory.

A snapshot is an Arrow stream in the state location. The first task that needs it copies it to
Spark's local disk, sorted for the search. All processes on the host map that copy, so its pages are
in memory once. Each host keeps the newest two copies of a table. A process that creates a copy also
removes the copies of tables that have not been opened for an hour.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from connectors_core.engine.protocol import LookupVersion
from connectors_core.engine.state import StateStore
from connectors_core.errors import StateCorruptedError, StateLocationError
from connectors_core.lookup.function import FunctionContext, LookupFunction
from connectors_core.lookup.hash_index import LAYOUT, HashIndex
from connectors_core.metrics import LookupMetric

_KEPT: Final = 2
_UNUSED_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class WrittenSnapshot:
    """The result of :func:`write_snapshot`.

    Attributes:
        file: Path relative to the folder of the table.
        rows: Number of rows.
        bytes: Size of the file.
    """

    file: str
    rows: int
    bytes: int


def write_snapshot(
    store: StateStore, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> WrittenSnapshot:
    """Write the rows of a table to a new file. Executor or driver.

    Args:
        store: The folder of the table in the state location.
        schema: Schema of the rows.
        batches: The rows.
    """
    file = f"{secrets.token_hex(8)}.arrow"
    rows = 0
    with store.open_output(file) as output:
        with pa.ipc.new_stream(output, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        size = output.tell()
    return WrittenSnapshot(file, rows, size)


class SnapshotLookup(LookupFunction):
    """Finds rows in one version of a table.

    Args:
        store: The folder of the table in the state location.
        version: The version.
        schema: Schema of its rows: the keys, then the other columns.
        keys: Number of key columns.
    """

    def __init__(
        self, store: StateStore, version: LookupVersion, schema: pa.Schema, keys: int
    ) -> None:
        self._store = store
        self._version = version
        self._schema = schema
        self._keys = schema.names[:keys]
        self._index: HashIndex | None = None

    def open(self, context: FunctionContext) -> None:
        """Map the copy of this host; create it if necessary."""
        folder = local_folder() / self._version.pipeline_id / context.uid
        self._index = self._map_copy(folder)
        context.metric_group.set(LookupMetric.NUM_CACHED_RECORD, self._index.num_rows)
        context.metric_group.set(LookupMetric.NUM_CACHED_BYTES, self._index.nbytes)

    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        """Find rows."""
        assert self._index is not None
        return self._index.find(keys)

    def close(self) -> None:
        """Release the copy."""
        self._index = None

    def _map_copy(self, folder: Path) -> HashIndex:
        copy = folder / f"{self._version.number:010d}-{Path(self._version.file).stem}-{LAYOUT}"
        with _in_use(folder), _locked(folder / ".lock"):
            is_new = not copy.is_dir()
            if is_new:
                for left in folder.glob(".*.tmp"):  # left by a killed process
                    shutil.rmtree(left, ignore_errors=True)
                building = Path(tempfile.mkdtemp(dir=folder, prefix=".", suffix=".tmp"))
                HashIndex.write(self._read(), self._keys, building)
                building.rename(copy)
            index = HashIndex.open(copy, self._keys)
            versions = sorted(path for path in folder.iterdir() if path.name[0] != ".")
            for old in versions[:-_KEPT]:
                if old != copy:
                    shutil.rmtree(old, ignore_errors=True)  # processes that have mapped it keep it
        if is_new:
            _remove_unused()
        return index

    def _read(self) -> pa.Table:
        try:
            with self._store.open_input(self._version.file) as file:
                rows = pa.ipc.open_stream(file).read_all()
        except FileNotFoundError as error:
            raise StateCorruptedError(
                f"version {self._version.number} of a fully cached table is missing",
                found=f"no {self._version.file} in {self._store}",
            ) from error
        if not rows.schema.equals(self._schema):
            raise StateCorruptedError(
                "the columns of a fully cached table changed before its batch ran again",
                expected=str(self._schema),
                found=str(rows.schema),
                hint="start the pipeline once with the original lookup join",
            )
        return rows


def local_folder() -> Path:
    """Return the folder of this user's copies: below Spark's first local directory, if set."""
    base = os.environ.get("LOCAL_DIRS") or os.environ.get("SPARK_LOCAL_DIRS")
    return Path(
        base.split(",")[0] if base else tempfile.gettempdir(), f"connectors-lookup-{os.getuid()}"
    )


def remove_local_copies(pipeline_id: str) -> None:
    """Remove this host's copies for a pipeline that has ended. Driver."""
    shutil.rmtree(local_folder() / pipeline_id, ignore_errors=True)
    with _folder_locked(fcntl.LOCK_EX | fcntl.LOCK_NB) as alone:
        if alone:
            with suppress(OSError):  # the folder holds copies of other pipelines
                local_folder().rmdir()


def _remove_unused() -> None:
    """Remove copies that have not been opened for an hour, such as those of ended pipelines.

    A process that has mapped a copy keeps it. A process that needs it later creates it again.
    """
    with _folder_locked(fcntl.LOCK_EX | fcntl.LOCK_NB) as alone:
        if not alone:  # a process opens a copy: the next one cleans up
            return
        oldest = time.time() - _UNUSED_SECONDS
        for folder in local_folder().glob("*/*"):
            with suppress(OSError):  # the driver is removing it, or its pipeline has other tables
                if folder.stat().st_mtime < oldest:
                    shutil.rmtree(folder)
                    folder.parent.rmdir()


@contextmanager
def _in_use(folder: Path) -> Iterator[None]:
    """Create a table's folder if necessary, and keep it from being removed as unused."""
    with _folder_locked(fcntl.LOCK_SH):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        yield


@contextmanager
def _folder_locked(how: int) -> Iterator[bool]:
    """Lock the folder of all copies for the context; yields whether that succeeded."""
    opened = _locked_folder(how)
    try:
        yield opened is not None
    finally:
        if opened is not None:
            os.close(opened)


def _locked_folder(how: int) -> int | None:
    while True:
        with suppress(FileNotFoundError):  # an ending pipeline has just removed it
            opened = os.open(_own_folder(), os.O_RDONLY)
            try:
                fcntl.flock(opened, how)
            except BlockingIOError:
                os.close(opened)
                return None
            if os.fstat(opened).st_nlink:
                return opened
            os.close(opened)  # it was removed before the lock was taken


def _own_folder() -> Path:
    folder = local_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise StateLocationError(
            f"the folder for copies of lookup tables, {folder}, belongs to another user",
            hint="remove it, or set SPARK_LOCAL_DIRS",
        )
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed or the process ends
        yield
