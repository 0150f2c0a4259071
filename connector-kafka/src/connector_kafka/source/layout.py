# SPDX-License-Identifier: Apache-2.0
"""Converts a record to the source's columns: key, value, and metadata."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connector_kafka.fields import ValueFields
from connector_kafka.source.bounds import Bounds, bounds_of
from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.formats import DecodingFormat
from connectors_core.source import Predicate

__all__ = ["CLUSTER", "METADATA", "OF_VALUE", "RAW_COLUMNS", "Damaged", "RecordLayout", "Rows"]

_HEADER: Final = pa.struct([pa.field("key", pa.string(), False), ("value", pa.binary())])
#: Metadata columns of a record, by their default names.
METADATA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestamp_type", pa.int32()),
        pa.field("headers", pa.list_(pa.field("item", _HEADER, False))),
        pa.field("kafka_cluster", pa.string()),
    ]
)
CLUSTER: Final = "kafka_cluster"
"""The metadata that only a source of several clusters has (as in Flink)."""
#: The metadata columns that are included if nothing is decoded.
RAW_COLUMNS: Final = tuple(name for name in METADATA.names if name not in ("headers", CLUSTER))
OF_VALUE: Final = "value."
"""The prefix of the metadata that the format of values reads (as in Flink)."""
_MAX_MILLISECONDS: Final = (2**63 - 1) // 1000
_OF_PARTITION: Final = frozenset({"topic", "partition", CLUSTER})
# The fields whose conditions are evaluated before keys and values are decoded.
_BEFORE_DECODING: Final = _OF_PARTITION | {"offset", "timestamp", "timestamp_type"}


@dataclass(frozen=True)
class Damaged:
    """A record that cannot be decoded.

    Attributes:
        offset: The offset of the record.
        reason: The reason, without the record's values.
        raw: Its value, or its key if the key cannot be decoded.
        cause: The underlying error, which is never shown by itself.
    """

    offset: int
    reason: str
    raw: bytes | None
    cause: Exception | None


@dataclass(frozen=True)
class Rows:
    """Rows of the source.

    Attributes:
        rows: The rows.
        damaged: The records that could not be decoded.
        excluded_before: The number of records before the rows that a condition excludes.
        excluded_after: The number of such records after the rows.
    """

    rows: pa.RecordBatch
    damaged: tuple[Damaged, ...] = ()
    excluded_before: int = 0
    excluded_after: int = 0


@dataclass(frozen=True, kw_only=True)
class RecordLayout:
    """The columns of a source, and their origin.

    Attributes:
        key_format: The format of keys, or None to leave them undecoded.
        key_fields: The columns of decoded keys.
        key_names: Their names in the source's schema, which can have a prefix.
        value_format: The format of values, or None to leave them undecoded.
        value_fields: The columns of decoded values.
        metadata: Pairs of a field of `METADATA` and its column name. These columns come last.
        columns: The columns to return, or None for all. A format can decode more.
        conditions: Conditions on metadata columns. Records before the first match and after the
            last one are not decoded.
        cluster: The ID of the cluster, for the metadata `kafka_cluster`.
    """

    key_format: DecodingFormat | None
    key_fields: pa.Schema
    key_names: tuple[str, ...]
    value_format: DecodingFormat | None
    value_fields: pa.Schema
    metadata: tuple[tuple[str, str], ...]
    columns: tuple[str, ...] | None = None
    conditions: tuple[Predicate, ...] = ()
    cluster: str = ""

    @classmethod
    def of(
        cls,
        *,
        value_format: DecodingFormat | None,
        schema: pa.Schema | None,
        key_format: DecodingFormat | None,
        key_fields: Sequence[str],
        key_fields_prefix: str,
        value_fields: ValueFields,
        metadata_columns: Mapping[str, str] | Sequence[str] | None,
    ) -> RecordLayout:
        """Combine formats, columns, and metadata. See `KafkaSource` for their meaning.

        Raises:
            ConfigurationError: They contradict each other.
        """
        decoded = value_format is not None or key_format is not None
        if decoded != (schema is not None):
            raise ConfigurationError(
                "formats and columns must be set together",
                expected="a format and a schema, or neither",
                found="a format without a schema" if decoded else "a schema without a format",
                option="schema",
            )
        if (key_format is not None) != bool(key_fields):
            raise ConfigurationError(
                "the format and the columns of keys must be set together",
                expected="key.format and key.fields, or neither",
                option="key.fields",
            )
        in_values = value_fields is ValueFields.ALL
        if key_fields_prefix and in_values:
            raise InvalidOptionError(
                "with a prefix, values cannot contain the columns of keys",
                expected="value.fields-include except-key",
                option="key.fields-prefix",
            )
        fields = {each.name: each for each in schema or ()}
        _check_key_fields(key_fields, fields, key_fields_prefix)
        keys = [] if value_format is not None and in_values else list(key_fields)
        values = [each for each in schema or () if each.name not in keys]
        if value_format is None and values:
            raise ConfigurationError(
                "columns of the schema have no source",
                expected="key.fields with all of them, or a format for values",
                found=", ".join(each.name for each in values),
                option="value.format",
            )
        if metadata_columns is None:
            metadata_columns = () if decoded else RAW_COLUMNS
        readable = {} if value_format is None else value_format.readable_metadata
        metadata, of_values = _metadata(metadata_columns, readable)
        if value_format is not None and of_values:
            values += [pa.field(name, readable[key]) for key, name in of_values]
            value_format = value_format.reading_metadata({name: key for key, name in of_values})
        return cls(
            key_format=key_format if keys else None,
            key_fields=pa.schema(
                [fields[name].with_name(name.removeprefix(key_fields_prefix)) for name in keys]
            ),
            key_names=tuple(keys),
            value_format=value_format,
            value_fields=pa.schema(values),
            metadata=metadata,
        )

    def check(self) -> None:
        """Check on the driver that formats and columns fit each other.

        Raises:
            ConfigurationError: They do not fit.
        """
        names = self.schema.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice or not names:
            raise InvalidOptionError(
                "the source has no columns, or two columns with the same name",
                expected="at least one column, and unique names",
                found=f"twice: {', '.join(twice)}" if twice else "no column",
                option="schema",
                hint="key.fields-prefix and metadata.columns rename columns",
            )
        if self.key_format is not None:
            if not self.key_format.one_row_per_message:
                raise InvalidOptionError(
                    "a changelog cannot be read from keys",
                    expected="a format with one row for each message",
                    found=type(self.key_format).__name__,
                    option="key.format",
                    hint="set it as value.format",
                )
            self.key_format.check_readable(self.key_fields)
        if self.value_format is not None:
            self.value_format.check_readable(self.value_fields)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the source: of the key, of the value, and metadata."""
        keys = [
            each.with_name(name) for each, name in zip(self.key_fields, self.key_names, strict=True)
        ]
        metadata = [METADATA.field(field).with_name(name) for field, name in self.metadata]
        schema = pa.schema([*keys, *self.value_fields, *metadata])
        if self.columns is None:
            return schema
        return pa.schema([schema.field(name) for name in self.columns])

    def projected(self, columns: Sequence[str]) -> RecordLayout:
        """Return a layout that reads and decodes only what these columns need. Driver.

        Args:
            columns: At least one column, in the order of the schema.
        """
        wanted = frozenset(columns)
        key_format, keys = _decoded_for(wanted, self.key_format, self.key_fields, self.key_names)
        value_format, values = _decoded_for(
            wanted, self.value_format, self.value_fields, self.value_fields.names
        )
        return replace(
            self,
            key_format=key_format,
            key_fields=pa.schema([self.key_fields.field(at) for at in keys]),
            key_names=tuple(self.key_names[at] for at in keys),
            value_format=value_format,
            value_fields=pa.schema([self.value_fields.field(at) for at in values]),
            metadata=tuple(each for each in self.metadata if each[1] in wanted),
            columns=tuple(columns),
        )

    def filtered(self, conditions: Sequence[Predicate]) -> RecordLayout:
        """Return a layout that decodes no records that a condition on metadata excludes. Driver.

        Reports count rows. The number of rows of a record that is not decoded is only known if
        each record has one.
        """
        formats = (self.key_format, self.value_format)
        if any(each is not None and not each.one_row_per_message for each in formats):
            return self
        known = {(name,) for field, name in self.metadata if field in _BEFORE_DECODING}
        usable = tuple(each for each in conditions if each.fields() <= known)
        return replace(self, conditions=usable)

    @property
    def bounds(self) -> Bounds:
        """The offsets outside of which the conditions exclude all records."""
        names = dict(self.metadata)
        return bounds_of(
            self.conditions, offset=names.get("offset"), timestamp=names.get("timestamp")
        )

    @property
    def fetched_columns(self) -> tuple[str, ...]:
        """The columns to read from records, with names of `connector_kafka.records.COLUMNS`."""
        wanted = {field for field, _ in self.metadata} - _OF_PARTITION
        if self.key_format is not None:
            wanted |= {"key", "offset"}
        if self.value_format is not None:
            wanted |= {"value", "offset"}
        if "timestamp" in wanted:
            wanted.add("offset")
        return tuple(name for name in METADATA.names if name in wanted) or ("offset",)

    def rows(self, records: pa.RecordBatch, topic: str, partition: int) -> Rows:
        """Convert records of one partition to rows. Executor."""
        damaged: list[Damaged] = []
        if "timestamp" in records.schema.names:
            records = _in_time(records, damaged)
        first, last = self._matching(records, topic, partition)
        total = records.num_rows
        records = records.slice(first, last - first)
        keys: list[pa.Array] = []
        values: list[pa.Array] = []
        if self.key_format is not None:
            records, keys = _decode(records, "key", self.key_format, self.key_fields, [], damaged)
        if self.value_format is not None:
            records, decoded = _decode(
                records, "value", self.value_format, self.value_fields, keys, damaged
            )
            keys, values = decoded[: len(keys)], decoded[len(keys) :]
        beside = [
            self._metadata_column(field, records, topic, partition) for field, _ in self.metadata
        ]
        columns = [*keys, *values, *beside]
        if self.columns is not None:
            by_name = dict(zip(self._names, columns, strict=True))
            columns = [by_name[name] for name in self.columns]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Rows(rows, tuple(damaged), excluded_before=first, excluded_after=total - last)

    def _metadata_column(
        self, field: str, records: pa.RecordBatch, topic: str, partition: int
    ) -> pa.Array:
        kind = METADATA.field(field).type
        constants = {"topic": topic, "partition": partition, CLUSTER: self.cluster}
        if field in constants:
            return pa.repeat(pa.scalar(constants[field], kind), records.num_rows)
        column = records.column(field)
        return column if column.type == kind else pc.cast(column, kind)

    @property
    def _names(self) -> tuple[str, ...]:
        metadata = (name for _, name in self.metadata)
        return (*self.key_names, *self.value_fields.names, *metadata)

    def _matching(self, records: pa.RecordBatch, topic: str, partition: int) -> tuple[int, int]:
        """Return the range of records outside of which a condition excludes all."""
        first, last = 0, records.num_rows
        if not self.conditions:
            return first, last
        fields = {name: field for field, name in self.metadata}
        names = sorted({path[0] for each in self.conditions for path in each.fields()})
        metadata = pa.RecordBatch.from_arrays(
            [self._metadata_column(fields[name], records, topic, partition) for name in names],
            names=names,
        )
        matches = np.ones(last, np.bool_)
        for each in self.conditions:
            matches &= pc.fill_null(each.mask(metadata), False).to_numpy(zero_copy_only=False)
        found = np.flatnonzero(matches)
        return (int(found[0]), int(found[-1]) + 1) if len(found) else (last, last)


