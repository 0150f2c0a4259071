# SPDX-License-Identifier: Apache-2.0
"""The options of all formats, declared once for every connector that has messages."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

from connectors_core.errors import InvalidOptionError
from connectors_core.formats.avro_format import AvroFormat, ConfluentAvroFormat
from connectors_core.formats.csv_format import CsvFormat
from connectors_core.formats.isolation import EmptyMessages
from connectors_core.formats.json_format import JsonFormat
from connectors_core.formats.plain_formats import RawFormat, StringFormat
from connectors_core.formats.schema_registry import HttpSchemaRegistry
from connectors_core.formats.text import CsvDialect
from connectors_core.options import DURATION, Option, Options, OptionSet, positive
from connectors_core.secrets import Secret

__all__ = ["FORMAT_OPTIONS", "Format", "FormatName", "as_format", "format_of", "format_options"]

Format: TypeAlias = (
    RawFormat | StringFormat | JsonFormat | CsvFormat | AvroFormat | ConfluentAvroFormat
)

_T = TypeVar("_T")

_SINCE: Final = "1.0"


class FormatName(StrEnum):
    """What messages are written in."""

    RAW = "raw"
    "The unchanged bytes."
    STRING = "string"
    "UTF-8 text."
    JSON = "json"
    """A JSON object."""
    CSV = "csv"
    "A CSV record."
    AVRO = "avro"
    """A record in Avro's binary encoding."""
    AVRO_CONFLUENT = "avro-confluent"
    "The same, prefixed with the id of its schema in a registry."


_FORMAT: Final = Option("format", FormatName, doc="Format of the messages.", since=_SINCE)
_EMPTY: Final = Option(
    "format.empty-messages",
    EmptyMessages,
    default=EmptyMessages.NULL,
    doc="Whether an empty message is a row of nulls or a bad record.",
    since=_SINCE,
)
_UNKNOWN_FIELD: Final = Option(
    "json.fail-on-unknown-field",
    bool,
    default=False,
    doc="Whether a message with a field that is not a column is a bad record.",
    since=_SINCE,
)
_IGNORE_NULLS: Final = Option(
    "json.encode.ignore-null-fields",
    bool,
    default=False,
    doc="Whether to omit null fields when writing.",
    since=_SINCE,
    aliases=("ignorenullfields", "json.write-nulls"),
)


def _of_csv(name: str, key: str, **changes: Any) -> Option[Any]:
    """An option of the dialect of CSV under Flink's key."""
    declared: Option[Any] = getattr(CsvDialect, name)
    aliases = tuple(alias for alias in (declared.key, *declared.aliases) if alias != key)
    return replace(declared, key=key, aliases=aliases, since=_SINCE, **changes)


_DELIMITER: Final = _of_csv("delimiter", "csv.field-delimiter")
_QUOTE: Final = _of_csv("quote_char", "csv.quote-character")
_ESCAPE: Final = _of_csv("escape_char", "csv.escape-character")
_NULL_LITERAL: Final = _of_csv(
    "null_values", "csv.null-literal", type=str, default="", doc="Text of a missing value."
)
_TIMESTAMP_FORMATS: Final = _of_csv("timestamp_formats", "csv.timestamp-formats")
_TIME_ZONE: Final = _of_csv("assume_time_zone", "csv.assume-time-zone")
_AVRO_SCHEMA: Final = Option(
    "avro.schema",
    str,
    doc="Schema to write messages with, as JSON; derived from the columns if not set.",
    since=_SINCE,
    aliases=("avroschema",),
)
_URL: Final = Option(
    "avro-confluent.url",
    str,
    doc="Address of the schema registry.",
    since=_SINCE,
    aliases=("schema.registry.url",),
)
_SUBJECT: Final = Option(
    "avro-confluent.subject",
    str,
    doc="Subject to register the schema under; required to write.",
    since=_SINCE,
)
_REGISTERED_SCHEMA: Final = Option(
    "avro-confluent.schema",
    str,
    doc="Schema to write with, as JSON; derived from the columns if not set.",
    since=_SINCE,
)
_USER_INFO: Final = Option(
    "avro-confluent.basic-auth.user-info",
    Secret,
    doc="`user:password` for the schema registry.",
    since=_SINCE,
    aliases=("basic.auth.user.info",),
)
_TIMEOUT: Final = Option(
    "avro-confluent.timeout",
    DURATION,
    default=timedelta(seconds=10),
    doc="Timeout for the schema registry.",
    since=_SINCE,
    validator=positive,
)
FORMAT_OPTIONS: Final = OptionSet(
    _FORMAT,
    _EMPTY,
    _UNKNOWN_FIELD,
    _IGNORE_NULLS,
    _DELIMITER,
    _QUOTE,
    _ESCAPE,
    _NULL_LITERAL,
    _TIMESTAMP_FORMATS,
    _TIME_ZONE,
    _AVRO_SCHEMA,
    _URL,
    _SUBJECT,
    _REGISTERED_SCHEMA,
    _USER_INFO,
    _TIMEOUT,
    scope="format",
)
"""The options of a format that stands alone."""


