# SPDX-License-Identifier: Apache-2.0
"""The file source."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import pyarrow as pa

from connector_filesystem.filesystem import FileLocation, plain_tag
from connector_filesystem.formats import Compression, FileFormat, detect_format
from connector_filesystem.source.columns import OnUnreadable, SchemaChange, check_readable
from connector_filesystem.source.discovery import FileSelection
from connector_filesystem.source.enumerator import (
    FileEnumerator,
    FileEnumeratorState,
    state_serializer,
)
from connector_filesystem.source.inference import found_schema
from connector_filesystem.source.memory import FileOrder
from connector_filesystem.source.options import FileSourceOptions
from connector_filesystem.source.paths import PathColumns
from connector_filesystem.source.reader import FileSourceReader, ReadSettings
from connector_filesystem.source.split import FileSplit, split_serializer
from connector_filesystem.time_zones import check_time_zone
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import InvalidOptionError
from connectors_core.lineage import LineageDataset, LineageVertexProvider, file_dataset
from connectors_core.options import RecordedOption
from connectors_core.secrets import mask_url
from connectors_core.serialization import VersionedSerializer
from connectors_core.source import (
    Boundedness,
    DynamicParallelismInference,
    FieldPath,
    ParallelismInferenceContext,
    Predicate,
    ReadLimits,
    Source,
    SourceReaderContext,
    SplitEnumeratorContext,
    SplitTraits,
    SupportsFilterPushDown,
    SupportsPartitionPushDown,
    SupportsProjectionPushDown,
    SupportsStatisticReport,
    ValueRange,
)

__all__ = ["FILE_SOURCE_OPTIONS", "FileSource"]

_BYTES_PER_PLAN: Final = 256 << 20
_REMEMBER_EACH: Final = (
    "keep it, or start once with the former value and order='any', which remembers each file, and "
    "change it after that"
)


class FileSource(
    FileSourceOptions,
    Source[FileSplit, FileEnumeratorState],
    SupportsConnectionCheck,
    SupportsProjectionPushDown,
    SupportsFilterPushDown,
    SupportsPartitionPushDown,
    DynamicParallelismInference[FileSplit],
    SupportsStatisticReport[FileSplit],
    LineageVertexProvider,
):
    """Reads CSV, JSON lines, and Parquet from any fsspec filesystem, in batch or streaming.

    Guarantee: exactly once. A split is a range of one *version* of a file, identified by its size
    and its tag or modification time. If a file is changed, truncated, or removed before it is read
    completely, the source fails and keeps the rows read so far. The source must only see complete
    files. Write them under a name that starts with `.` or `_` or ends in `.tmp`, and then rename
    them.

    Uncompressed text and Parquet resume at their position. Compressed text is decompressed again
    from its start up to the position, which counts decompressed bytes. Split a compressed file that
    is much larger than a plan (256 MB by default) into several files.

    Raises:
        ConfigurationError: A setting is not valid, or settings contradict each other.
    """

    def __post_init__(self) -> None:
        if self.partition_time_zone is not None:
            check_time_zone(self.partition_time_zone, "partition.time-zone")
        self._path_columns = PathColumns(
            fields=self._partition_fields(),
            regex=self.path_regex,
            time_zone=self.partition_time_zone,
        )
        self._selection = FileSelection(
            locations=_locations(self.path, self.storage_options),
            path_columns=self._path_columns,
            path_regex=self.path_regex,
            ignored_suffixes=self.ignored_suffixes,
            format=self.format,
            compression=self.compression,
            split_size=self.split_size,
            whole_files=self.csv.newlines_in_values,
            event_time_lower_bound=self.event_time_lower_bound,
            from_manifests=self.order is FileOrder.MANIFEST,
            ignore_table_log=self.ignore_table_log,
        )
        self._location = self._selection.locations[0]
        patterns = [each for each in self.path if set("*?[") & set(each)]
        if self.order is FileOrder.MANIFEST and patterns:
            raise InvalidOptionError(
                "the manifests of a folder list its files",
                expected="folders, without '*', '?', and '['",
                found=", ".join(map(mask_url, patterns)),
                option="path",
            )
        self._fields: tuple[FieldPath, ...] | None = None
        if self.columns:
            self._fields = tuple((name,) for name in self.columns)
        self._filters: tuple[Predicate, ...] = ()
        self._data_schema: pa.Schema | None = None
        if self.declared_schema is not None:
            self._data_schema = self._without_path_columns(self.declared_schema)
            self._check_schema(self._data_schema)
        if self.format is FileFormat.PARQUET and self.compression not in (None, Compression.NONE):
            raise InvalidOptionError(
                "a Parquet file is not compressed as a whole",
                expected="none",
                found=self.compression,
                option="compression",
            )

    def boundedness(self) -> Boundedness:
        """Bounded, unless the source monitors its paths."""
        if self.monitor_interval is None:
            return Boundedness.BOUNDED
        return Boundedness.CONTINUOUS_UNBOUNDED

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """The folders or files of its paths."""
        return tuple(dict.fromkeys(file_dataset(each.url) for each in self._selection.locations))

    def infer_parallelism(self, context: ParallelismInferenceContext[FileSplit]) -> int:
        """Small files share a task, as in Spark. Driver."""
        return context.tasks_for(sum(split.weight() for split in context.splits))

    def report_size(self, splits: Sequence[FileSplit]) -> int:
        """The size of the files, as in Spark. Driver."""
        return sum(split.weight() for split in splits)

    def schema(self) -> pa.Schema:
        """The columns of the files, then of their paths, then of their metadata.

        Without a declared schema, the source inspects the first files once. The result is part of
        the pickled source. Driver.

        Raises:
            ConfigurationError: No file exists, or its schema cannot be inferred.
        """
        if self._data_schema is None:
            found = found_schema(
                self._location,
                self._selection.files(may_be_missing=self._may_be_missing),
                format=self.format,
                compression=self.compression,
                csv=self.csv,
                max_record_size=self.max_record_size,
            )
            found = self._without_path_columns(found)
            self._check_schema(found)
            self._data_schema = found
        found = pa.schema([*self._data_schema, *self._constant_fields])
        if self._fields is None:
            return found
        names = {path[0] for path in self._fields}
        unknown = names - {*found.names}
        if unknown:
            raise InvalidOptionError(
                f"the source has no column {', '.join(map(repr, sorted(unknown)))}",
                expected=f"some of {', '.join(found.names)}",
                option="source.columns",
            )
        return pa.schema([each for each in found if each.name in names])

    def create_enumerator(self, context: SplitEnumeratorContext[FileSplit]) -> FileEnumerator:
        """Discover files from the start."""
        return self._enumerator(context, None)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[FileSplit], state: FileEnumeratorState
    ) -> FileEnumerator:
        """Resume the discovery."""
        return self._enumerator(context, state)

    def create_reader(self, context: SourceReaderContext) -> FileSourceReader:
        """Create a reader, which reads one split after another."""
        return FileSourceReader(context, self.read_settings())

    def split_serializer(self) -> VersionedSerializer[FileSplit]:
        """JSON."""
        return split_serializer()

    def enumerator_state_serializer(self) -> VersionedSerializer[FileEnumeratorState]:
        """JSON."""
        return state_serializer()

    def split_traits(self) -> SplitTraits:
        """Splits are finite, are read in order, and can be replayed."""
        return SplitTraits(
            end=True,
            ordered=True,
            replayable=True,
            skips_unreadable=self.on_unreadable is OnUnreadable.SKIP,
        )

    def input_version(self, splits: Sequence[FileSplit]) -> str:
        """The paths, sizes, and tags or modification times of its files."""
        files = {
            (each.path, each.size, plain_tag(each.etag) if each.etag else each.modification_time)
            for each in splits
        }
        return json.dumps(sorted(files, key=str))

    def recorded_options(self) -> Sequence[RecordedOption]:
        """Whether it ends; in the order of modification times also the selection of its files.

        In that order, the source remembers only a time. It would never read older files of another
        folder, nor files that another pattern no longer excludes.
        """
        options = [*super().recorded_options()]
        if self.order is FileOrder.MODIFICATION_TIME:
            selected = {
                "path": ", ".join(mask_url(each.url) for each in self._selection.locations),
                "path_regex": self.path_regex or "",
                "ignored_suffixes": ", ".join(self.ignored_suffixes),
            }
            options += [
                RecordedOption(name=name, value=value, hint=_REMEMBER_EACH)
                for name, value in selected.items()
            ]
        return options

    def default_limits(self) -> ReadLimits:
        """256 MB per plan, which limits memory and latency."""
        return ReadLimits(bytes=_BYTES_PER_PLAN)

    def read_settings(self) -> ReadSettings:
        """The settings of the readers. Inspects the first files if the schema is unknown."""
        schema = self.schema()
        assert self._data_schema is not None
        return ReadSettings(
            location=self._location,
            format=self.format,
            compression=self.compression,
            data_schema=self._data_schema,
            schema=schema,
            path_columns=self._selection.rooted_columns,
            metadata_columns=self.metadata_columns,
            fields=self._fields,
            filters=self._filters,
            on_schema_change=frozenset(self.on_schema_change) - {SchemaChange.FAIL},
            csv=self.csv,
            json=self.json,
            batch_rows=self.batch_rows,
            block_size=self.block_size,
            max_record_size=self.max_record_size,
            skips_unreadable=self.on_unreadable is OnUnreadable.SKIP,
        )

    def supports_nested_projection(self) -> bool:
        """Return True: Parquet and JSON leave out fields of structs."""
        return True

    def apply_projection(self, fields: Sequence[FieldPath]) -> Self:
        """Return a source that decodes only these columns. See `SupportsProjectionPushDown`."""
        self.schema()  # is inferred once, before the copy
        source = copy.copy(self)
        source._fields = tuple(fields)
        return source

    def apply_filters(self, filters: Sequence[Predicate]) -> tuple[Self, Sequence[Predicate]]:
        """Return a source that skips row groups and folders. See `SupportsFilterPushDown`."""
        source = copy.copy(self)
        source._filters = tuple(filters)
        constant = {*self._path_columns.names, *(name for _, name in self.metadata_columns)}
        formats = {self.format or detect_format(path)[0] for path in self.path}
        used = [
            each
            for each in filters
            if formats == {FileFormat.PARQUET} or {path[0] for path in each.fields()} & constant
        ]
        return source, used

    def partition_of(self, split: FileSplit) -> Mapping[str, Any]:
        """Return the columns from the path and the status. See `SupportsPartitionPushDown`."""
        settings = self.read_settings()
        return {name: _known(value) for name, value in settings.constants_of(split).items()}

    def check_connection(self, timeout: float) -> None:
        """Check that the filesystem responds. See `SupportsConnectionCheck`. Driver."""
        self._location.check_reachable()

    def __repr__(self) -> str:
        shown = ", ".join(repr(each) for each in self._selection.locations)
        return f"FileSource({shown}, {self.boundedness().value})"

    def _enumerator(
        self, context: SplitEnumeratorContext[FileSplit], state: FileEnumeratorState | None
    ) -> FileEnumerator:
        return FileEnumerator(
            context,
            self._selection,
            order=self.order,
            monitor_interval=self.monitor_interval,
            late_file_window=self.late_file_window,
            forget_after=self.forget_after,
            may_be_missing=self._may_be_missing,
            state=state,
        )

    @property
    def _may_be_missing(self) -> bool:
        return self.monitor_interval is not None or self.allow_missing_paths

    @property
    def _constant_fields(self) -> tuple[pa.Field, ...]:
        status = (pa.field(name, kind.type) for kind, name in self.metadata_columns)
        return (*self._path_columns.fields, *status)

    def _partition_fields(self) -> tuple[pa.Field, ...]:
        known = {each.name: each.type for each in self.declared_schema or ()}
        return tuple(
            pa.field(name, kind or known.get(name, pa.string()))
            for name, kind in self.partition_columns
        )

    def _without_path_columns(self, schema: pa.Schema) -> pa.Schema:
        names = set(self._path_columns.names)
        return pa.schema([each for each in schema if each.name not in names])

    def _check_schema(self, schema: pa.Schema) -> None:
        names = [
            *schema.names,
            *self._path_columns.names,
            *(name for _, name in self.metadata_columns),
        ]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice or not schema.names:
            raise InvalidOptionError(
                "the source has no columns, or two columns with the same name",
                expected="at least one column in the files, and unique names",
                found=f"twice: {', '.join(twice)}" if twice else "no column",
                option="schema",
                hint="set schema to the columns whose names occur once, and on-schema-change to "
                "ignore-new",
            )
        if self.format is not None:
            for each in schema:
                check_readable(each, self.format)


def _known(value: pa.Scalar) -> Any:
    """Return a value of Python, or an unknown range, such as for a date after the year 9999."""
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return ValueRange()


def _locations(
    paths: Sequence[str], storage_options: Mapping[str, Any]
) -> tuple[FileLocation, ...]:
    locations = tuple(FileLocation(path, storage_options) for path in paths)
    protocols = {
        each.url.partition("://")[0] if "://" in each.url else "file" for each in locations
    }
    if len(protocols) > 1:
        raise InvalidOptionError(
            "the paths of a source are on different filesystems",
            expected="one filesystem",
            found=", ".join(sorted(protocols)),
            option="path",
            hint="create a source for each filesystem",
        )
    return locations


FILE_SOURCE_OPTIONS: Final = FileSource.OPTIONS
"""The options of `FileSource.from_options`."""
