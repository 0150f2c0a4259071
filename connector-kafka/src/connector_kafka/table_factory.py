# SPDX-License-Identifier: Apache-2.0
"""Tables of topics for SQL: the connectors `kafka`, `upsert-kafka`, and `dynamic-kafka`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import pyarrow as pa

from connector_kafka.client.config import (
    CONSUMER_PROPERTIES,
    PRODUCER_PROPERTIES,
    READING_PROPERTIES,
    WRITING_PROPERTIES,
)
from connector_kafka.dynamic import DynamicKafkaSource
from connector_kafka.sink import KafkaSink
from connector_kafka.source import KafkaSource
from connector_kafka.source.options import TOPICS
from connectors_core.errors import ConfigurationError, InvalidOptionError, MissingOptionError
from connectors_core.formats import FormatName
from connectors_core.options import Configured, OptionSet
from connectors_core.schema import ROW_KIND_COLUMN
from connectors_core.table import (
    ChangelogMode,
    ConfiguredTableFactory,
    DynamicTableContext,
    DynamicTableSink,
    MetadataColumn,
    ScanTableSource,
    given_options,
    refuse_metadata,
    schema_option,
)

__all__ = ["DynamicKafkaTableFactory", "KafkaTableFactory", "UpsertKafkaTableFactory"]

_CHANGELOGS: Final = frozenset(each.value for each in FormatName if each.is_changelog)
_WITH_REGISTRY: Final = (FormatName.AVRO_CONFLUENT, FormatName.DEBEZIUM_AVRO_CONFLUENT)
# The options for columns that become metadata of records.
_WRITABLE: Final = {
    "header-list": "headers.column",
    "headers": "headers.column",
    "partition": "partition.column",
    "timestamp": "timestamp.column",
    "topic": "topic.column",
}
# The names of metadata that has another name in Flink.
_NAMES: Final = {"header-list": "headers", "timestamp-type": "timestamp_type"}
# The expressions for metadata that has another type in Flink.
_TYPE_OF_TIMESTAMP: Final = (
    "CASE {0} WHEN 0 THEN 'CreateTime' WHEN 1 THEN 'LogAppendTime' ELSE 'NoTimestampType' END"
)
_MAP_OF_HEADERS: Final = (
    "aggregate({0}, CAST(map() AS MAP<STRING, BINARY>), (found, header) -> "
    "map_concat(map_filter(found, (key, old) -> key <> header.key), map(header.key, header.value)))"
)
_PROPERTIES: Final = "properties."
_FORMAT: Final = "format"
_OF_VALUE: Final = "value."
_VALUE_FIELDS: Final = "value.fields-include"
_VALUE: Final = "_connectors_value"


class KafkaTableFactory(ConfiguredTableFactory):
    """Tables of topics. A format of changelogs makes a table a changelog.

    As in Flink, `format` and its options are those of the values, and a format with a registry
    has the subject of the topic.
    """

    identifier = "kafka"
    parts: ClassVar[tuple[type[Configured], ...]] = (KafkaSource, KafkaSink)
    source: ClassVar[type[KafkaSource] | type[DynamicKafkaSource]] = KafkaSource

    def is_secret(self, key: str) -> bool:
        """See `DynamicTableFactory`. Of the properties, those that may be shown are known."""
        name = key.lower().removeprefix(_PROPERTIES)
        if name == key.lower():
            return super().is_secret(_with_part(name))
        known = [each for each in (CONSUMER_PROPERTIES, PRODUCER_PROPERTIES) if name in each]
        return not known or any(each.is_secret(name) for each in known)

    def format_of(self, context: DynamicTableContext) -> str:
        """See `ConfiguredTableFactory`."""
        return _OF_VALUE + _format(context)

    def validate(self, context: DynamicTableContext) -> None:
        """See `DynamicTableFactory`."""
        context = _with_parts(context)
        super().validate(context)
        self._check_key(context)

    def create_scan_source(self, context: DynamicTableContext) -> ScanTableSource:
        """See `DynamicTableFactory`."""
        context = _without(WRITING_PROPERTIES, _with_parts(context))
        schema, changelog = schema_option(context) or None, _is_changelog(context)
        if schema is not None and changelog:
            schema = schema.append(pa.field(ROW_KIND_COLUMN, pa.string()))
        metadata, computed = _read_metadata(context.table.schema.metadata)
        columns = {"schema": schema, "metadata.columns": metadata or None}
        source = self.source.from_options(given_options(self.source, context, columns))
        mode = ChangelogMode.all() if changelog else ChangelogMode.insert_only()
        return ScanTableSource(
            source=source,
            changelog_mode=mode,
            computed=computed,
            record_policy=self.record_policy(context),
        )

    def create_sink(self, context: DynamicTableContext) -> DynamicTableSink:
        """See `DynamicTableFactory`."""
        written = context.table.schema.written_metadata
        refuse_metadata(context, (each for each in written if each.key not in _WRITABLE))
        context = _with_subjects(_without(READING_PROPERTIES, _with_parts(context)))
        columns: dict[str, Any] = {}
        for each in written:
            if _WRITABLE[each.key] in columns:
                refuse_metadata(context, [each])
            columns[_WRITABLE[each.key]] = each.name
        if "topic.column" in columns:
            context, columns["topic.column-pattern"] = _with_topics(context)
        sink = KafkaSink.from_options(given_options(KafkaSink, context, columns))
        mode = ChangelogMode.insert_only()
        if sink.upsert is not None:
            mode = ChangelogMode.upsert()
        elif _is_changelog(context):
            mode = ChangelogMode.all()
        return DynamicTableSink(
            sink=sink, changelog_mode=mode, writable_metadata=frozenset(_WRITABLE)
        )

    def _check_key(self, context: DynamicTableContext) -> None:
        """Refuse a primary key that has no effect.

        Raises:
            ConfigurationError: See above.
        """
        keys = context.table.schema.primary_key
        if keys and not _is_changelog(context) and "sink.upsert" not in context.options:
            raise ConfigurationError(
                f"the table {context.name} has a primary key, and its rows are only added",
                expected="no primary key, or a format for changelogs",
                found=f"PRIMARY KEY ({', '.join(keys)})",
                hint="use 'connector' = 'upsert-kafka', or remove the key",
            )


class DynamicKafkaTableFactory(KafkaTableFactory):
    """Tables of streams, whose topics move between clusters. They can only be read, as in Flink."""

    identifier = "dynamic-kafka"
    parts = (DynamicKafkaSource,)
    source = DynamicKafkaSource

    def create_sink(self, context: DynamicTableContext) -> DynamicTableSink:
        """Refuse writing: a stream does not say which of its topics gets a row."""
        raise self._lacks("sink", context)


class UpsertKafkaTableFactory(KafkaTableFactory):
    """Tables of compacted topics: the newest record of a key is its row (Flink's FLIP-149).

    The primary key is the key of the records. A record without a value deletes the row.
    """

    identifier = "upsert-kafka"

    def _check_key(self, context: DynamicTableContext) -> None:
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
        context = _without(WRITING_PROPERTIES, _with_parts(context))
        declared, keys = context.table.schema, context.table.schema.primary_key
        # A record without a value has only the columns of its key, so the others can be null.
        fields = [
            each if each.name in keys else each.with_nullable(True) for each in declared.physical
        ]
        options = {key: each for key, each in context.options.items() if key != _VALUE_FIELDS}
        metadata, computed = _read_metadata(declared.metadata)
        columns = {
            "schema": pa.schema(fields),
            "key.fields": keys,
            _VALUE_FIELDS: "except-key",
            "metadata.columns": {**metadata, "value": _VALUE},
        }
        kind = f"IF(length(`{_VALUE}`) > 0, '+U', '-D')"
        given = given_options(KafkaSource, replace(context, options=options), columns)
        return ScanTableSource(
            source=KafkaSource.from_options(given),
            changelog_mode=ChangelogMode.upsert(),
            computed={**computed, ROW_KIND_COLUMN: kind},
            record_policy=self.record_policy(context),
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


def _format(context: DynamicTableContext, part: str = _OF_VALUE) -> str:
    return context.options.get(part + _FORMAT, "").lower().replace("_", "-")


def _is_changelog(context: DynamicTableContext) -> bool:
    return _format(context) in _CHANGELOGS


def _with_part(key: str) -> str:
    """Return the key of a format's option with the part of the record, by default the value."""
    is_of_format = key.partition(".")[0] in {_FORMAT, *FormatName}
    return _OF_VALUE + key if is_of_format else key


def _with_parts(context: DynamicTableContext) -> DynamicTableContext:
    options: dict[str, str] = {}
    for key, value in context.options.items():
        full = _with_part(key.lower())
        if full != key.lower() and full in context.options:
            raise InvalidOptionError(
                f"the table {context.name} has an option of the values' format twice",
                expected=f"{key} or {full}",
                found="both",
                option=full,
            )
        options[full if full != key.lower() else key] = value
    return replace(context, options=options)


def _with_subjects(context: DynamicTableContext) -> DynamicTableContext:
    """Name the subjects of the schemas that a sink registers: the topic and the part."""
    options, topic = dict(context.options), context.options.get("topic")
    for part in ("key", "value"):
        name = _format(context, f"{part}.")
        if topic is not None and name in _WITH_REGISTRY:
            options.setdefault(f"{part}.{name}.subject", f"{topic}-{part}")
    return replace(context, options=options)


def _with_topics(context: DynamicTableContext) -> tuple[DynamicTableContext, str | None]:
    """Return the table without its topics, and the pattern of those that a column may name."""
    options = dict(context.options)
    names, pattern = options.pop("topic", None), options.pop("topic-pattern", None)
    if names is not None and pattern is not None:
        raise InvalidOptionError(
            f"the table {context.name} has topics and a pattern for topics",
            expected="topic or topic-pattern",
            found="both",
            option="topic-pattern",
        )
    if names is not None:
        pattern = "|".join(map(re.escape, TOPICS.parse(names)))
    return replace(context, options=options), pattern


def _read_metadata(
    columns: Sequence[MetadataColumn],
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names of metadata columns by metadata, and columns computed from these."""
    names: dict[str, str] = {}
    computed: dict[str, str] = {}
    for each in columns:
        key = _NAMES.get(each.key, each.key)
        source = f"`{names.setdefault(key, each.name)}`"
        if each.key == "timestamp-type":
            computed[each.name] = _TYPE_OF_TIMESTAMP.format(source)
        elif key == "headers" and pa.types.is_map(each.type):
            computed[each.name] = _MAP_OF_HEADERS.format(source)
        elif names[key] != each.name:
            computed[each.name] = source
    return names, computed
