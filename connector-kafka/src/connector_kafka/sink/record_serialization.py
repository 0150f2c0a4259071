# SPDX-License-Identifier: Apache-2.0
"""Maps the columns of a row to the parts of a Kafka record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connector_kafka.client.metadata import is_topic_name
from connector_kafka.fields import FieldsOptions, ValueFields
from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.formats import (
    BadMessage,
    EncodingFormat,
    as_format,
    format_of,
    format_options,
)
from connectors_core.options import REGEX, Bound, Option, Setting, not_empty, option, part
from connectors_core.sink import ROW_KIND_COLUMN

__all__ = [
    "HEADERS",
    "KafkaRecordSerializationSchema",
    "Serialized",
    "ValueFields",
]

_SINCE: Final = "2.0.0"
_OF_READERS: Final = frozenset(
    {
        "format.empty-messages",
        "json.fail-on-unknown-field",
        "csv.timestamp-formats",
        "csv.assume-time-zone",
        "csv.ambiguous-times",
        "canal-json.database.include",
        "canal-json.table.include",
    }
)
HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""The type of headers, as in Spark's own Kafka source."""


@dataclass(frozen=True, kw_only=True)
class Serialized:
    """Records, one per row and in the order of the rows.

    Attributes:
        records: The columns `key` and `value` (bytes) and optionally `topic` (text), `partition`,
            `timestamp` (milliseconds, both 64 bits), and `headers`.
        bad: Rows that a format cannot encode. Their records are not valid.
    """

    records: pa.RecordBatch
    bad: tuple[BadMessage, ...] = ()


_ONE_TOPIC: Final = Bound(
    "one topic",
    is_topic_name,
    "the name of one topic; a column can name the topic of each record ('topic.column')",
)


def _written(prefix: str) -> tuple[Option[Any], ...]:
    """Return the options of a format that affect the output."""
    return tuple(
        each
        for each in format_options(prefix, since=_SINCE)
        if each.key.removeprefix(prefix) not in _OF_READERS
    )


