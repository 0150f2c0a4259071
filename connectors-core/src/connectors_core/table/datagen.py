# SPDX-License-Identifier: Apache-2.0
"""Tables of generated rows for SQL: `'connector' = 'datagen'`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    InvalidOptionError,
    UnknownOptionError,
)
from connectors_core.options import (
    DURATION,
    Configured,
    Setting,
    at_least,
    between,
    option,
    positive,
)
from connectors_core.schema import type_text
from connectors_core.source.data_generator import DataGeneratorSource
from connectors_core.source.random_columns import (
    ColumnGenerator,
    RandomBooleans,
    RandomDecimals,
    RandomFloats,
    RandomIntegers,
    RandomLists,
    RandomNulls,
    RandomStructs,
    RandomTexts,
    RandomWords,
    RowGenerator,
    SequenceColumn,
    most_bytes,
)
from connectors_core.source.rate_limiter import RateLimiterStrategy
from connectors_core.source.sequence import DEFAULT_BATCH_ROWS
from connectors_core.table.configured_tables import (
    ConfiguredTableFactory,
    refuse_metadata,
    schema_option,
)
from connectors_core.table.factory import DynamicTableContext, ScanTableSource
from connectors_core.table.references import has_reference

__all__ = ["DataGenTableFactory"]

T = TypeVar("T")

_FIELDS: Final = "fields"
_ELEMENT: Final = "element"
_TEXT_LENGTH: Final = 100
_LIST_LENGTH: Final = 3
_MOST_DIGITS: Final = 18
_BATCH_BYTES: Final = 32 << 20
_DAY: Final = timedelta(days=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)


class DataGenOptions(Configured, scope="datagen table", since="1.1.0"):
    """The options of a table of generated rows."""

    rows_per_second: Setting[float] = option(
        "rows-per-second",
        float,
        unit="rows",
        default=10_000.0,
        validator=positive,
        doc="Average number of rows per second over all readers, when rows are read as a stream.",
    )
    number_of_rows: Setting[int | None] = option(
        "number-of-rows",
        int,
        unit="rows",
        default=None,
        validator=at_least(0),
        doc="Number of rows. Without it, the table ends with its shortest sequence, if it has one.",
    )
    seed: Setting[int] = option(
        "seed",
        int,
        default=0,
        doc="Tables with the same seed and columns have the same rows.",
    )
    fields: Setting[dict[str, Any]] = option(
        "fields.*", dict, default={}, doc="Options of a column, such as `fields.id.kind`."
    )


class FieldKind(StrEnum):
    """How the values of a column come about."""

    RANDOM = "random"
    """Random values of the type."""
    SEQUENCE = "sequence"
    """The numbers from `start` to `end`."""


class FieldOptions(Configured, scope="column of a datagen table", since="1.1.0"):
    """The options of a column of generated rows."""

    kind: Setting[FieldKind] = option(
        "kind", FieldKind, default=FieldKind.RANDOM, doc="How the values come about."
    )
    start: Setting[int | None] = option(
        "start", int, default=None, doc="First number of a sequence, which needs it."
    )
    end: Setting[int | None] = option(
        "end", int, default=None, doc="Last number of a sequence, which needs it."
    )
    min: Setting[str | None] = option(
        "min", str, default=None, doc="Least random number; by default that of the type."
    )
    max: Setting[str | None] = option(
        "max",
        str,
        default=None,
        doc="Greatest random number, by default that of the type, or newest time, by default "
        "`2024-01-01`. It is not the current time, because rows must not differ when they are "
        "generated again.",
    )
    max_past: Setting[timedelta] = option(
        "max-past",
        DURATION,
        default=timedelta(0),
        validator=at_least(timedelta(0)),
        doc="Longest time before the newest one.",
    )
    length: Setting[int | None] = option(
        "length",
        int,
        default=None,
        validator=between(1, 10_000),
        doc=f"Length of a text or binary value, by default {_TEXT_LENGTH}, or of an array, by "
        f"default {_LIST_LENGTH}.",
    )
    var_len: Setting[bool] = option(
        "var-len", bool, default=False, doc="Whether `length` is the greatest length."
    )
    null_rate: Setting[float] = option(
        "null-rate", float, default=0.0, validator=between(0.0, 1.0), doc="Share of nulls."
    )


class DataGenTableFactory(ConfiguredTableFactory):
    """Tables of rows that depend only on a seed and their numbers."""

    identifier = "datagen"
    parts = (DataGenOptions,)

    def validate(self, context: DynamicTableContext) -> None:
        """See `DynamicTableFactory`."""
        super().validate(context)
        if not any(map(has_reference, context.options.values())):
            self.create_scan_source(context)

    def create_scan_source(self, context: DynamicTableContext) -> ScanTableSource:
        """See `DynamicTableFactory`."""
        refuse_metadata(context, context.table.schema.metadata)
        schema = schema_option(context)
        if schema is None or not schema.names:
            raise ConfigurationError(
                f"the table {context.name} needs columns, from which its rows are generated"
            )
        options = DataGenOptions.from_options(context.options)
        fields = _Fields(context.name, options)
        columns = tuple(map(fields.column, schema))
        fields.refuse_others()
        counts = [*fields.sequences, options.number_of_rows]
        return ScanTableSource(
            source=DataGeneratorSource(
                RowGenerator(schema, columns),
                min((each for each in counts if each is not None), default=None),
                schema,
                RateLimiterStrategy.per_second(options.rows_per_second),
                batch_rows=_batch_rows(columns),
            )
        )


@dataclass
class _Fields:
    """Creates the generators of the columns of one table.

    Attributes:
        sequences: The lengths of the sequences so far.
    """

    table: str
    options: DataGenOptions
    sequences: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._given: dict[str, dict[str, Any]] = {}
        for key, value in self.options.fields.items():
            path, _, name = key.lower().rpartition(".")
            self._given.setdefault(path, {})[name] = value
        self._known: list[str] = []

    def refuse_others(self) -> None:
        """Refuse options of columns that the table does not have."""
        known = [f"{_FIELDS}.{each}" for each in self._known]
        for key in self.options.fields:
            if key.lower().rpartition(".")[0] not in self._known:
                raise UnknownOptionError(
                    f"{_FIELDS}.{key}", known=known, scope=f"table {self.table}"
                )

    def column(self, declared: pa.Field, above: str = "") -> ColumnGenerator:
        """Return the generator of a column, or of a field within one."""
        path = f"{above}{declared.name}".lower()
        self._known.append(path)
        given = self._given.get(path, {})
        try:
            options = FieldOptions.from_options(given)
            return self._generator(declared, path, options, set(given))
        except ConnectorError as error:
            if error.option is not None and not error.option.startswith(f"{_FIELDS}."):
                error.rename_options({error.option: f"{_FIELDS}.{path}.{error.option}"})
            raise

    def _generator(
        self, declared: pa.Field, path: str, options: FieldOptions, given: set[str]
    ) -> ColumnGenerator:
        words = RandomWords(self.options.seed, path)
        if options.kind is FieldKind.SEQUENCE:
            _refuse(given - {"kind", "start", "end"}, "a sequence")
            start, end = _bounds_of_sequence(declared.type, options)
            self.sequences.append(end - start + 1)
            return SequenceColumn(declared.type, start)
        values, usable = self._random(declared.type, path, options, words)
        _refuse(given - {"kind", "null-rate", *usable}, f"random {type_text(declared.type)}")
        if not options.null_rate:
            return values
        if not declared.nullable:
            raise _invalid("null-rate", "0 for a column that is NOT NULL", options.null_rate)
        return RandomNulls(values, options.null_rate, words)

    def _random(
        self, kind: pa.DataType, path: str, options: FieldOptions, words: RandomWords
    ) -> tuple[ColumnGenerator, set[str]]:
        """Return the generator of random values, and the options that it uses."""
        types = pa.types
        if types.is_boolean(kind):
            return RandomBooleans(words), set()
        if types.is_integer(kind):
            limits = np.iinfo(kind.to_pandas_dtype())
            least, most = _bounds(options, int, (int(limits.min), int(limits.max)))
            return RandomIntegers(kind, least, most, words), {"min", "max"}
        if types.is_floating(kind):
            floats = np.finfo(kind.to_pandas_dtype())
            low, high = _bounds(options, float, (float(floats.min), float(floats.max)))
            return RandomFloats(kind, low, high, words), {"min", "max"}
        if types.is_decimal(kind):
            largest = Decimal(10 ** min(kind.precision, _MOST_DIGITS) - 1).scaleb(-kind.scale)
            bounds = _bounds(options, lambda text: _decimal(text, kind.scale), (-largest, largest))
            least, most = (int(each.scaleb(kind.scale)) for each in bounds)
            return RandomDecimals(kind, least, most, words), {"min", "max"}
        if types.is_timestamp(kind) or types.is_date(kind):
            unit = _DAY if types.is_date(kind) else _MICROSECOND
            newest = _moment(options.max or "2024-01-01")
            if options.max_past > newest - _OLDEST:
                raise _invalid("max-past", f"at most {newest - _OLDEST}", options.max_past)
            most = (newest - _EPOCH) // unit
            least = most - options.max_past // unit
            return RandomIntegers(kind, least, most, words), {"max", "max-past"}
        if types.is_string(kind) or types.is_binary(kind):
            length = options.length or _TEXT_LENGTH
            return RandomTexts(kind, length, options.var_len, words), {"length", "var-len"}
        if types.is_struct(kind):
            return RandomStructs(kind, tuple(self.column(each, f"{path}.") for each in kind)), set()
        if types.is_list(kind):
            before = len(self.sequences)
            elements = self.column(kind.value_field.with_name(_ELEMENT), f"{path}.")
            if len(self.sequences) > before:
                raise _invalid(f"{_ELEMENT}.kind", "random in an array", FieldKind.SEQUENCE.value)
            return RandomLists(kind, options.length or _LIST_LENGTH, elements), {"length"}
        raise ConfigurationError(
            f"the table {self.table} has a column whose type cannot be generated",
            expected="another type",
            found=f"{path} {type_text(kind)}",
            hint="compute the column from others: name AS expression",
        )


def _batch_rows(columns: Sequence[ColumnGenerator]) -> int:
    """Return the rows of a batch, which are few if they are large."""
    return max(1, min(DEFAULT_BATCH_ROWS, _BATCH_BYTES // sum(map(most_bytes, columns))))


def _bounds_of_sequence(kind: pa.DataType, options: FieldOptions) -> tuple[int, int]:
    types = pa.types
    if not any(is_(kind) for is_ in (types.is_integer, types.is_floating, types.is_decimal)) and (
        not types.is_string(kind)
    ):
        raise _invalid("kind", "random, or a column of numbers or texts", options.kind.value)
    if options.start is None or options.end is None:
        key = "start" if options.start is None else "end"
        raise _invalid(key, "the first and the last number of the sequence", "no value")
    if options.end < options.start:
        raise _invalid("end", f"at least {options.start}", options.end)
    for key, value in (("start", options.start), ("end", options.end)):
        try:
            SequenceColumn(kind, value)(np.zeros(1, np.int64))
        except (pa.ArrowInvalid, OverflowError) as error:
            raise _invalid(key, f"a value of the type {type_text(kind)}", value) from error
    return options.start, options.end


def _bounds(options: FieldOptions, parse: Callable[[str], T], limits: tuple[T, T]) -> tuple[T, T]:
    found: list[Any] = []
    for key, text, limit in (("min", options.min, limits[0]), ("max", options.max, limits[1])):
        try:
            value: Any = limit if text is None else parse(text)
        except (ValueError, InvalidOperation) as error:
            raise _invalid(key, "a number of the type of the column", text) from error
        if not limits[0] <= value <= limits[1]:
            raise _invalid(key, f"{limits[0]} to {limits[1]}", text)
        found.append(value)
    if found[0] > found[1]:
        raise _invalid("max", f"at least {options.min or limits[0]}", options.max or limits[1])
    return found[0], found[1]


def _decimal(text: str, scale: int) -> Decimal:
    found = Decimal(text)
    if found != round(found, scale):
        raise ValueError(text)
    return found


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise _invalid("max", "a date or time such as 2024-01-01 12:30:00", text) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _refuse(keys: set[str], values: str) -> None:
    for key in sorted(keys):
        raise _invalid(key, f"no value for {values}", "a value")


def _invalid(key: str, expected: str, found: object) -> InvalidOptionError:
    return InvalidOptionError(
        f"the value of {key!r} cannot be used", expected=expected, found=found, option=key
    )
