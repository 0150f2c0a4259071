# SPDX-License-Identifier: Apache-2.0
"""Translates conditions of a query into Elasticsearch's query language.

The server must return every document that may satisfy a condition, because Spark only sees those.
A column comes from the source of a document, and the server searches its index. Only conditions are
translated for which the mapping guarantees that the index has every value of the column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import pyarrow as pa

from connectors_core.source import (
    And,
    Comparison,
    FieldPath,
    IsIn,
    IsNull,
    Not,
    Or,
    Predicate,
)

__all__ = ["Condition", "condition_of"]

Condition: TypeAlias = Mapping[str, Any]
"""A query in Elasticsearch's language."""

# Parameters of a field that do not remove values from its index, or are checked here. Others, such
# as a normalizer or a script, change what the index contains.
_HARMLESS: Final = frozenset(
    {
        "coerce",
        "copy_to",
        "doc_values",
        "eager_global_ordinals",
        "fields",
        "format",
        "ignore_above",
        "ignore_malformed",
        "index",
        "index_options",
        "locale",
        "meta",
        "norms",
        "null_value",
        "similarity",
        "split_queries_on_whitespace",
        "store",
        "time_series_dimension",
        "type",
    }
)
_BITS: Final[Mapping[str, int]] = {"byte": 8, "short": 16, "integer": 32, "long": 64}
# The server may take the fraction of a larger number in a document as a double.
_LARGEST: Final = 2**53
# A keyword can be a number in the document. The index has its text, and the server may send it in
# another form, such as 1.0E23 for 1e23.
_NUMBER: Final = re.compile(r"-?(0|Infinity|NaN|\d+\.\d+|\d+(\.\d+)?[eE][+-]?\d+)")
_MOST_VALUES: Final = 10_000
_RANGES: Final[Mapping[str, str]] = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
_MILLISECOND: Final = timedelta(milliseconds=1)


def condition_of(
    filters: Sequence[Predicate], schema: pa.Schema, mappings: Mapping[str, Mapping[str, Any]]
) -> tuple[Condition | None, tuple[Predicate, ...]]:
    """Return a query for the documents that may satisfy all conditions. Driver.

    It also finds documents with a field that is not in the index (`_ignored`), and documents of
    indices whose mapping is not known, such as those of an alias that has moved since.

    Args:
        filters: The conditions.
        schema: The columns from the source of documents.
        mappings: The mappings by index, in the server's form.

    Returns:
        The query, or None if it would find all documents, and the conditions in it.
    """
    fields = _Fields(schema, mappings)
    translated = [(each, fields.translated(each)) for each in filters]
    used = tuple(each for each, query in translated if query is not None)
    if not used:
        return None, ()
    wanted = {"bool": {"filter": [query for _, query in translated if query is not None]}}
    unknown = {"bool": {"must_not": [{"terms": {"_index": sorted(mappings)}}]}}
    return _any_of([wanted, {"exists": {"field": "_ignored"}}, unknown]), used


@dataclass(frozen=True)
class _Fields:
    schema: pa.Schema
    mappings: Mapping[str, Mapping[str, Any]]

    def translated(self, condition: Predicate) -> Condition | None:
        """Return a query for the documents that may satisfy a condition; None for all."""
        match condition:
            case And(conditions):
                known = [each for each in map(self.translated, conditions) if each is not None]
                return {"bool": {"filter": known}} if known else None
            case Or(conditions):
                parts = [each for each in map(self.translated, conditions) if each is not None]
                return _any_of(parts) if len(parts) == len(conditions) else None
            case Not(IsNull(field)):
                return self._exists(field)
            case Comparison(field, "=", value):
                return self._equal(field, [value])
            case IsIn(field, values):
                return self._equal(field, values)
            case Comparison(field, operator, value) if operator in _RANGES:
                return self._compared(field, operator, value)
        return None

    def _exists(self, field: FieldPath) -> Condition | None:
        definitions = self._definitions(field)
        if definitions is None or any("ignore_above" in each for each in definitions):
            return None
        if any(_is_off(each.get("doc_values")) for each in definitions):
            return None
        return {"exists": {"field": ".".join(field)}}

    def _equal(self, field: FieldPath, values: Sequence[Any]) -> Condition | None:
        definitions, path = self._definitions(field), ".".join(field)
        if definitions is None or len(values) > _MOST_VALUES:
            return None
        if isinstance(values[0], datetime):
            return _within(path, min(values), max(values))
        if not all(_fits(value, each) for value in values for each in definitions):
            return None
        return {"terms": {path: list(values)}}

    def _compared(self, field: FieldPath, operator: str, value: Any) -> Condition | None:
        definitions, path = self._definitions(field), ".".join(field)
        if definitions is None:
            return None
        if isinstance(value, datetime):
            low, high = (value, None) if operator in {">", ">="} else (None, value)
            return _within(path, low, high)
        # The server may refuse to compare texts (`search.allow_expensive_queries`).
        if type(value) is not int or not all(_fits(value, each) for each in definitions):
            return None
        return {"range": {path: {_RANGES[operator]: value}}}

    def _definitions(self, field: FieldPath) -> list[Mapping[str, Any]] | None:
        """Return how the indices define a field; None if their search may lack a value of it."""
        column = _type_of(self.schema, field)
        found = []
        for mapping in self.mappings.values():
            definition = _definition(mapping, field)
            if definition is None or not _are_same(definition["type"], column):
                return None
            found.append(definition)
        return found or None


