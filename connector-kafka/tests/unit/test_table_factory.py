# SPDX-License-Identifier: Apache-2.0
"""Tests the changelog modes of tables of topics."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from connector_kafka.table_factory import KafkaTableFactory, UpsertKafkaTableFactory
from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.formats import FormatName
from connectors_core.table import (
    CatalogTable,
    ChangelogMode,
    DynamicTableContext,
    MetadataColumn,
    PhysicalColumn,
    TableSchema,
)

AVRO = "debezium-avro-confluent"
CHANGELOGS = [each.value for each in FormatName if each.is_changelog]


def context(value_format: str, *columns: MetadataColumn, **more: Any) -> DynamicTableContext:
    schema = TableSchema(columns=(PhysicalColumn("id", pa.int64()), *columns), **more)
    options = {
        "properties.bootstrap.servers": "localhost:9",
        "topic": "changes",
        "value.format": value_format,
    }
    if value_format == AVRO:
        options |= {f"value.{AVRO}.url": "http://localhost", f"value.{AVRO}.subject": "changes"}
    if more:
        options["key.format"] = "json"
    return DynamicTableContext.of("t", CatalogTable(schema=schema, options=options))


@pytest.mark.parametrize("value_format", CHANGELOGS)
def test_a_format_for_changelogs_makes_a_table_a_changelog(value_format: str) -> None:
    table = context(value_format)
    KafkaTableFactory().validate(table)
    source = KafkaTableFactory().create_scan_source(table)
    assert source.changelog_mode == ChangelogMode.all()
    assert source.source.schema().names == ["id", "_row_kind"]
    sink = KafkaTableFactory().create_sink(table)
    assert sink.changelog_mode == ChangelogMode.all()
    sink.sink.validate(source.source.schema())


def test_another_format_only_inserts_rows() -> None:
    assert KafkaTableFactory().create_scan_source(context("json")).changelog_mode == (
        ChangelogMode.insert_only()
    )
    assert KafkaTableFactory().create_sink(context("json")).changelog_mode == (
        ChangelogMode.insert_only()
    )


def test_a_table_reads_metadata_of_the_format_and_does_not_write_it() -> None:
    at = MetadataColumn("at", pa.timestamp("us", "UTC"), "value.event-timestamp", virtual=True)
    table = context("canal-json", at)
    schema = KafkaTableFactory().create_scan_source(table).source.schema()
    assert schema.field("at").type == at.type
    KafkaTableFactory().create_sink(table)
    written = MetadataColumn("at", at.type, at.key)
    with pytest.raises(ConfigurationError, match="cannot have the metadata column 'at'"):
        KafkaTableFactory().create_sink(context("canal-json", written))


@pytest.mark.parametrize("value_format", CHANGELOGS)
def test_a_table_of_upserts_has_no_format_for_changelogs(value_format: str) -> None:
    table = context(value_format, primary_key=("id",))
    with pytest.raises(InvalidOptionError) as refused:
        UpsertKafkaTableFactory().validate(table)
    assert refused.value.option == "value.format"