class KafkaRecordSerializationSchema(FieldsOptions, scope="Kafka records", since=_SINCE):
    """Converts the columns of rows to keys, values, and other parts of Kafka records, in batches.

    Without a format for the value, the rows have the columns of Spark's own Kafka sink: `value`,
    and optionally a `key`, both bytes or text. With a value format, the value contains all columns
    that have no other role. Immutable and picklable, without I/O.

    Raises:
        ConfigurationError: The settings contradict each other.
    """

    topic: Setting[str | None] = option(
        "topic",
        str,
        default=None,
        validator=_ONE_TOPIC,
        doc="Topic of all records.",
    )
    topic_column: Setting[str | None] = option(
        "topic.column",
        str,
        default=None,
        validator=not_empty,
        doc="Column of each record's topic, instead of `topic`.",
        aliases=("topic-column",),
    )
    topic_pattern: Setting[str | None] = option(
        "topic.column-pattern",
        REGEX,
        default=None,
        since="3.0.0",
        doc="Regular expression that must match the whole topic name in `topic.column`. A row with "
        "another topic is a bad record.",
    )
    key_format: Setting[EncodingFormat | None, EncodingFormat | str | None] = part(
        None,
        *_written("key."),
        build=lambda options: format_of(options, "key."),
        accept=as_format,
        default=None,
        doc="Format of the key, or the format's name. By default, the key is one column of bytes "
        "or text.",
    )
    value_format: Setting[EncodingFormat | None, EncodingFormat | str | None] = part(
        None,
        *_written("value."),
        build=lambda options: format_of(options, "value."),
        accept=as_format,
        default=None,
        doc="Format of the value, or the format's name. By default, the value is the column "
        "`value`.",
    )
    headers_column: Setting[str | None] = option(
        "headers.column",
        str,
        default=None,
        doc="Column of headers: a list of structs of `key` and `value`, or a map.",
        aliases=("includeHeaders", "header-list"),
    )
    timestamp_column: Setting[str | None] = option(
        "timestamp.column",
        str,
        default=None,
        doc="Column of each record's timestamp. If it is null or missing, the time of writing is "
        "used.",
    )
    partition_column: Setting[str | None] = option(
        "partition.column",
        str,
        default=None,
        doc="Column of each record's partition. Null leaves the choice to the partitioner.",
    )

    def __post_init__(self) -> None:
        if (self.topic is None) == (self.topic_column is None):
            raise ConfigurationError(
                "records need exactly one source for their topic",
                expected="'topic' or 'topic.column'",
                found="neither" if self.topic is None else "both",
                option="topic",
            )
        if self.topic_pattern is not None and self.topic_column is None:
            raise ConfigurationError(
                "a pattern for topics needs their column",
                expected="'topic.column' with 'topic.column-pattern'",
                found="'topic.column-pattern' alone",
                option="topic.column-pattern",
            )
        if self.key_format is not None and not self.key_fields:
            raise ConfigurationError(
                "a key format needs columns",
                expected="'key.fields' with 'key.format'",
                found="'key.format' alone",
                option="key.fields",
            )
        if self.key_format is None and len(self.key_fields) > 1:
            raise ConfigurationError(
                "a key of several columns needs a format",
                expected="one column of bytes or text, or 'key.format'",
                found=", ".join(self.key_fields),
                option="key.format",
            )
        if self.key_format is not None and self.key_format.is_changelog:
            raise InvalidOptionError(
                "a changelog cannot be written to keys",
                expected="a format of single rows",
                found=type(self.key_format).__name__,
                option="key.format",
                hint="set it as value.format",
            )
        strangers = [f for f in self.key_fields if not f.startswith(self.key_fields_prefix)]
        if strangers:
            raise InvalidOptionError(
                "all columns of the key have the prefix",
                expected=f"names that start with {self.key_fields_prefix!r}",
                found=", ".join(strangers),
                option="key.fields-prefix",
            )
        if self.key_fields_prefix and self.value_fields is ValueFields.ALL:
            raise InvalidOptionError(
                "a prefix distinguishes columns of the key from those of the value",
                expected=ValueFields.EXCEPT_KEY,
                found=ValueFields.ALL,
                option="value.fields-include",
            )

    @property
    def writes_changelog(self) -> bool:
        """Whether values tell the kind of change of each row."""
        return self.value_format is not None and self.value_format.is_changelog

    # --- When the pipeline is built -------------------------------------------------------------

    def validate(self, schema: pa.Schema) -> None:
        """Refuse a schema that cannot become records. Driver.

        Raises:
            ConfigurationError: A column is missing, unused, duplicate, or of a wrong type.
        """
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise ConfigurationError(
                "columns have the same name", expected="unique column names", found=", ".join(twice)
            )
        for key, name, accepts, wanted in (
            ("topic.column", self.topic_column, _is_text, "text"),
            ("headers.column", self.headers_column, _is_headers, f"{HEADERS}, or a map"),
            ("timestamp.column", self.timestamp_column, pa.types.is_timestamp, "a timestamp"),
            ("partition.column", self.partition_column, pa.types.is_integer, "an integer"),
        ):
            if name is not None:
                _check_column(schema, name, key, accepts, wanted)
        for name in self.key_fields:
            _check_column(schema, name, "key.fields", lambda _: True, "")
        if self.key_format is None:
            for name in self._key_columns(schema):
                _check_column(schema, name, "key.fields", _is_bytes, "bytes or text")
        if self.value_format is None:
            _check_column(schema, "value", "value.format", _is_bytes, "bytes or text")
            left = [name for name in self._value_columns(schema) if name != "value"]
            if left:
                raise ConfigurationError(
                    "rows have columns that are not part of a record",
                    expected="value, key, and the columns named by options",
                    found=", ".join(left),
                    option="value.format",
                    hint="select the columns to write, name the column in an option such as "
                    "'topic.column', or choose a format that encodes all columns as the "
                    "value",
                )
        for form, columns in (
            (self.key_format, self._key_columns(schema)),
            (self.value_format, self._value_columns(schema)),
        ):
            if form is not None:
                form.check_writable(pa.schema([schema.field(name) for name in columns]))

    # --- For each batch -------------------------------------------------------------------------

    def serialize(
        self, batch: pa.RecordBatch, *, deleted: pa.BooleanArray | None = None
    ) -> Serialized:
        """Convert rows to records. Executor.

        Args:
            batch: The rows.
            deleted: Which rows are deletions, whose records have no value.
        """
        key, bad_keys = _encode(
            self.key_format, batch, self._key_columns(batch.schema), self.key_fields_prefix
        )
        value, bad_values = self._encoded_values(batch, deleted)
        columns = {"key": key, "value": value}
        for name, column, kind in (
            ("topic", self.topic_column, pa.string()),
            ("partition", self.partition_column, pa.int64()),
            ("headers", self.headers_column, HEADERS),
        ):
            if column is not None:
                columns[name] = batch.column(column).cast(kind)
        if self.timestamp_column is not None:
            instants = batch.column(self.timestamp_column)
            milliseconds = pa.timestamp("ms", tz=instants.type.tz)
            columns["timestamp"] = instants.cast(milliseconds, safe=False).cast(pa.int64())
        return Serialized(records=pa.RecordBatch.from_pydict(columns), bad=bad_keys + bad_values)

    def _encoded_values(
        self, batch: pa.RecordBatch, deleted: pa.BooleanArray | None
    ) -> tuple[pa.Array, tuple[BadMessage, ...]]:
        names = self._value_columns(batch.schema)
        if deleted is None or not deleted.true_count:
            return _encode(self.value_format, batch, names)
        rows = np.flatnonzero(~deleted.to_numpy(zero_copy_only=False))
        values, bad = _encode(self.value_format, batch.take(pa.array(rows)), names)
        bad = tuple(replace(each, at=int(rows[each.at])) for each in bad)
        return _scattered(values, rows, batch.num_rows), bad

    def _key_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        if self.key_fields or self.value_format is not None or "key" not in schema.names:
            return self.key_fields
        return ("key",)

    def _value_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        taken = {
            ROW_KIND_COLUMN,
            self.topic_column,
            self.headers_column,
            self.timestamp_column,
            self.partition_column,
        }
        if self.writes_changelog:
            taken.remove(ROW_KIND_COLUMN)
        if self.value_format is None or self.value_fields is ValueFields.EXCEPT_KEY:
            taken.update(self._key_columns(schema))
        return tuple(name for name in schema.names if name not in taken)


