# SPDX-License-Identifier: Apache-2.0
"""Translates Spark's conditions into those that a source evaluates."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from connectors_core.source.predicates import (
    And,
    Comparison,
    ComparisonOperator,
    FieldPath,
    IsIn,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    equal_null_safe,
    is_comparable,
    type_of_field,
)
from connectors_core.spark.pushdown.plan_tree import PlanTree

COMPARISONS: Final[Mapping[str, ComparisonOperator]] = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_SWAPPED: Final[Mapping[ComparisonOperator, ComparisonOperator]] = {
    "=": "=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}
_NOT_DETERMINISTIC: Final = frozenset(
    {
        "CallMethodViaReflection",
        "InputFileBlockLength",
        "InputFileBlockStart",
        "InputFileName",
        "MonotonicallyIncreasingID",
        "PythonUDF",
        "Rand",
        "RandStr",
        "Randn",
        "ScalaUDF",
        "Shuffle",
        "SparkPartitionID",
        "Uniform",
        "Uuid",
    }
)


class _NotTranslated(Exception):
    """A source cannot evaluate an expression as Spark does."""


def conjuncts(condition: PlanTree) -> list[PlanTree]:
    """Return the conditions that all must be true for this one to be true."""
    if condition.kind != "And":
        return [condition]
    return [each for side in condition.children for each in conjuncts(side)]


def may_be_random(expression: PlanTree) -> bool:
    """Return whether the value of an expression may depend on more than the row."""
    return any(
        each.kind in _NOT_DETERMINISTIC or any(map(may_be_random, each.expressions()))
        for each in expression.walk()
    )


@dataclass(frozen=True)
class Conditions:
    """Translates conditions on the columns of one source.

    A type that Spark and Arrow compare differently is left to Spark: floating-point numbers, whose
    NaN is the highest value in Spark, binary values, and text with a collation.

    Args:
        names: The columns by Spark's id.
        types: Their types.
        time_zone: Returns the time zone in which Spark shows timestamps.
    """

    names: Mapping[int, str]
    types: pa.Schema
    time_zone: Callable[[], str]

    def translated(self, condition: PlanTree) -> Predicate | None:
        """Return the same condition for the source; None if the source cannot evaluate it."""
        try:
            return self._predicate(condition)
        except (_NotTranslated, ArithmeticError, ValueError, zoneinfo.ZoneInfoNotFoundError):
            return None

    def _predicate(self, node: PlanTree) -> Predicate:
        match node.kind:
            case "And":
                return And(tuple(map(self._predicate, conjuncts(node))))
            case "Or":
                return Or(tuple(map(self._predicate, node.children)))
            case "Not":
                return _negated(self._predicate(node.children[0]))
            case "IsNull":
                return IsNull(self._field(node.children[0])[0])
            case "IsNotNull":
                return Not(IsNull(self._field(node.children[0])[0]))
            case "In":
                field, kind = self._comparable(node.children[0])
                return IsIn(field, tuple(self._value(each, kind) for each in node.children[1:]))
            case "InSet":
                field, kind = self._comparable(node.children[0])
                return IsIn(field, tuple(sorted(_values_of_set(node.fields.get("hset"), kind))))
            case "StartsWith":
                field, kind = self._comparable(node.children[0])
                return StartsWith(field, self._value(node.children[1], kind))
            case "EqualNullSafe":
                equal = self._comparison("=", *node.children)
                return equal_null_safe(equal.field, equal.value)
            case "AttributeReference" | "GetStructField":
                return Comparison(self._comparable(node)[0], "=", True)
        if node.kind not in COMPARISONS:
            raise _NotTranslated
        return self._comparison(COMPARISONS[node.kind], *node.children)

    def _comparison(
        self, operator: ComparisonOperator, left: PlanTree, right: PlanTree
    ) -> Comparison:
        if left.kind == "Literal":
            left, right, operator = right, left, _SWAPPED[operator]
        field, kind = self._comparable(left)
        return Comparison(field, operator, self._value(right, kind))

    def _field(self, node: PlanTree) -> tuple[FieldPath, pa.DataType]:
        reference = node.reference()
        if reference is None or reference[0] not in self.names:
            raise _NotTranslated
        column, path = reference
        field = (self.names[column], *path)
        return field, type_of_field(self.types, field)

    def _comparable(self, node: PlanTree) -> tuple[FieldPath, pa.DataType]:
        field, kind = self._field(node)
        if not is_comparable(kind):
            raise _NotTranslated
        return field, kind

    def _value(self, node: PlanTree, kind: pa.DataType) -> Any:
        if node.kind != "Literal" or not isinstance(node.fields["value"], str):
            raise _NotTranslated
        return _fitting(self._parsed(node.fields["value"], str(node.fields["dataType"])), kind)

    def _parsed(self, text: str, kind: str) -> Any:
        match kind.partition("(")[0]:
            case "byte" | "short" | "integer" | "long":
                return int(text)
            case "string":
                return text
            case "boolean":
                return text == "true"
            case "date":
                return datetime.date.fromisoformat(text)
            case "decimal":
                return Decimal(text)
            case "timestamp_ntz":
                return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=int(text))
            case "timestamp":
                return self._instant(text)
        raise _NotTranslated

    def _instant(self, text: str) -> datetime.datetime:
        zone = zoneinfo.ZoneInfo(self.time_zone())
        first = datetime.datetime.fromisoformat(text).replace(tzinfo=zone)
        if first.utcoffset() != first.replace(fold=1).utcoffset():
            raise _NotTranslated  # the hour that occurs twice, or not at all
        return first


def _values_of_set(found: Any, kind: pa.DataType) -> Iterator[Any]:
    """Yield the values of a set, whose texts show Spark's internal form: days and microseconds."""
    if not found:
        raise _NotTranslated
    for text in found["values"]:
        match str(found["type"]).partition("(")[0]:
            case "tinyint" | "smallint" | "int" | "bigint" | "date" | "timestamp" | "timestamp_ntz":
                value: Any = int(text)
            case "decimal":
                value = Decimal(text)
            case "string":
                value = text
            case _:
                raise _NotTranslated
        yield _fitting(value, kind)


def _fitting(value: Any, kind: pa.DataType) -> Any:
    try:
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise _NotTranslated from error


def _negated(condition: Predicate) -> Predicate:
    if isinstance(condition, Comparison) and condition.operator == "=":
        return Comparison(condition.field, "!=", condition.value)
    return Not(condition)