def _decoded_for(
    wanted: frozenset[str],
    decoding: DecodingFormat | None,
    fields: pa.Schema,
    names: Sequence[str],
) -> tuple[DecodingFormat | None, list[int]]:
    """Return the format and the positions of the fields that it decodes for some columns.

    Reports count rows, so a format decodes messages with several rows even if no column needs it.
    """
    kept = [at for at, name in enumerate(names) if name in wanted]
    if decoding is None or (decoding.one_row_per_message and not kept):
        return None, []
    projected = decoding.projected(fields) if 0 < len(kept) < len(names) else None
    return (decoding, [*range(len(names))]) if projected is None else (projected, kept)


def _check_key_fields(names: Sequence[str], fields: Mapping[str, pa.Field], prefix: str) -> None:
    wrong = [name for name in names if name not in fields or not name.startswith(prefix)]
    if wrong:
        raise InvalidOptionError(
            "the columns of keys cannot be used",
            expected=f"columns of the schema that start with {prefix!r}",
            found=", ".join(wrong),
            option="key.fields",
        )


def _metadata(
    columns: Mapping[str, str] | Sequence[str], of_format: Collection[str]
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return the metadata of records, and of values; pairs of a field and its column name.

    Args:
        columns: The column names by field, or the fields.
        of_format: The metadata that the format of values reads.
    """
    named = columns if isinstance(columns, Mapping) else {name: name for name in columns}
    known = [*METADATA.names, *(OF_VALUE + key for key in of_format)]
    for field in named:
        if field not in known:
            raise InvalidOptionError(
                f"the metadata column {field!r} does not exist",
                expected="one of " + ", ".join(known),
                found=field,
                option="metadata.columns",
            )
    of_values = [each for each in named.items() if each[0].startswith(OF_VALUE)]
    of_records = [each for each in named.items() if each not in of_values]
    return tuple(of_records), tuple(
        (field.removeprefix(OF_VALUE), name) for field, name in of_values
    )


def _in_time(records: pa.RecordBatch, damaged: list[Damaged]) -> pa.RecordBatch:
    """Drop records whose timestamp is out of range, for example from a producer with another unit.

    Kafka accepts any number as a timestamp, without validation.
    """
    milliseconds = records.column("timestamp").cast(pa.int64()).to_numpy()
    good = (milliseconds >= -_MAX_MILLISECONDS) & (milliseconds <= _MAX_MILLISECONDS)
    if good.all():
        return records
    damaged += [
        Damaged(
            offset=records.column("offset")[at].as_py(),
            reason="the timestamp of the record is out of range",
            raw=records.column("value")[at].as_py() if "value" in records.schema.names else None,
            cause=None,
        )
        for at in np.flatnonzero(~good).tolist()
    ]
    return records.filter(pa.array(good))


def _decode(
    records: pa.RecordBatch,
    part: str,
    decoding: DecodingFormat,
    fields: pa.Schema,
    before: list[pa.Array],
    damaged: list[Damaged],
) -> tuple[pa.RecordBatch, list[pa.Array]]:
    """Decode keys or values, and drop bad records from all columns."""
    messages = records.column(part)
    decoded = decoding.decode(messages, fields)
    offsets = records.column("offset")
    damaged += [
        Damaged(
            offset=offsets[bad.at].as_py(),
            reason=f"the {part} cannot be decoded: {bad.reason}",
            raw=messages[bad.at].as_py(),
            cause=bad.cause,
        )
        for bad in decoded.bad
    ]
    before = [decoded.lined_up(column) for column in before]
    return decoded.lined_up(records), [*before, *decoded.rows.columns]
