# SPDX-License-Identifier: Apache-2.0
"""Tests formats from options, with and without a prefix."""

from __future__ import annotations

from typing import Any

import pytest

from connectors_core.errors import (
    ConfigurationError,
    InvalidOptionError,
    MissingOptionError,
    UnknownOptionError,
)
from connectors_core.formats import (
    FORMAT_OPTIONS,
    AvroFormat,
    CanalJsonFormat,
    ConfluentAvroFormat,
    CsvDialect,
    CsvFormat,
    DebeziumAvroFormat,
    DebeziumJsonFormat,
    EmptyMessages,
    HttpSchemaRegistry,
    JsonFormat,
    MaxwellJsonFormat,
    RawFormat,
    StringFormat,
    format_of,
    format_options,
)
from connectors_core.options import OptionSet
from connectors_core.secrets import Secret


def made(given: dict[str, str], prefix: str = "") -> Any:
    return format_of(OptionSet(*format_options(prefix)).parse(given), prefix)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, None),
        ({"format": "raw"}, RawFormat()),
        ({"format": "string"}, StringFormat()),
        (
            {
                "format": "json",
                "format.empty-messages": "bad",
                "json.fail-on-unknown-field": "true",
                "json.encode.ignore-null-fields": "true",
            },
            JsonFormat(
                fail_on_unknown_field=True,
                empty_messages=EmptyMessages.BAD,
                ignore_null_fields=True,
            ),
        ),
        (
            {
                "format": "csv",
                "csv.field-delimiter": ";",
                "csv.quote-character": "'",
                "csv.escape-character": "\\",
                "csv.null-literal": "NULL",
                "csv.timestamp-formats": "%d.%m.%Y",
                "csv.assume-time-zone": "Europe/Paris",
            },
            CsvFormat(
                dialect=CsvDialect(
                    delimiter=";",
                    quote_char="'",
                    escape_char="\\",
                    null_values=("NULL",),
                    timestamp_formats=("%d.%m.%Y",),
                    assume_time_zone="Europe/Paris",
                )
            ),
        ),
        ({"format": "avro", "avro.schema": "{}"}, AvroFormat(schema="{}")),
        (
            {
                "format": "avro-confluent",
                "avro-confluent.url": "http://localhost:8081",
                "avro-confluent.subject": "flights-value",
                "avro-confluent.schema": "{}",
                "avro-confluent.basic-auth.user-info": "me:s3cret",
                "avro-confluent.timeout": "2 s",
            },
            ConfluentAvroFormat(
                registry=HttpSchemaRegistry(
                    url="http://localhost:8081", user_info=Secret("me:s3cret"), timeout="2 s"
                ),
                subject="flights-value",
                schema="{}",
            ),
        ),
        (
            {"format": "debezium-json", "debezium-json.schema-include": "true"},
            DebeziumJsonFormat(schema_include=True),
        ),
        (
            {
                "format": "debezium-avro-confluent",
                "debezium-avro-confluent.url": "http://localhost:8081",
                "debezium-avro-confluent.subject": "flights-value",
                "debezium-avro-confluent.schema": "{}",
                "debezium-avro-confluent.basic-auth.user-info": "me:s3cret",
                "debezium-avro-confluent.timeout": "2 s",
            },
            DebeziumAvroFormat(
                registry=HttpSchemaRegistry(
                    url="http://localhost:8081", user_info=Secret("me:s3cret"), timeout="2 s"
                ),
                subject="flights-value",
                schema="{}",
            ),
        ),
        (
            {
                "format": "canal-json",
                "canal-json.database.include": "shop",
                "canal-json.table.include": "flights_.*",
            },
            CanalJsonFormat(database_include="shop", table_include="flights_.*"),
        ),
        ({"format": "maxwell-json"}, MaxwellJsonFormat()),
    ],
)
@pytest.mark.parametrize("prefix", ["", "value."])
def test_every_option_has_an_effect(given: dict[str, str], wanted: Any, prefix: str) -> None:
    assert made({prefix + key: value for key, value in given.items()}, prefix) == wanted


@pytest.mark.parametrize(
    "given",
    [
        {"json.fail-on-unknown-field": "true"},
        {"format": "csv", "json.fail-on-unknown-field": "true"},
        {"format": "avro", "avro-confluent.url": "http://localhost"},
        {"format": "raw", "format.empty-messages": "bad"},
        {"format": "maxwell-json", "canal-json.table.include": "flights"},
        {"format": "debezium-avro-confluent", "avro-confluent.url": "http://localhost"},
    ],
)
def test_an_option_without_effect_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError, match="has no effect"):
        made(given)


def test_invalid_options_are_explained() -> None:
    with pytest.raises(MissingOptionError, match=r"value\.avro-confluent\.url"):
        made({"value.format": "avro-confluent"}, "value.")
    with pytest.raises(MissingOptionError, match=r"value\.debezium-avro-confluent\.url"):
        made({"value.format": "debezium-avro-confluent"}, "value.")
    with pytest.raises(ConfigurationError, match="cannot be used") as refused:
        made(
            {
                "format": "debezium-avro-confluent",
                "debezium-avro-confluent.url": "no address",
            }
        )
    assert refused.value.option == "debezium-avro-confluent.url"
    assert "debezium-avro-confluent.basic-auth.user-info" in (refused.value.hint or "")
    with pytest.raises(InvalidOptionError, match="one of raw, string, json"):
        made({"format": "xml"})
    with pytest.raises(UnknownOptionError, match=r"'value\.csv\.field-delimiter'"):
        made({"value.format": "csv", "csv.delimiter": ";"}, "value.")
    with pytest.raises(UnknownOptionError, match="read in both of Flink's formats"):
        FORMAT_OPTIONS.parse({"format": "json", "json.timestamp-format.standard": "SQL"})
    for key in ("map-null-key.mode", "map-null-key.literal", "encode.decimal-as-plain-number"):
        with pytest.raises(UnknownOptionError, match="remove it"):
            FORMAT_OPTIONS.parse({"format": "canal-json", f"canal-json.{key}": "DROP"})
    with pytest.raises(InvalidOptionError, match="also its quote"):
        made({"format": "csv", "csv.field-delimiter": '"'})