def _definition(mapping: Mapping[str, Any], field: FieldPath) -> Mapping[str, Any] | None:
    """Return the definition of a field; None if the index may lack values of documents.

    With `dynamic` off, documents from before the definition are not in the index.
    """
    if ".".join(field) in mapping.get("runtime", {}):
        return None
    found: Any = mapping
    for name in field:
        hides = str(found.get("dynamic", "true")).lower() not in {"true", "strict"}
        if hides or _is_off(found.get("enabled")) or "." in name:
            return None
        if found is not mapping and found.get("type", "object") != "object":
            return None
        found = found.get("properties", {}).get(name)
        if found is None:
            return None
    if "type" not in found or not found.keys() <= _HARMLESS or _is_off(found.get("index")):
        return None
    return dict(found)


def _type_of(schema: pa.Schema, field: FieldPath) -> pa.DataType | None:
    """Return the type of a field; None for metadata, and for a field of several objects."""
    fields: pa.Schema | pa.DataType = schema
    kind: pa.DataType | None = None
    for name in field:
        is_struct = kind is None or pa.types.is_struct(kind)
        if not is_struct or fields.get_field_index(name) < 0:
            return None
        kind = fields = fields.field(name).type
    return kind


def _are_same(kind: str, column: pa.DataType | None) -> bool:
    """Whether a column has the values of a field as the server reads them."""
    if column is None:
        return False
    match kind:
        case "keyword":
            return bool(pa.types.is_string(column))
        case "boolean":
            return bool(pa.types.is_boolean(column))
        case "date":
            return bool(pa.types.is_timestamp(column))
    return kind in _BITS and bool(pa.types.is_signed_integer(column))


def _fits(value: Any, definition: Mapping[str, Any]) -> bool:
    """Whether the index has a value, and the server accepts a query for it."""
    if isinstance(value, str):
        longest = definition.get("ignore_above")
        if _NUMBER.fullmatch(value):
            return False
        return longest is None or len(value.encode("utf-16-le")) // 2 <= longest
    bits = _BITS.get(definition["type"])
    if bits is None:
        return isinstance(value, bool)
    return bool(-(2 ** (bits - 1)) <= value < 2 ** (bits - 1) and abs(value) < _LARGEST)


def _within(path: str, low: datetime | None, high: datetime | None) -> Condition | None:
    """Return a query for timestamps, which the index keeps in milliseconds."""
    bounds = dict(_bounds(low, high))
    return {"range": {path: {**bounds, "format": "strict_date_optional_time"}}} if bounds else None


def _bounds(low: datetime | None, high: datetime | None) -> Iterator[tuple[str, str]]:
    for name, moment, step in (("gte", low, -_MILLISECOND), ("lte", high, _MILLISECOND)):
        if moment is None:
            continue
        utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        try:
            text = (utc + step).replace(tzinfo=None).isoformat(timespec="milliseconds")
        except OverflowError:
            continue  # no bound
        yield name, f"{text}Z"


def _any_of(queries: Sequence[Condition]) -> Condition:
    return {"bool": {"should": list(queries), "minimum_should_match": 1}}


def _is_off(value: Any) -> bool:
    return str(value).lower() == "false"
