# SPDX-License-Identifier: Apache-2.0
"""The exactly-once file sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from connector_filesystem.filesystem import FileLocation
from connector_filesystem.formats import (
    Compression,
    FileFormat,
    detect_format,
)
from connector_filesystem.new_files import check_creates_files
from connector_filesystem.sink.committer import FileCommitter
from connector_filesystem.sink.compact_strategy import (
    FileCompactCoordinator,
    FileCompactStrategy,
)
from connector_filesystem.sink.compaction import FileCompaction, FileMerger
from connector_filesystem.sink.compactors import (
    FileCompactor,
    IdenticalFileCompactor,
    default_compactor,
)
from connector_filesystem.sink.options import FileSinkOptions
from connector_filesystem.sink.overwrite import FileOverwrite, existing_files
from connector_filesystem.sink.part_file import EncoderConfig
from connector_filesystem.sink.writer import FileCommittable, FileSinkWriter
from connector_filesystem.table_logs import refuse_table
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.formats.text import (
    check_written_spellings,
    unsupported_csv_type,
    unsupported_json_type,
)
from connectors_core.lineage import LineageDataset, LineageVertexProvider, file_dataset
from connectors_core.options import RecordedOption
from connectors_core.schema import type_text
from connectors_core.secrets import mask_url
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.sink import (
    CommitTasks,
    CommitterInitContext,
    Compaction,
    SupportsCommitTasks,
    SupportsCompaction,
    SupportsOverwrite,
    SupportsPartitioning,
    TwoPhaseCommittingSink,
    WriterInitContext,
)

__all__ = ["FILE_SINK_OPTIONS", "FileSink"]

_KEEP_OR_MOVE: Final = "keep it, or write to another path"


class FileSink(
    FileSinkOptions,
    TwoPhaseCommittingSink[FileCommittable],
    SupportsOverwrite,
    SupportsPartitioning,
    SupportsCompaction[FileCommittable],
    SupportsCommitTasks[FileCommittable],
    SupportsConnectionCheck,
    LineageVertexProvider,
):
    """Writes files exactly once: readers only see whole files of committed epochs.

    A file is *in progress* while a writer fills it, and *pending* once it is complete. Both kinds
    are below `<path>/_staging`, which Spark, Hive, and `FileSource` ignore. The commit of the epoch
    *finishes* the file: it moves the file to
    `<path>/<folder>/<prefix>-<epoch>-<attempt>-<number><suffix>`. Every attempt of a writer uses
    unique names, so a late attempt does no harm. The sink sweeps the files of failed attempts.

    The files of an epoch appear one after another: a reader can see some before the others, unless
    it reads the `manifests`. On an object store, a move is a copy and a removal, so a commit reads
    and writes each file once more. On local disks, HDFS, and similar systems, a move is a rename.

    Immutable and picklable. The constructor does no I/O.

    Raises:
        ConfigurationError: The settings contradict each other.
    """

    def __post_init__(self) -> None:
        if set("*?[") & set(self.path):
            raise InvalidOptionError(
                "files cannot be written to a pattern",
                expected="one folder, without '*', '?', and '['",
                found=mask_url(self.path),
                option="path",
            )
        if not self.format.is_text and self.compression is not Compression.NONE:
            raise InvalidOptionError(
                "a Parquet file is not compressed as a whole",
                expected="none",
                found=self.compression.value,
                option="compression",
                hint="set parquet.compression, the codec inside the file",
            )
        self._check_csv()
        self._check_suffix()
        if self.compaction is not None and self.compaction.compactor is not None:
            self.compaction.compactor.check(self._encoding(pa.schema([])))
        self._location = FileLocation(self.path, self.storage_options)

    @property
    def location(self) -> FileLocation:
        """The target folder."""
        return self._location

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Its folder."""
        return (file_dataset(self._location.url),)

    def _check_csv(self) -> None:
        if self.format is not FileFormat.CSV:
            return
        for option, value in (
            ("csv.timestamp-formats", self.csv.timestamp_formats),
            ("csv.assume-time-zone", self.csv.assume_time_zone),
        ):
            if value:
                raise InvalidOptionError(
                    "the sink writes times as ISO 8601 in UTC",
                    expected="not set",
                    found=value,
                    option=option,
                )
        check_written_spellings(self.csv)

    def _check_suffix(self) -> None:
        if self.output_file.suffix is None:
            return
        found, compression = detect_format("file" + self.suffix)
        if found not in (None, self.format) or compression is not self.compression:
            said = f"{found or self.format}, compression {compression}"
            raise InvalidOptionError(
                "the suffix of file names does not match the format and compression",
                expected=f"a suffix for {self.format}, compression {self.compression}",
                found=f"{self.output_file.suffix!r}: {said}",
                option="sink.file-suffix",
            )

    @property
    def suffix(self) -> str:
        """The suffix of finished files."""
        given = self.output_file.suffix
        if given is None:
            return self.format.suffix + self.compression.suffix
        return given if given.startswith(".") or not given else f".{given}"

    def check_connection(self, timeout: float) -> None:
        """Check that the filesystem responds. See `SupportsConnectionCheck`. Driver."""
        self._location.check_reachable(writable=True)

    def check_storage(self) -> None:
        """Check that the folder is of no table, and can keep manifests if there are any. Driver.

        Raises:
            ConfigurationError: It cannot, or is of a table whose log lists the files.
        """
        refuse_table(self._location)
        if self.manifests:
            check_creates_files(self._location, "manifests")

    def __repr__(self) -> str:
        return (
            f"FileSink({mask_url(self.path)!r}, format={self.format.value!r}, "
            f"compression={self.compression.value!r}, bucket_assigner={self.bucket_assigner!r})"
        )

    def recorded_options(self, schema: pa.Schema) -> Sequence[RecordedOption]:
        """The format, folders, and types of the files of one path, which would mix otherwise.

        Columns may be added or dropped, except in CSV, whose readers count them.
        """
        place, written = mask_url(self._location.url), self._written_schema(schema)
        found = {"format": self.format.value, "folders": self.bucket_assigner.described()}
        if self.format is FileFormat.CSV:
            csv = self.csv
            dialect = (
                csv.delimiter,
                csv.quote_char,
                csv.escape_char,
                csv.null_values[0],
                csv.header,
            )
            found["dialect"] = " ".join(map(repr, dialect))
            found["columns"] = ", ".join(f"{each.name} {type_text(each.type)}" for each in written)
        else:
            found |= {f"type of {each.name}": type_text(each.type) for each in written}
        return [
            RecordedOption(name="path", value=place, hint="", until_committed=True),
            *(
                RecordedOption(name=f"{name} in {place}", value=value, hint=_KEEP_OR_MOVE)
                for name, value in found.items()
            ),
        ]

    def validate(self, schema: pa.Schema) -> None:
        """Refuse a schema whose rows can never be written. Driver.

        Raises:
            ConfigurationError: A column has a type that the format lacks, two columns have the same
                name, or a bucket column is missing.
        """
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise ConfigurationError(
                "columns have the same name",
                expected="unique column names",
                found=", ".join(twice),
                hint="rename them with an alias",
            )
        self.bucket_assigner.validate(schema)
        written = self._written_schema(schema)
        if self.format is FileFormat.PARQUET:
            _check_parquet(written)
            return
        unsupported = (
            unsupported_csv_type if self.format is FileFormat.CSV else unsupported_json_type
        )
        for each in written:
            found = unsupported(each.type)
            if found is not None:
                raise _type_error(self.format, each.name, found)

    def enable_compact(
        self,
        strategy: FileCompactStrategy | None = None,
        compactor: FileCompactor | None = None,
    ) -> FileSink:
        """Return a sink that merges small files before they become visible.

        A running pipeline can be restarted with it. Rows are visible later: when their files are
        merged.

        Args:
            strategy: When to merge files.
            compactor: Merges them. The default depends on the format.

        Raises:
            InvalidOptionError: The compactor cannot merge files of this format.
        """
        strategy = strategy or FileCompactStrategy()
        return self.replaced(compaction=FileCompaction(strategy=strategy, compactor=compactor))

    def disable_compact(self) -> FileSink:
        """Return a sink that no longer merges files.

        It commits the files that an earlier run held back, as they are. Without it, a pipeline that
        holds files refuses to start with a sink without compaction.
        """
        return self.replaced(compaction=FileCompaction(enabled=False))

    def create_compaction(self) -> Compaction[FileCommittable] | None:
        """See `SupportsCompaction`."""
        settings = self.compaction
        if settings is None:
            return None
        config = self._encoding(pa.schema([]))
        compactor = settings.compactor or default_compactor(config)
        strategy = settings.strategy
        return Compaction(
            coordinator=FileCompactCoordinator(
                strategy=strategy,
                suffix=self.suffix,
                merges=not isinstance(compactor, IdenticalFileCompactor),
                together=self.manifests,
            ),
            compactor=FileMerger(
                location=self._location,
                config=config,
                compactor=compactor,
                suffix=self.suffix,
                buffer_size=self.buffer_size,
            ),
            compactors=strategy.parallelism,
            max_held=strategy.max_backlog,
            max_wait=strategy.max_wait,
            holds=settings.enabled,
            whole_epochs=self.manifests,
        )

    def writer_parallelism(self) -> int | None:
        """Return `parallelism`."""
        return self.parallelism

    def create_writer(self, context: WriterInitContext) -> FileSinkWriter:
        """Create the writer of one task in one epoch. Executor."""
        return FileSinkWriter(
            self._location,
            self._encoding(self._written_schema(context.schema)),
            context,
            bucket_assigner=self.bucket_assigner,
            rolling_policy=self.rolling_policy,
            output_file=self.output_file,
            suffix=self.suffix,
            max_open_buckets=self.max_open_buckets,
            buffer_size=self.buffer_size,
        )

    def create_committer(self, context: CommitterInitContext) -> FileCommitter:
        """Create the committer. Driver.

        Raises:
            ConfigurationError: The folder is of a table, or cannot keep manifests.
        """
        self.check_storage()
        return FileCommitter(self._location, context, manifests=self.manifests)

    def commit_tasks(self) -> CommitTasks | None:
        """Return `commit_tasks_threshold`. With `manifests`, only the driver commits."""
        return None if self.manifests else CommitTasks(threshold=self.commit_tasks_threshold)

    def create_task_committer(self, context: CommitterInitContext) -> FileCommitter:
        """Create the committer of a task. Executor."""
        return FileCommitter(self._location, context)

    def apply_overwrite(self, partition: Mapping[str, pa.Scalar]) -> FileOverwrite:
        """Return a sink that replaces the files that the target has now. Driver."""
        return FileOverwrite(
            sink=self, existing=existing_files(self._location), partition=dict(partition)
        )

    def partition_columns(self) -> Sequence[str]:
        """Return the columns that determine the folder of a row."""
        return self.bucket_assigner.folder_columns() or ()

    def committable_serializer(self) -> VersionedSerializer[FileCommittable]:
        """Return the serializer of committables: JSON, layout 1."""
        return JsonDataclassSerializer(FileCommittable, version=1)

    def _encoding(self, schema: pa.Schema) -> EncoderConfig:
        return EncoderConfig(
            self.format,
            self.compression,
            csv=self.csv,
            json=self.json,
            parquet=self.parquet,
            schema=schema,
        )

    def _written_schema(self, schema: pa.Schema) -> pa.Schema:
        dropped = set(self.bucket_assigner.dropped_columns())
        return pa.schema([each for each in schema if each.name not in dropped])


def _check_parquet(schema: pa.Schema) -> None:
    for each in schema:
        one = pa.schema([each])
        try:
            with pq.ParquetWriter(pa.BufferOutputStream(), one) as writer:
                writer.write_table(one.empty_table())
        except (pa.ArrowException, NotImplementedError) as exc:
            raise _type_error(FileFormat.PARQUET, each.name, each.type) from exc


def _type_error(file_format: FileFormat, column: str, found: pa.DataType) -> ConfigurationError:
    return ConfigurationError(
        f"the column {column!r} has a type that {file_format.value} files cannot hold",
        expected="text, numbers, booleans, dates, and times"
        if file_format is FileFormat.CSV
        else "a type that the format supports",
        found=found,
        option="format",
        hint="cast the column, drop it, or choose another format",
    )


FILE_SINK_OPTIONS: Final = FileSink.OPTIONS
"""The options of `FileSink.from_options`."""
