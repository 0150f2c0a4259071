# SPDX-License-Identifier: Apache-2.0
"""Rewrites the folders that the changes of an epoch touch."""

from __future__ import annotations

import dataclasses
import posixpath
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from connector_filesystem.filesystem import mapped_errors, whole_content
from connector_filesystem.sink.buckets import bucket_problem
from connector_filesystem.sink.contents import Contents, newest_contents
from connector_filesystem.sink.replacement import FileReplacement
from connector_filesystem.sink.writer import FileCommittable
from connectors_core.errors import ConfigurationError, DataLossError
from connectors_core.schema import nullable_column, nullable_type
from connectors_core.sink import (
    ROW_KIND_COLUMN,
    CommittingSinkWriter,
    WriterInitContext,
    is_deletion,
    is_unknown_row_kind,
)

if TYPE_CHECKING:
    from connector_filesystem.sink.file_sink import FileSink

__all__ = ["KeyedFileWriter"]

_BATCH_ROWS: Final = 65_536
_PLACE: Final = "place"


class KeyedFileWriter(CommittingSinkWriter[FileReplacement]):
    """Collects the changes of one task, and rewrites their folders at the end. Executor.

    It holds the changes of the epoch in memory, and one batch of rows of the files.

    Args:
        files: The sink of the files.
        schema: The columns of the rows.
        context: The context of the writer.
        key_columns: The columns that identify a row.
    """

    def __init__(
        self,
        files: FileSink,
        schema: pa.Schema,
        context: WriterInitContext,
        *,
        key_columns: tuple[str, ...],
    ) -> None:
        self._location = files.location
        self._assigner = files.bucket_assigner
        # Rows of former epochs may lack what is now NOT NULL.
        self._schema = pa.schema([pa.field(each.name, nullable_type(each.type)) for each in schema])
        self._keys = key_columns
        self._writer = files.create_writer(dataclasses.replace(context, schema=self._schema))
        self._changes: list[pa.RecordBatch] = []
        self._former: list[Contents] = []
        self._rows_seen = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Collect changes."""
        unusable = np.zeros(batch.num_rows, np.bool_)
        if ROW_KIND_COLUMN in batch.schema.names:
            unusable |= _mask(is_unknown_row_kind(batch.column(ROW_KIND_COLUMN)))
            reason = f"unknown row kind in {ROW_KIND_COLUMN!r}"
            self._writer.refuse(batch, unusable, self._rows_seen, reason)
        for name in self._keys:
            null = _mask(batch.column(name).is_null()) & ~unusable
            self._writer.refuse(batch, null, self._rows_seen, f"the key column {name!r} is null")
            unusable |= null
        self._rows_seen += batch.num_rows
        self._changes.append(batch.filter(pa.array(~unusable)))

    def flush(self) -> None:
        """Rewrite the folders of all changes, and stage their files."""
        if not self._changes:
            return
        changes = pa.Table.from_batches(self._changes)
        self._changes.clear()
        with mapped_errors("rewriting files of", self._location.url):
            for folder, rows in self._by_folder(changes):
                self._rewrite(folder, rows)
                self._writer.complete(folder)
        self._writer.flush()

    def prepare_commit(self) -> Sequence[FileReplacement]:
        """Return the replacement of each folder."""
        files: dict[str, list[FileCommittable]] = defaultdict(list)
        for each in self._writer.prepare_commit():
            files[posixpath.dirname(each.final_path)].append(each)
        former, self._former = self._former, []
        return [
            FileReplacement(
                files=tuple(files[each.folder]),
                replaced=each.files,
                contents=Contents(
                    folder=each.folder,
                    version=each.version + 1,
                    files=tuple(file.final_path for file in files[each.folder]),
                ),
            )
            for each in former
        ]

    def close(self) -> None:
        """Close all handles. After a failure, staged files remain for the sweep."""
        self._changes.clear()
        self._writer.close()

    def _by_folder(self, changes: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """Yield the changes of each folder, in their order."""
        folders = pa.chunked_array(map(self._folders_of, changes.to_batches()), pa.string())
        encoded = folders.combine_chunks().dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy()
        changes = changes.take(pa.array(np.argsort(codes, kind="stable")))
        counts = np.bincount(codes).tolist()
        start = 0
        for code, name in enumerate(encoded.dictionary.to_pylist()):
            rows = changes.slice(start, counts[code])
            start += counts[code]
            if bucket_problem(name) is None:
                yield name, rows
            else:  # the writer refuses them
                self._write(rows)

    def _folders_of(self, batch: pa.RecordBatch) -> pa.Array:
        buckets = self._assigner.assign(batch)
        return pa.repeat("", batch.num_rows) if buckets is None else buckets.cast(pa.string())

    def _rewrite(self, folder: str, changes: pa.Table) -> None:
        former = newest_contents(self._location, folder)
        self._former.append(former)
        last = _last_of(changes, self._keys)
        dropped = self._assigner.dropped_columns()
        stored = [each for each in self._schema if each.name not in dropped]
        compared = [each.name for each in stored if each.name in self._keys]
        for path in former.files:
            for batch in self._batches(path, stored):
                # Without further key columns, the folder has only the row that changes.
                if compared:
                    self._write(self._complete(_without(batch, last, compared), changes))
        if ROW_KIND_COLUMN in last.column_names:
            last = last.filter(pc.invert(is_deletion(last.column(ROW_KIND_COLUMN))))
        self._write(last)

    def _batches(self, path: str, stored: Sequence[pa.Field]) -> Iterator[pa.Table]:
        """Yield the rows of a committed file, with the current types."""
        try:
            file = self._location.fs.open(self._location.join(path), "rb")
        except FileNotFoundError as exc:
            raise DataLossError(
                f"the committed file {path!r} is gone, so its rows cannot be kept",
                expected=f"the files of {self._location.url_of(self._location.root)} as this sink "
                "has written them",
                hint="restore the file, or write the table again from the start",
            ) from exc
        restore = whole_content(path, hint="restore the file, or write the table to another folder")
        with file, restore, pq.ParquetFile(file, pre_buffer=False) as parquet:
            for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
                yield pa.table({each.name: _column(batch, each, path) for each in stored})

    def _complete(self, rows: pa.Table, changes: pa.Table) -> pa.Table:
        """Add the columns that the name of the folder has."""
        for name in self._assigner.dropped_columns():
            value = changes.column(name)[0]
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
        return rows

    def _write(self, rows: pa.Table) -> None:
        for batch in rows.select(self._schema.names).to_batches():
            columns = [nullable_column(each) for each in batch.columns]
            self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))


def _column(batch: pa.RecordBatch, field: pa.Field, path: str) -> pa.Array:
    """Return a column of a committed file in its current type, or nulls."""
    if field.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(field.name)
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise ConfigurationError(
            f"the column {field.name!r} of the committed file {path!r} does not fit its new type",
            expected=field.type,
            found=column.type,
            hint="give the column a type that holds all its values, or write the table to "
            "another folder",
        ) from exc


def _last_of(changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the last row of each key, in order."""
    last = _keys_of(changes, keys).group_by(_names(keys), use_threads=False)
    places = last.aggregate([(_PLACE, "max")]).column(f"{_PLACE}_max")
    return changes.take(places.combine_chunks().sort())


def _without(rows: pa.Table, changed: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows whose keys have not changed, in order."""
    kept = _keys_of(rows, keys).join(
        _keys_of(changed, keys).drop_columns([_PLACE]),
        keys=_names(keys),
        join_type="left anti",
        use_threads=False,
    )
    return rows.take(kept.column(_PLACE).combine_chunks().sort())


def _keys_of(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the columns of the key, and the place of each row."""
    columns = dict(zip(_names(keys), (rows.column(each) for each in keys), strict=True))
    return pa.table({**columns, _PLACE: pa.array(np.arange(rows.num_rows))})


def _names(keys: Sequence[str]) -> list[str]:
    return [f"key_{number}" for number in range(len(keys))]


def _mask(flags: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = flags.to_numpy(zero_copy_only=False)
    return found
