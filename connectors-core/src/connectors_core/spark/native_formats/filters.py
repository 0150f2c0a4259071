# SPDX-License-Identifier: Apache-2.0
"""Translates the filters that Spark passes to a Python data source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as spark  # type: ignore[attr-defined, unused-ignore]

from connectors_core.source.predicates import (
    Comparison,
    FieldPath,
    IsIn,
    IsNull,
    Not,
    Predicate,
    StartsWith,
    equal_null_safe,
    is_comparable,
    type_of_field,
)
from connectors_core.spark.pushdown.conditions import COMPARISONS


def predicates_of(filters: Iterable[spark.Filter], schema: pa.Schema) -> tuple[Predicate, ...]:
    """Return the filters that a source can evaluate as Spark does.

    Args:
        filters: The filters. A row must satisfy all of them.
        schema: The columns that they refer to.
    """
    translated = (_predicate(each, schema) for each in filters)
    return tuple(each for each in translated if each is not None)


def _predicate(each: Any, schema: pa.Schema) -> Predicate | None:
    kind = type(each).__name__
    if kind == "Not":
        inner = _predicate(each.child, schema)
        return None if inner is None else Not(inner)
    field: FieldPath = tuple(each.attribute)
    if kind in ("IsNull", "IsNotNull"):
        return IsNull(field) if kind == "IsNull" else Not(IsNull(field))
    values = list(each.value) if kind == "In" else [each.value]
    type_of = type_of_field(schema, field)
    try:
        converted = [pa.scalar(value, type_of).as_py() for value in values]
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    if not is_comparable(type_of) or None in converted:
        return None
    if kind == "In":
        return IsIn(field, tuple(converted))
    if kind == "StringStartsWith":
        return StartsWith(field, converted[0])
    if kind == "EqualNullSafe":
        return equal_null_safe(field, converted[0])
    operator = COMPARISONS.get(kind)
    return None if operator is None else Comparison(field, operator, converted[0])
