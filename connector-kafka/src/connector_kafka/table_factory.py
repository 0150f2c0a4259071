# SPDX-License-Identifier: Apache-2.0
"""Tables of topics for SQL: `'connector' = 'kafka'` and `'connector' = 'upsert-kafka'`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa

from connector_kafka.client.config import (
    CONSUMER_PROPERTIES,
    PRODUCER_PROPERTIES,
    READING_PROPERTIES,
    WRITING_PROPERTIES,
)
from connector_kafka.sink import KafkaSink
from connector_kafka.source import KafkaSource
from connectors_core.errors import ConfigurationError, InvalidOptionError, MissingOptionError
from connectors_core.formats import FormatName
from connectors_core.options import OptionSet
from connectors_core.schema import ROW_KIND_COLUMN
from connectors_core.table import (
    ChangelogMode,
    ConfiguredTableFactory,
    DynamicTableContext,
    DynamicTableSink,
    ScanTableSource,
    given_options,
    metadata_option,
    refuse_metadata,
    schema_option,
)

__all__ = ["KafkaTableFactory", "UpsertKafkaTableFactory"]

_CHANGELOGS: Final = frozenset(each.value for each in FormatName if each.is_changelog)
# The options for columns that become metadata of records.
_WRITABLE: Final = {
    "headers": "headers.column",
    "partition": "partition.column",
    "timestamp": "timestamp.column",
    "topic": "topic.column",
}
_PROPERTIES: Final = "properties."
_VALUE_FIELDS: Final = "value.fields-include"
_VALUE: Final = "_connectors_value"


class KafkaTableFactory(ConfiguredTableFactory):
    """Tables of topics. A format of changelogs makes a table a changelog."""

    identifier = "kafka"
    parts = (KafkaSource, KafkaSink)

    def is_secret(self, key: str) -> bool:
        """See `DynamicTableFactory`. Of the properties, those that may be shown are known."""
        name = key.lower().removeprefix(_PROPERTIES)
        if name == key.lower():
            return super().is_secret(key)
        known = [each for each in (CONSUMER_PROPERTIES, PRODUCER_PROPERTIES) if name in each]
        return not known or any(each.is_secret(name) for each in known)

    def create_scan_source(self, context: DynamicTableContext) -> ScanTableSource:
        """See `DynamicTableFactory`."""
        context = _without(WRITING_PROPERTIES, context)
        schema, changelog = schema_option(context) or None, _is_changelog(context)
        if schema is not None and changelog:
            schema = schema.append(pa.field(ROW_KIND_COLUMN, pa.string()))
        columns = {"schema": schema, "metadata.columns": metadata_option(context)}
        source = KafkaSource.from_options(given_options(KafkaSource, context, columns))
        mode = ChangelogMode.all() if changelog else ChangelogMode.insert_only()
        return ScanTableSource(source=source, changelog_mode=mode)

    def create_sink(self, context: DynamicTableContext) -> DynamicTableSink:
        """See `DynamicTableFactory`."""
        written = context.table.schema.written_metadata
        refuse_metadata(context, (each for each in written if each.key not in _WRITABLE))
        context = _without(READING_PROPERTIES, context)
        columns = {_WRITABLE[each.key]: each.name for each in written}
        sink = KafkaSink.from_options(given_options(KafkaSink, context, columns))
        mode = ChangelogMode.insert_only()
        if sink.upsert is not None:
            mode = ChangelogMode.upsert()
        elif _is_changelog(context):
            mode = ChangelogMode.all()
        return DynamicTableSink(
            sink=sink, changelog_mode=mode, writable_metadata=frozenset(_WRITABLE)
        )


class UpsertKafkaTableFactory(KafkaTableFactory):
    """Tables of compacted topics: the newest record of a key is its row (Flink's FLIP-149).

    The primary key is the key of the records. A record without a value deletes the row.
    """

    identifier = "upsert-kafka"

    def validate(self, context: DynamicTableContext) -> None:
        """See `DynamicTableFactory`."""
        super().validate(context)
        if not context.table.schema.primary_key:
            raise ConfigurationError(
                f"the table {context.name} has no key",
                expected="PRIMARY KEY (...) NOT ENFORCED",
                found="no primary key",
            )
        for key in ("key.format", "value.format"):
            if key not in context.options:
                raise MissingOptionError(key, scope=f"table {context.name}")
        if _is_changelog(context):
            raise InvalidOptionError(
                f"the table {context.name} cannot have a format for changelogs",
                expected="a format of single rows",
                found=context.options["value.format"],
                option="value.format",
                hint="choose another format, or 'connector' = 'kafka'",
            )

    def create_scan_source(self, context: DynamicTableContext) -> ScanTableSource:
        """See `DynamicTableFactory`."""
        context = _without(WRITING_PROPERTIES, context)
        declared, keys = context.table.schema, context.table.schema.primary_key
        # A record without a value has only the columns of its key, so the others can be null.
        fields = [
            each if each.name in keys else each.with_nullable(True) for each in declared.physical
        ]
        options = {key: each for key, each in context.options.items() if key != _VALUE_FIELDS}
        columns = {
            "schema": pa.schema(fields),
            "key.fields": keys,
            _VALUE_FIELDS: "except-key",
            "metadata.columns": {**(metadata_option(context) or {}), "value": _VALUE},
        }
        given = given_options(KafkaSource, replace(context, options=options), columns)
        return ScanTableSource(
            source=KafkaSource.from_options(given),
            changelog_mode=ChangelogMode.upsert(),
            computed={ROW_KIND_COLUMN: f"IF(length(`{_VALUE}`) > 0, '+U', '-D')"},
        )

    def create_sink(self, context: DynamicTableContext) -> DynamicTableSink:
        """See `DynamicTableFactory`."""
        upserts = {"sink.upsert": "every-row", **context.options}
        keys = context.table.schema.primary_key
        options = {**upserts, "key.fields": ";".join(keys)}
        return replace(super().create_sink(replace(context, options=options)), key=keys)


def _without(foreign: OptionSet, context: DynamicTableContext) -> DynamicTableContext:
    """Leave out the client's properties that only the other part of the connector has."""
    options = {
        key: each
        for key, each in context.options.items()
        if not (key.startswith(_PROPERTIES) and key.removeprefix(_PROPERTIES) in foreign)
    }
    return replace(context, options=options)


def _is_changelog(context: DynamicTableContext) -> bool:
    return context.options.get("value.format", "").lower() in _CHANGELOGS
