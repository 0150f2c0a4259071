# SPDX-License-Identifier: Apache-2.0
"""Narrows a reader to what a query needs of its source. Driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from connectors_core.engine.execution.reader_task import HEARTBEAT_COLUMN, ReaderTask
from connectors_core.records import RecordPolicyMode
from connectors_core.source.predicates import FieldPath, Predicate
from connectors_core.source.pushdown import (
    SupportsFilterPushDown,
    SupportsLimitPushDown,
    SupportsProjectionPushDown,
)


@dataclass(frozen=True, kw_only=True)
class SourceNeeds:
    """What a query needs of a source.

    Attributes:
        fields: The columns of the DataFrame that it uses, or only some of their nested fields.
        filters: Conditions that all rows of the query satisfy.
        limit: The number of rows that the query needs of each task, or None for all.
    """

    fields: frozenset[FieldPath]
    filters: tuple[Predicate, ...] = ()
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class PushedReader:
    """A reader that is narrowed to the needs of a query.

    Attributes:
        reader: The reader.
        read: The columns and nested fields that the source reads, or None for all.
        used: The conditions with which the source reads less.
        reason: Why the reader is not narrowed; empty if it is.
    """

    reader: ReaderTask
    read: tuple[FieldPath, ...] | None = None
    used: tuple[Predicate, ...] = ()
    reason: str = ""


def pushed_reader(reader: ReaderTask, needs: SourceNeeds) -> PushedReader:
    """Narrow a reader to what a query needs.

    Bad records decide where a policy counts and what it keeps, and another set of columns has other
    bad records. A policy other than fail therefore reads all columns of all rows.

    Args:
        reader: A reader of all columns and rows.
        needs: The needs of the query.
    """
    if reader.policy.mode is not RecordPolicyMode.FAIL:
        return PushedReader(
            reader=reader,
            reason=f"the record policy {reader.policy.mode.value} reads all columns",
        )
    full = reader.output_schema()
    columns = _columns_of(full, needs.fields)
    if len(columns) < len(full):
        reader = replace(reader, columns=columns)
    rows_depend = reader.strategy is not None or reader.evaluator is not None
    # The query of a later driver may need more of an entry, so all of its rows are kept.
    limit = None if rows_depend or reader.keeps else needs.limit
    reader = replace(reader, filters=needs.filters, row_limit=limit)
    reader, read = _projected(reader, columns, needs.fields)
    used: Sequence[Predicate] = ()
    if not rows_depend:
        if reader.filters and isinstance(reader.source, SupportsFilterPushDown):
            source, used = reader.source.apply_filters(reader.filters)
            reader = replace(reader, source=source)
        if reader.row_limit is not None and isinstance(reader.source, SupportsLimitPushDown):
            reader = replace(reader, source=reader.source.apply_limit(reader.row_limit))
    return PushedReader(reader=reader, read=read, used=tuple(used))


def _columns_of(schema: pa.Schema, fields: frozenset[FieldPath]) -> tuple[str, ...]:
    """Return the needed columns; at least one, because a batch without columns has no rows."""
    used = {path[0] for path in fields}
    columns = tuple(name for name in schema.names if name in used)
    return columns or (_smallest(schema),)


def _smallest(schema: pa.Schema) -> str:
    def width(field: pa.Field) -> int:
        try:
            return int(field.type.bit_width)
        except ValueError:
            return 1 << 16

    return str(min(schema, key=width).name)


def _projected(
    reader: ReaderTask, columns: Sequence[str], fields: frozenset[FieldPath]
) -> tuple[ReaderTask, tuple[FieldPath, ...] | None]:
    """Let the source read only the needed columns, and those that determine event times."""
    source, strategy = reader.source, reader.strategy
    if not isinstance(source, SupportsProjectionPushDown) or reader.evaluator is not None:
        return reader, None
    needed = {*columns} - {HEARTBEAT_COLUMN}
    if strategy is not None:
        origin = strategy.timestamp_assigner.column if strategy.timestamp_assigner else None
        if not isinstance(origin, str):
            return reader, None
        needed.add(origin)
        if strategy.event_time_column not in reader.schema.names:
            needed.discard(strategy.event_time_column)
    nested = source.supports_nested_projection()
    paths: list[FieldPath] = []
    for column in reader.schema:
        if column.name in needed:
            inner = {path for path in fields if path[0] == column.name}
            paths += _outermost(column, inner) if nested else [(column.name,)]
    if not paths or [(name,) for name in reader.schema.names] == paths:
        return reader, None
    projected = source.apply_projection(paths)
    return replace(reader, source=projected, schema=projected.schema()), tuple(paths)


def _outermost(column: pa.Field, paths: set[FieldPath]) -> list[FieldPath]:
    """Return the paths without those below another one, in a fixed order."""
    if not paths:
        return [(column.name,)]
    return sorted(
        path for path in paths if not any(path[:end] in paths for end in range(1, len(path)))
    )
