# SPDX-License-Identifier: Apache-2.0
"""The settings for converting records to rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from connector_kafka.fields import FieldsOptions
from connector_kafka.source.layout import METADATA, OF_VALUE, RecordLayout
from connectors_core.formats import DecodingFormat, as_format, format_of, format_options
from connectors_core.options import JSON_MAP, OptionType, Setting, option, part
from connectors_core.schema import SCHEMA, SchemaLike

__all__ = ["METADATA_COLUMNS", "KafkaRecordDeserializationSchema"]

_SINCE: Final = "2.0.0"


def _metadata_columns(value: Any) -> dict[str, str]:
    is_map = isinstance(value, Mapping | str)
    names = JSON_MAP.parse(value) if is_map else {name: name for name in value}
    for name in names:
        if name not in METADATA.names and not name.startswith(OF_VALUE):
            known = ", ".join(METADATA.names)
            raise ValueError(f"one of {known}: there is no metadata column {name!r}")
    return names


METADATA_COLUMNS: Final[OptionType[dict[str, str]]] = OptionType(
    "map", _metadata_columns, JSON_MAP.show
)
"""Names of columns by metadata; a list of metadata names its columns."""


class KafkaRecordDeserializationSchema(FieldsOptions, scope="Kafka records", since=_SINCE):
    """The columns for keys, values, and metadata of a record.

    Without a format, keys and values are not decoded.

    Raises:
        ConfigurationError: The settings contradict each other.
    """

    value_format: Setting[DecodingFormat | None, DecodingFormat | str | None] = part(
        None,
        *format_options("value.", since=_SINCE),
        build=lambda options: format_of(options, "value."),
        accept=as_format,
        default=None,
        doc="Format of values, or the format's name. By default, keys and values are not decoded.",
    )
    schema: Setting[pa.Schema | None, SchemaLike | None] = option(
        "schema",
        SCHEMA,
        default=None,
        doc="Columns of the decoded keys and values, as a Spark SQL schema.",
    )
    key_format: Setting[DecodingFormat | None, DecodingFormat | str | None] = part(
        None,
        *format_options("key.", since=_SINCE),
        build=lambda options: format_of(options, "key."),
        accept=as_format,
        default=None,
        doc="Format of keys, or the format's name.",
    )
    metadata_columns: Setting[dict[str, str] | None, Mapping[str, str] | Sequence[str] | None] = (
        option(
            "metadata.columns",
            METADATA_COLUMNS,
            default=None,
            aliases=("includeheaders", "metadata-columns"),
            doc="Metadata columns: a map from `key`, `value`, `topic`, `partition`, `offset`, "
            "`timestamp`, `timestamp_type`, `headers`, or (of a `DynamicKafkaSource`) "
            "`kafka_cluster` to a column name. A key such as "
            "`value.table` is metadata that the format of values reads. If nothing is decoded, the "
            "default is all except the headers. Otherwise, it is none.",
        )
    )

    def __post_init__(self) -> None:
        self.layout = RecordLayout.of(
            value_format=self.value_format,
            schema=self.schema,
            key_format=self.key_format,
            key_fields=self.key_fields,
            key_fields_prefix=self.key_fields_prefix,
            value_fields=self.value_fields,
            metadata_columns=self.metadata_columns,
        )
        self.layout.check()
