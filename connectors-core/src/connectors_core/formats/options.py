# SPDX-License-Identifier: Apache-2.0
"""The options of all formats, for every connector that has messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

from connectors_core.errors import InvalidOptionError
from connectors_core.formats.avro_format import AvroFormat, ConfluentAvroFormat
from connectors_core.formats.canal_format import CanalJsonFormat
from connectors_core.formats.confluent_json_format import ConfluentJsonFormat
from connectors_core.formats.csv_format import CsvFormat
from connectors_core.formats.debezium_format import DebeziumAvroFormat, DebeziumJsonFormat
from connectors_core.formats.isolation import SINCE, RecordFormat
from connectors_core.formats.json_format import JsonFormat
from connectors_core.formats.maxwell_format import MaxwellJsonFormat
from connectors_core.formats.plain_formats import RawFormat, StringFormat
from connectors_core.options import Option, Options, OptionSet, option_like

__all__ = ["FORMAT_OPTIONS", "Format", "FormatName", "as_format", "format_of", "format_options"]

Format: TypeAlias = (
    RawFormat
    | StringFormat
    | JsonFormat
    | ConfluentJsonFormat
    | CsvFormat
    | AvroFormat
    | ConfluentAvroFormat
    | DebeziumJsonFormat
    | DebeziumAvroFormat
    | CanalJsonFormat
    | MaxwellJsonFormat
)

_T = TypeVar("_T")


class FormatName(StrEnum):
    """The name of a message format."""

    RAW = "raw"
    "The unchanged bytes."
    STRING = "string"
    "UTF-8 text."
    JSON = "json"
    """A JSON object."""
    JSON_CONFLUENT = "json-confluent"
    """A JSON object, prefixed with the id of its schema in a registry."""
    CSV = "csv"
    "A CSV record."
    AVRO = "avro"
    """A record in Avro's binary encoding."""
    AVRO_CONFLUENT = "avro-confluent"
    "The same, prefixed with the id of its schema in a registry."
    DEBEZIUM_JSON = "debezium-json"
    "A change of a row in Debezium's JSON."
    DEBEZIUM_AVRO_CONFLUENT = "debezium-avro-confluent"
    "The same in Avro, prefixed with the id of its schema in a registry."
    CANAL_JSON = "canal-json"
    "Changes of rows in Canal's JSON."
    MAXWELL_JSON = "maxwell-json"
    "A change of a row in Maxwell's JSON."

    @property
    def is_changelog(self) -> bool:
        """Whether messages are changes of rows, whose kind is in the column `_row_kind`."""
        return _FORMATS[self].is_changelog


_FORMATS: Final[Mapping[FormatName, type[Format]]] = {
    FormatName.RAW: RawFormat,
    FormatName.STRING: StringFormat,
    FormatName.JSON: JsonFormat,
    FormatName.JSON_CONFLUENT: ConfluentJsonFormat,
    FormatName.CSV: CsvFormat,
    FormatName.AVRO: AvroFormat,
    FormatName.AVRO_CONFLUENT: ConfluentAvroFormat,
    FormatName.DEBEZIUM_JSON: DebeziumJsonFormat,
    FormatName.DEBEZIUM_AVRO_CONFLUENT: DebeziumAvroFormat,
    FormatName.CANAL_JSON: CanalJsonFormat,
    FormatName.MAXWELL_JSON: MaxwellJsonFormat,
}
_FORMAT: Final = Option("format", FormatName, doc="Format of the messages.", since=SINCE)
_EMPTY: Final = RecordFormat.OPTIONS.keys[0]
FORMAT_OPTIONS: Final = OptionSet(
    _FORMAT,
    *{
        option.key: replace(option, required=False)
        for kind in _FORMATS.values()
        for option in kind.OPTIONS
    }.values(),
    scope="format",
    elsewhere={
        "*.ignore-parse-errors": "pass `record_policy=RecordPolicy.skip()` to "
        "`Pipeline.from_source`",
        "*.timestamp-format.standard": "JSON times are read in both of Flink's formats and "
        "written as ISO 8601; remove it",
        "*.encode.decimal-as-plain-number": "decimals are written with all their digits; remove it",
        "*.map-null-key.mode": "maps have no null as a key; remove it",
        "*.map-null-key.literal": "maps have no null as a key; remove it",
    },
    keywords={
        key: keyword if key == _EMPTY else f"{kind.__name__}.{keyword}"
        for kind in _FORMATS.values()
        for key, keyword in kind.keywords_by_key().items()
    },
)
"""The options of a single format. Its `elsewhere` also applies to prefixed keys."""


def format_options(prefix: str = "", *, since: str | None = None) -> tuple[Option[Any], ...]:
    """Return the declarations of the options of a format.

    Args:
        prefix: Prefix of the keys if there are several formats, such as `value.`.
        since: Version of the connector that introduced them, instead of the core's version.
    """

    def declared(each: Option[Any]) -> Option[Any]:
        made: Option[Any] = each
        if prefix:
            aliases = tuple(prefix + name for name in each.aliases)
            made = option_like(each, prefix + each.key, aliases=aliases, since=each.since)
        return made if since is None else made.introduced(since, again=True)

    return tuple(map(declared, FORMAT_OPTIONS))


def as_format(given: _T | str | None) -> _T | Format | None:
    """Return the given format, or the format with a name and default options; driver.

    Args:
        given: A format, or a name as in the option `format`.

    Raises:
        InvalidOptionError: No format has this name.
        MissingOptionError: The format requires options.
    """
    return format_of(FORMAT_OPTIONS.parse({"format": given})) if isinstance(given, str) else given


def format_of(options: Options, prefix: str = "") -> Format | None:
    """Return the format that options describe, None if they name none; driver.

    Args:
        options: Options parsed with the declarations of `format_options`.
        prefix: The same prefix as in `format_options`.

    Raises:
        MissingOptionError: The registry has no address.
        InvalidOptionError: A value is invalid or belongs to another format.
    """
    options = options.below(prefix)
    name = options.get(_FORMAT)
    kind = None if name is None else _FORMATS[name]
    for each in FORMAT_OPTIONS:
        if each is _FORMAT or (kind is not None and each.key in kind.OPTIONS):
            continue
        if options.is_given(each):
            raise _without_effect(each.key, prefix, name)
    return None if kind is None else kind.from_parsed(options)


def _without_effect(key: str, prefix: str, name: FormatName | None) -> InvalidOptionError:
    owner = key.partition(".")[0]
    return InvalidOptionError(
        f"the option {prefix + key!r} has no effect",
        expected="another format" if key == _EMPTY else f"{prefix}format = {owner}",
        found="no format" if name is None else f"{prefix}format = {name.value}",
        option=prefix + key,
        hint="remove it, or select the format that it belongs to",
    )
