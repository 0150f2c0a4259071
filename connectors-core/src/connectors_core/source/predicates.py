# SPDX-License-Identifier: Apache-2.0
"""Conditions on rows that a query pushes down to its source.

A source may use a condition to read less. It then leaves out rows that the condition excludes, and
need not leave out all of them, because Spark evaluates the condition again. Every method therefore
errs on the side of keeping a row: `mask` and `may_match` never exclude a row that the condition
accepts in SQL, where null is not true.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "And",
    "Comparison",
    "ComparisonOperator",
    "FieldPath",
    "IsIn",
    "IsNull",
    "Not",
    "Or",
    "Predicate",
    "StartsWith",
    "ValueRange",
]

FieldPath: TypeAlias = tuple[str, ...]
"""The name of a column, followed by the names of nested fields."""

ComparisonOperator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
"""An operator of SQL."""

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], pa.Array]]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
assert set(_OPERATORS) == set(get_args(ComparisonOperator))


@dataclass(frozen=True, kw_only=True)
class ValueRange:
    """The values that a column has in a part of the data, such as a row group or a partition.

    Attributes:
        low: The lowest value, or a lower bound; None if it is unknown.
        high: The highest value, or an upper bound; None if it is unknown.
        has_nulls: Whether a value may be null.
        has_values: Whether a value may not be null.
    """

    low: Any = None
    high: Any = None
    has_nulls: bool = True
    has_values: bool = True

    @staticmethod
    def of(value: Any) -> ValueRange:
        """Return the range of a constant column; None stands for null."""
        if value is None:
            return ValueRange(has_values=False)
        return ValueRange(low=value, high=value, has_nulls=False)


class Predicate(ABC):
    """A condition on a row. Immutable and picklable; ``str`` returns it in the form of SQL.

    Values are those of Python for the column's type: int, str, bytes, bool, Decimal, date,
    and datetime, which has a time zone exactly if the column has one.
    """

    @abstractmethod
    def fields(self) -> frozenset[FieldPath]:
        """Return the fields that it uses."""

    @abstractmethod
    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Evaluate it on the rows of a batch that has all its fields. Executor.

        Returns:
            One boolean per row; null where SQL returns null. ``RecordBatch.filter`` with it keeps
            the rows for which the condition is true.
        """

    @abstractmethod
    def may_match(self, ranges: Mapping[FieldPath, ValueRange]) -> bool:
        """Return whether rows with values in these ranges may satisfy it.

        Args:
            ranges: The known ranges. A field without a range may have any value.
        """


@dataclass(frozen=True)
class _OfField(Predicate):
    field: FieldPath

    def fields(self) -> frozenset[FieldPath]:
        """See `Predicate`."""
        return frozenset([self.field])


@dataclass(frozen=True)
class _OfConditions(Predicate):
    conditions: tuple[Predicate, ...]

    def fields(self) -> frozenset[FieldPath]:
        """See `Predicate`."""
        return frozenset().union(*(each.fields() for each in self.conditions))


@dataclass(frozen=True)
class Comparison(_OfField):
    """Compares a field with a value.

    Attributes:
        field: The field.
        operator: The operator.
        value: A value other than null.
    """

    operator: ComparisonOperator
    value: Any

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """See `Predicate`."""
        values = values_of(batch, self.field)
        return _OPERATORS[self.operator](values, pa.scalar(self.value, values.type))

    def may_match(self, ranges: Mapping[FieldPath, ValueRange]) -> bool:
        """See `Predicate`."""
        found = ranges.get(self.field, ValueRange())
        if not found.has_values:
            return False
        low, high = found.low, found.high
        if self.operator == "!=":
            return low is None or high is None or not low == high == self.value
        above = low is not None and operator.gt(low, self.value)
        below = high is not None and operator.lt(high, self.value)
        if self.operator == "=":
            return not (above or below)
        if self.operator.startswith("<"):
            only = self.operator == "<" and low is not None and low == self.value
            return not (above or only)
        only = self.operator == ">" and high is not None and high == self.value
        return not (below or only)

    def __str__(self) -> str:
        return f"{field_text(self.field)} {self.operator} {_value(self.value)}"


@dataclass(frozen=True)
class IsIn(_OfField):
    """Compares a field with several values.

    Attributes:
        field: The field.
        values: Values other than null.
    """

    values: tuple[Any, ...]

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """See `Predicate`."""
        values = values_of(batch, self.field)
        found = pc.is_in(values, value_set=pa.array(self.values, values.type))
        return pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_()))

    def may_match(self, ranges: Mapping[FieldPath, ValueRange]) -> bool:
        """See `Predicate`."""
        return any(Comparison(self.field, "=", each).may_match(ranges) for each in self.values)

    def __str__(self) -> str:
        return f"{field_text(self.field)} IN ({', '.join(map(_value, self.values))})"


