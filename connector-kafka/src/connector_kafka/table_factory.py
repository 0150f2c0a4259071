# SPDX-License-Identifier: Apache-2.0
"""Tables of topics for SQL: `'connector' = 'kafka'`."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from connector_kafka.sink import KafkaSink
from connector_kafka.source import KafkaSource
from connectors_core.formats import FormatName
from connectors_core.schema import ROW_KIND_COLUMN
from connectors_core.table import (
    ChangelogMode,
    DynamicTableContext,
    DynamicTableFactory,
    DynamicTableSink,
    ScanTableSource,
    check_known,
    given_options,
    metadata_option,
    refuse_metadata,
    schema_option,
)

__all__ = ["KafkaTableFactory"]

_CHANGELOGS: Final = frozenset({FormatName.DEBEZIUM_JSON.value})
# The options for columns that become metadata of records.
_WRITABLE: Final = {
    "headers": "headers.column",
    "partition": "partition.column",
    "timestamp": "timestamp.column",
    "topic": "topic.column",
}
_PARTS: Final = (KafkaSource, KafkaSink)


class KafkaTableFactory(DynamicTableFactory):
    """Tables of topics. A format of changelogs makes a table a changelog."""

    identifier = "kafka"

    def secret_keys(self) -> frozenset[str]:
        """See `DynamicTableFactory`."""
        return frozenset().union(*(each.OPTIONS.secret_keys for each in _PARTS))

    def validate(self, context: DynamicTableContext) -> None:
        """See `DynamicTableFactory`."""
        check_known(context, _PARTS)

    def create_scan_source(self, context: DynamicTableContext) -> ScanTableSource:
        """See `DynamicTableFactory`."""
        schema, changelog = schema_option(context), _is_changelog(context)
        if schema is not None and changelog:
            schema = schema.append(pa.field(ROW_KIND_COLUMN, pa.string()))
        columns = {"schema": schema, "metadata.columns": metadata_option(context)}
        source = KafkaSource.from_options(given_options(KafkaSource, context, columns))
        mode = ChangelogMode.all() if changelog else ChangelogMode.insert_only()
        return ScanTableSource(source=source, changelog_mode=mode)

    def create_sink(self, context: DynamicTableContext) -> DynamicTableSink:
        """See `DynamicTableFactory`."""
        written = [each for each in context.table.schema.metadata if not each.virtual]
        refuse_metadata(context, (each for each in written if each.key not in _WRITABLE))
        columns = {_WRITABLE[each.key]: each.name for each in written}
        sink = KafkaSink.from_options(given_options(KafkaSink, context, columns))
        if sink.upsert is not None:
            return DynamicTableSink(sink=sink, changelog_mode=ChangelogMode.upsert())
        if _is_changelog(context):
            return DynamicTableSink(sink=sink, changelog_mode=ChangelogMode.all())
        return DynamicTableSink(sink=sink)


def _is_changelog(context: DynamicTableContext) -> bool:
    return context.options.get("value.format") in _CHANGELOGS