def format_options(prefix: str = "") -> tuple[Option[Any], ...]:
    """Return the declarations of the options of a format.

    Args:
        prefix: What stands before the keys where there are several formats, e.g. `value.`.
    """
    return tuple(_prefixed(option, prefix) for option in FORMAT_OPTIONS)


def as_format(given: _T | str | None) -> _T | Format | None:
    """Return a format as it is, or the one of a name without further options; driver.

    Args:
        given: A format, or a name as the option `format` takes it.

    Raises:
        InvalidOptionError: No format has this name.
        MissingOptionError: The format cannot do without options.
    """
    return format_of(FORMAT_OPTIONS.parse({"format": given})) if isinstance(given, str) else given


def format_of(options: Options, prefix: str = "") -> Format | None:
    """Return the format that options describe, None where they name none; driver.

    Args:
        options: Parsed with the declarations of `format_options`.
        prefix: The same as there.

    Raises:
        MissingOptionError: The registry has no address.
        InvalidOptionError: A value cannot be used, or belongs to another format.
    """

    def value(option: Option[Any]) -> Any:
        return options.get(_prefixed(option, prefix))

    name = value(_FORMAT)
    _check_effect(options, prefix, name)
    if name is FormatName.RAW:
        return RawFormat()
    if name is FormatName.STRING:
        return StringFormat()
    if name is FormatName.JSON:
        return JsonFormat(
            fail_on_unknown_field=value(_UNKNOWN_FIELD),
            empty_messages=value(_EMPTY),
            write_nulls=not value(_IGNORE_NULLS),
        )
    if name is FormatName.CSV:
        dialect = CsvDialect(
            delimiter=value(_DELIMITER),
            quote_char=value(_QUOTE),
            escape_char=value(_ESCAPE),
            null_values=(value(_NULL_LITERAL),),
            timestamp_formats=value(_TIMESTAMP_FORMATS),
            assume_time_zone=value(_TIME_ZONE),
        )
        return CsvFormat(dialect=dialect, empty_messages=value(_EMPTY))
    if name is FormatName.AVRO:
        return AvroFormat(schema=value(_AVRO_SCHEMA), empty_messages=value(_EMPTY))
    if name is FormatName.AVRO_CONFLUENT:
        return ConfluentAvroFormat(
            registry=HttpSchemaRegistry(
                url=options[_prefixed(_URL, prefix)],
                user_info=value(_USER_INFO),
                timeout=value(_TIMEOUT).total_seconds(),
            ),
            subject=value(_SUBJECT),
            schema=value(_REGISTERED_SCHEMA),
            empty_messages=value(_EMPTY),
        )
    return None


def _check_effect(options: Options, prefix: str, name: FormatName | None) -> None:
    has_empty = name not in (None, FormatName.RAW, FormatName.STRING)
    for option in FORMAT_OPTIONS:
        owner = option.key.partition(".")[0]
        if option is _FORMAT or not options.is_given(_prefixed(option, prefix)):
            continue
        if owner == name or (option is _EMPTY and has_empty):
            continue
        raise InvalidOptionError(
            f"the option {prefix + option.key!r} has no effect",
            expected=f"{prefix}format = {owner}" if option is not _EMPTY else "another format",
            found="no format" if name is None else f"{prefix}format = {name.value}",
            option=prefix + option.key,
            hint="remove it, or select the format that it belongs to",
        )


def _prefixed(option: Option[Any], prefix: str) -> Option[Any]:
    if not prefix:
        return option
    return replace(
        option,
        key=prefix + option.key,
        aliases=(option.key, *(prefix + alias for alias in option.aliases)),
    )