def _encode(
    form: EncodingFormat | None, batch: pa.RecordBatch, names: Sequence[str], prefix: str = ""
) -> tuple[pa.Array, tuple[BadMessage, ...]]:
    if not names:
        return pa.nulls(batch.num_rows, pa.binary()), ()
    columns = [batch.column(name) for name in names]
    if form is None:
        return columns[0].cast(pa.binary()), ()
    plain = [name.removeprefix(prefix) for name in names]
    encoded = form.encode(pa.RecordBatch.from_arrays(columns, names=plain))
    messages = encoded.messages
    if encoded.kept is not None:
        # As many rows as before: bad values are dropped later, with their whole record.
        messages = _scattered(messages, encoded.kept, batch.num_rows)
    return messages, encoded.bad


def _scattered(values: pa.Array, rows: npt.NDArray[np.int64], total: int) -> pa.Array:
    """Return a column with values at some rows, and null at the others."""
    source = np.full(total, -1)
    source[rows] = np.arange(len(values))
    return values.take(pa.array(source, mask=source < 0))


def _check_column(
    schema: pa.Schema, name: str, option: str, accepts: Callable[[pa.DataType], bool], wanted: str
) -> None:
    if name not in schema.names:
        raise ConfigurationError(
            f"the column {name!r} is missing",
            expected=wanted,
            found=f"columns {', '.join(schema.names)}",
            option=option,
        )
    found = schema.field(name).type
    if not accepts(found):
        raise ConfigurationError(
            f"the column {name!r} has an unsupported type",
            expected=wanted,
            found=found,
            option=option,
            hint="cast the column",
        )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return _is_text(kind) or bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_headers(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _is_text(kind.key_type) and _is_bytes(kind.item_type)
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return (
        fields.keys() == {"key", "value"} and _is_text(fields["key"]) and _is_bytes(fields["value"])
    )
