# SPDX-License-Identifier: Apache-2.0
"""Formats convert between a column of messages (bytes) and declared columns, by batch.

A source decodes fetched messages, and a sink encodes rows. One bad message causes one bad record.
Good messages create no Python objects, except in Avro's library.
"""

from connectors_core.formats.avro_format import AvroFormat, ConfluentAvroFormat
from connectors_core.formats.canal_format import CanalJsonFormat
from connectors_core.formats.confluent_json_format import ConfluentJsonFormat
from connectors_core.formats.csv_format import CsvFormat
from connectors_core.formats.debezium_format import DebeziumAvroFormat, DebeziumJsonFormat
from connectors_core.formats.inference import (
    InferredMessages,
    columns_of_avro,
    columns_of_registered,
    infer_messages,
)
from connectors_core.formats.isolation import EmptyMessages
from connectors_core.formats.json_format import JsonFormat, read_json_messages
from connectors_core.formats.maxwell_format import MaxwellJsonFormat
from connectors_core.formats.messages import (
    BadMessage,
    Decoded,
    DecodingFormat,
    Encoded,
    EncodingFormat,
)
from connectors_core.formats.options import (
    FORMAT_OPTIONS,
    FormatName,
    as_format,
    format_of,
    format_options,
)
from connectors_core.formats.plain_formats import RawFormat, StringFormat
from connectors_core.formats.schema_registry import (
    HttpSchemaRegistry,
    RegisteredSchema,
    SchemaRegistry,
    StaticSchemaRegistry,
    UnknownSchemaError,
)
from connectors_core.formats.text import CsvDialect
from connectors_core.formats.text.json_conflicts import TypeConflict

__all__ = [
    "FORMAT_OPTIONS",
    "AvroFormat",
    "BadMessage",
    "CanalJsonFormat",
    "ConfluentAvroFormat",
    "ConfluentJsonFormat",
    "CsvDialect",
    "CsvFormat",
    "DebeziumAvroFormat",
    "DebeziumJsonFormat",
    "Decoded",
    "DecodingFormat",
    "EmptyMessages",
    "Encoded",
    "EncodingFormat",
    "FormatName",
    "HttpSchemaRegistry",
    "InferredMessages",
    "JsonFormat",
    "MaxwellJsonFormat",
    "RawFormat",
    "RegisteredSchema",
    "SchemaRegistry",
    "StaticSchemaRegistry",
    "StringFormat",
    "TypeConflict",
    "UnknownSchemaError",
    "as_format",
    "columns_of_avro",
    "columns_of_registered",
    "format_of",
    "format_options",
    "infer_messages",
    "read_json_messages",
]
