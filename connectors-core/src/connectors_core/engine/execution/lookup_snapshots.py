# SPDX-License-Identifier: Apache-2.0
"""Snapshots of tables that are cached as a whole: written by one task, mapped by all others.

A snapshot is an Arrow stream in the state location. The first task that needs it brings it to
Spark's local disk, in the order in which it is searched; all processes that have this folder map
that copy, so its pages are in memory once. The newest two of a table are kept, and those of tables
that nobody has opened for a while are removed by whoever makes the next copy.
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
from connectors_core.lookup.hash_index import HashIndex
from connectors_core.metrics import LookupMetric

_KEPT: Final = 2
_UNUSED_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class WrittenSnapshot:
    """What :func:`write_snapshot` wrote.

    Attributes:
        file: Below the folder of the table.
        rows: Rows in it.
        bytes: Its size.
    """

    file: str
    rows: int
    bytes: int


def write_snapshot(
    store: StateStore, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> WrittenSnapshot:
    """Write the rows of a table to a file of its own. Executor or driver.

    Args:
        store: The folder of the table in the state location.
        schema: Of the rows.
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
        schema: Of its rows: the keys, then the other columns.
        keys: How many of these are keys.
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
        """Map the copy of this host, made if need be."""
        folder = local_folder() / self._version.pipeline_id / context.uid
        self._index = self._map_copy(folder)
        context.metric_group.set(LookupMetric.NUM_CACHED_RECORD, self._index.num_rows)
        context.metric_group.set(LookupMetric.NUM_CACHED_BYTES, self._index.nbytes)

    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        """Find rows."""
        assert self._index is not None
        return self._index.find(keys)

    def close(self) -> None:
        """Let go of the copy."""
        self._index = None

    def _map_copy(self, folder: Path) -> HashIndex:
        copy = folder / f"{self._version.number:010d}-{Path(self._version.file).stem}"
        with _in_use(folder), _locked(folder / ".lock"):
            is_new = not copy.is_dir()
            if is_new:
                for left in folder.glob(".*.tmp"):  # of a process that was killed
                    shutil.rmtree(left, ignore_errors=True)
                building = Path(tempfile.mkdtemp(dir=folder, prefix=".", suffix=".tmp"))
                HashIndex.write(self._read(), self._keys, building)
                building.rename(copy)
            index = HashIndex.open(copy, self._keys)
            versions = sorted(path for path in folder.iterdir() if path.name[0] != ".")
            for old in versions[:-_KEPT]:
                if old != copy:
                    shutil.rmtree(old, ignore_errors=True)  # who has mapped it keeps it
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
    """Where this user's copies are on this host: the first local directory of Spark's, if set."""
    base = os.environ.get("LOCAL_DIRS") or os.environ.get("SPARK_LOCAL_DIRS")
    return Path(
        base.split(",")[0] if base else tempfile.gettempdir(), f"connectors-lookup-{os.getuid()}"
    )


def remove_local_copies(pipeline_id: str) -> None:
    """Remove what this host keeps for a pipeline that has ended. Driver."""
    shutil.rmtree(local_folder() / pipeline_id, ignore_errors=True)
    with _folder_locked(fcntl.LOCK_EX | fcntl.LOCK_NB) as alone:
        if alone:
            with suppress(OSError):  # it holds copies of other pipelines
                local_folder().rmdir()


def _remove_unused() -> None:
    """Remove copies of tables that nobody has opened for a while, such as of pipelines that ended.

    Whoever has mapped one keeps it; whoever still asks for one makes it anew.
    """
    with _folder_locked(fcntl.LOCK_EX | fcntl.LOCK_NB) as alone:
        if not alone:  # somebody opens a copy: the next one will do it
            return
        oldest = time.time() - _UNUSED_SECONDS
        for folder in local_folder().glob("*/*"):
            with suppress(OSError):  # the driver removes it, or its pipeline has other tables
                if folder.stat().st_mtime < oldest:
                    shutil.rmtree(folder)
                    folder.parent.rmdir()


@contextmanager
def _in_use(folder: Path) -> Iterator[None]:
    """A table's folder, made if need be, which is not removed as unused meanwhile."""
    with _folder_locked(fcntl.LOCK_SH):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        yield


@contextmanager
def _folder_locked(how: int) -> Iterator[bool]:
    """Whether the folder of all copies could be locked; it is as long as the context lasts."""
    opened = _locked_folder(how)
    try:
        yield opened is not None
    finally:
        if opened is not None:
            os.close(opened)


def _locked_folder(how: int) -> int | None:
    while True:
        with suppress(FileNotFoundError):  # a pipeline that ended has just removed it
            opened = os.open(_own_folder(), os.O_RDONLY)
            try:
                fcntl.flock(opened, how)
            except BlockingIOError:
                os.close(opened)
                return None
            if os.fstat(opened).st_nlink:
                return opened
            os.close(opened)  # it was removed before it was locked


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
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go when the file is closed, or the process ends
        yield