@dataclass(frozen=True)
class IsNull(_OfField):
    """Is true where a field is null. `Not` of it is true where the field has a value.

    Attributes:
        field: The field.
    """

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """See `Predicate`."""
        return pc.is_null(values_of(batch, self.field))

    def may_match(self, ranges: Mapping[FieldPath, ValueRange]) -> bool:
        """See `Predicate`."""
        return ranges.get(self.field, ValueRange()).has_nulls

    def __str__(self) -> str:
        return f"{field_text(self.field)} IS NULL"


@dataclass(frozen=True)
class StartsWith(_OfField):
    """Compares the start of a text.

    Attributes:
        field: A field of text.
        prefix: The start.
    """

    prefix: str

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """See `Predicate`."""
        return pc.starts_with(values_of(batch, self.field), self.prefix)

    def may_match(self, ranges: Mapping[FieldPath, ValueRange]) -> bool:
        """See `Predicate`."""
        found = ranges.get(self.field, ValueRange())
        if not found.has_values:
            return False
        if found.high is not None and found.high < self.prefix:
            return False
        return found.low is None or found.low[: len(self.prefix)] <= self.prefix

    def __str__(self) -> str:
        return f"{field_text(self.field)} STARTS WITH {_value(self.prefix)}"


@dataclass(frozen=True)
class And(_OfConditions):
    """Is true where all conditions are true.

    Attributes:
        conditions: At least one condition.
    """

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """See `Predicate`."""
        return _combined(pc.and_kleene, self.conditions, batch)

    def may_match(self, ranges: Mapping[FieldPath, ValueRange]) -> bool:
        """See `Predicate`."""
        return all(each.may_match(ranges) for each in self.conditions)

    def __str__(self) -> str:
        return f"({' AND '.join(map(str, self.conditions))})"


@dataclass(frozen=True)
class Or(_OfConditions):
    """Is true where a condition is true.

    Attributes:
        conditions: At least one condition.
    """

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """See `Predicate`."""
        return _combined(pc.or_kleene, self.conditions, batch)

    def may_match(self, ranges: Mapping[FieldPath, ValueRange]) -> bool:
        """See `Predicate`."""
        return any(each.may_match(ranges) for each in self.conditions)

    def __str__(self) -> str:
        return f"({' OR '.join(map(str, self.conditions))})"


@dataclass(frozen=True)
class Not(Predicate):
    """Is true where a condition is false; null stays null.

    Attributes:
        condition: The condition.
    """

    condition: Predicate

    def fields(self) -> frozenset[FieldPath]:
        """See `Predicate`."""
        return self.condition.fields()

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """See `Predicate`."""
        return pc.invert(self.condition.mask(batch))

    def may_match(self, ranges: Mapping[FieldPath, ValueRange]) -> bool:
        """See `Predicate`."""
        if isinstance(self.condition, IsNull):
            return ranges.get(self.condition.field, ValueRange()).has_values
        return True

    def __str__(self) -> str:
        if isinstance(self.condition, IsNull):
            return f"{field_text(self.condition.field)} IS NOT NULL"
        return f"NOT {self.condition}"


def type_of_field(schema: pa.Schema, field: FieldPath) -> pa.DataType:
    """Return the type of a column, or of a field below it."""
    kind = schema.field(field[0]).type
    for name in field[1:]:
        kind = kind.field(name).type
    return kind


def equal_null_safe(field: FieldPath, value: Any) -> Predicate:
    """Return a condition that is false, and not null, where the field is null."""
    return And((Not(IsNull(field)), Comparison(field, "=", value)))


def is_comparable(kind: pa.DataType) -> bool:
    """Return whether Spark and Arrow compare the values of a type in the same way.

    Not so for floating-point numbers, whose NaN is the highest value in Spark.
    """
    return bool(
        pa.types.is_signed_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_decimal128(kind)
        or (pa.types.is_timestamp(kind) and kind.unit == "us")
    )


def values_of(batch: pa.RecordBatch, field: FieldPath) -> pa.Array:
    """Return the values of a field; null where a field around it is null."""
    values = batch.column(field[0])
    return pc.struct_field(values, list(field[1:])) if len(field) > 1 else values


def _combined(
    combine: Callable[[pa.Array, pa.Array], pa.Array],
    conditions: tuple[Predicate, ...],
    batch: pa.RecordBatch,
) -> pa.Array:
    first, *others = (each.mask(batch) for each in conditions)
    for other in others:
        first = combine(first, other)
    return first


def field_text(field: FieldPath) -> str:
    """Return the text of a field in SQL, in which a name with a dot is quoted."""
    return ".".join(
        name if name.isidentifier() else "`" + name.replace("`", "``") + "`" for name in field
    )


def _value(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)
