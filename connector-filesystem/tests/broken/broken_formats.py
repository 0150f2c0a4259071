# SPDX-License-Identifier: Apache-2.0
"""Formats of Spark that lose or double rows, each in a way that one case of a suite detects.

Every process of Spark imports this module under its name, as it imports a connector.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import tempfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from connector_filesystem import FileSink, FileSource
from connector_filesystem.sink.committer import FileCommitter
from connector_filesystem.sink.part_file import epoch_folder
from connector_filesystem.sink.writer import FileSinkWriter
from connector_filesystem.source.enumerator import FileEnumerator
from connector_filesystem.source.reader import FileSourceReader

_Part = TypeVar("_Part")


def _is_first(folder: str, name: str) -> bool:
    """Return whether no process has asked for a name in a folder before."""
    path = Path(tempfile.gettempdir(), "broken-formats", folder.strip("/"))
    path.mkdir(parents=True, exist_ok=True)
    try:
        (path / hashlib.sha256(name.encode()).hexdigest()).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


# --- Sources ---


class _Output:
    """An output that changes each batch."""

    def __init__(self, output: Any, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        self._output = output
        self._change = change

    def create_output_for_split(self, split_id: str) -> _Output:
        return _Output(self._output.create_output_for_split(split_id), self._change)

    def collect(self, batch: pa.RecordBatch) -> None:
        self._output.collect(self._change(batch))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)


def _without_last_row(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.slice(0, batch.num_rows - 1)


class _DroppingReader(FileSourceReader):
    def poll_next(self, output: Any) -> Any:
        return super().poll_next(_Output(output, _without_last_row))


class SourceDropsRows(FileSource):
    def create_reader(self, context: Any) -> FileSourceReader:
        return _DroppingReader(context, self.read_settings())


def _without_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    nulls = [pa.nulls(batch.num_rows, field.type) for field in batch.schema]
    return pa.record_batch(nulls, schema=batch.schema)


class _NullReader(FileSourceReader):
    def poll_next(self, output: Any) -> Any:
        return super().poll_next(_Output(output, _without_values))


class SourceLosesSelectedColumns(FileSource):
    def create_reader(self, context: Any) -> FileSourceReader:
        kind = FileSourceReader if self._fields is None else _NullReader
        return kind(context, self.read_settings())


class _Context:
    """A context of an enumerator that changes the splits that it assigns."""

    def __init__(self, context: Any, change: Callable[[Any], Any]) -> None:
        self._context = context
        self._change = change

    def assign_split(self, split: Any, subtask_id: int) -> None:
        self._context.assign_split(self._change(split), subtask_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _renamed(split: Any) -> Any:
    return dataclasses.replace(split, split_id=f"{split.split_id}#{uuid.uuid4().hex}")


class SourceForgetsWhatIsRead(FileSource):
    """Starts again, with splits of unknown ids."""

    def restore_enumerator(self, context: Any, state: Any) -> FileEnumerator:
        return super().create_enumerator(_Context(context, _renamed))


class SourceListsOnce(FileSource):
    def restore_enumerator(self, context: Any, state: Any) -> FileEnumerator:
        return super().restore_enumerator(context, dataclasses.replace(state, complete=True))


class _ReaderOfNewSplits(FileSourceReader):
    folder = ""

    def add_splits(self, splits: Sequence[Any]) -> None:
        super().add_splits([each for each in splits if _is_first(self.folder, each.split_id)])


class SourceReadsOnce(FileSource):
    """Gives the rows of a split to its first reader only, as if reading consumed them."""

    def create_reader(self, context: Any) -> FileSourceReader:
        reader = _ReaderOfNewSplits(context, self.read_settings())
        reader.folder = f"{self.path[0]}/read"
        return reader


# --- Sinks ---


class _DroppingWriter(FileSinkWriter):
    def write(self, batch: pa.RecordBatch) -> None:
        super().write(batch.slice(1))


class SinkDropsRows(FileSink):
    def create_writer(self, context: Any) -> FileSinkWriter:
        return _as(_DroppingWriter, super().create_writer(context))


class _VisibleWriter(FileSinkWriter):
    def write(self, batch: pa.RecordBatch) -> None:
        folder = Path(self._location.path)
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_batches([batch]), folder / f"{uuid.uuid4().hex}.parquet")


class SinkShowsUncommittedRows(FileSink):
    """Shows rows when they are written, before the epoch is decided."""

    def create_writer(self, context: Any) -> FileSinkWriter:
        return _as(_VisibleWriter, super().create_writer(context))


class SinkRemovesOtherAttempts(FileSink):
    """Removes what an earlier attempt staged, which can already be decided."""

    def create_writer(self, context: Any) -> FileSinkWriter:
        staged = epoch_folder(context.pipeline_id, context.sink_uid, context.checkpoint_id)
        shutil.rmtree(Path(self._location.path, staged), ignore_errors=True)
        return super().create_writer(context)


class _ReplacingCommitter(FileCommitter):
    def commit(self, requests: Sequence[Any]) -> None:
        for old in [*Path(self._location.path).glob("*.parquet")]:
            old.unlink()
        super().commit(requests)


class SinkKeepsTheLastEpoch(FileSink):
    """Replaces the files of the epoch before, as if a stream were a batch that runs again."""

    def create_committer(self, context: Any) -> FileCommitter:
        return _as(_ReplacingCommitter, super().create_committer(context))


def _as(kind: type[_Part], part: Any) -> _Part:
    """Return a part of a connector as an instance of a broken subclass."""
    part.__class__ = kind
    broken: _Part = part
    return broken
