# SPDX-License-Identifier: Apache-2.0
"""Tables of files for SQL: `'connector' = 'filesystem'`."""

from __future__ import annotations

from connector_filesystem.formats import FileFormat
from connector_filesystem.sink import FileSink, KeyedFileSink
from connector_filesystem.source import FileSource
from connector_filesystem.table import FileTable
from connectors_core.table import (
    ChangelogMode,
    ConfiguredTableFactory,
    DynamicTableContext,
    DynamicTableSink,
    LookupTableSource,
    ScanTableSource,
    given_options,
    metadata_option,
    refuse_metadata,
    schema_option,
)

__all__ = ["FileTableFactory"]


class FileTableFactory(ConfiguredTableFactory):
    """Tables of files. `PARTITIONED BY` names the columns whose values are folders.

    The sink of Parquet files applies changes by the primary key.
    """

    identifier = "filesystem"
    parts = (FileSource, FileSink, FileTable)
    from_columns = ConfiguredTableFactory.from_columns | {"partition.columns"}

    def format_of(self, context: DynamicTableContext) -> str:
        """See `ConfiguredTableFactory`."""
        return context.options.get("format", "").lower()

    def create_scan_source(self, context: DynamicTableContext) -> ScanTableSource:
        """See `DynamicTableFactory`."""
        source = FileSource.from_options(self._reading(FileSource, context))
        return ScanTableSource(source=source, record_policy=self.record_policy(context))

    def create_lookup_source(self, context: DynamicTableContext) -> LookupTableSource:
        """See `DynamicTableFactory`."""
        return FileTable.from_options(self._reading(FileTable, context))

    def create_sink(self, context: DynamicTableContext) -> DynamicTableSink:
        """See `DynamicTableFactory`."""
        refuse_metadata(context, context.table.schema.written_metadata)
        keys = context.table.partition_keys
        columns = {"partition.columns": ",".join(keys) or None}
        files = FileSink.from_options(given_options(FileSink, context, columns))
        key = context.table.schema.primary_key
        if not key or files.format is not FileFormat.PARQUET:
            return DynamicTableSink(sink=files)
        return DynamicTableSink(
            sink=KeyedFileSink(files, key),
            changelog_mode=ChangelogMode.upsert(),
            key=key,
            is_exclusive=True,
        )

    def _reading(
        self, made: type[FileSource] | type[FileTable], context: DynamicTableContext
    ) -> dict[str, object]:
        keys, schema = context.table.partition_keys, schema_option(context)
        partitions = None
        if keys:
            partitions = keys if schema is None else {key: schema.field(key).type for key in keys}
        columns = {
            "schema": schema,
            "metadata.columns": metadata_option(context),
            "partition.columns": partitions,
        }
        return given_options(made, context, columns)
