# SPDX-License-Identifier: Apache-2.0
"""Finds the sources and lookups of a pipeline in the plan of a query. Driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from connectors_core.engine.execution.reader_task import ReaderTask
from connectors_core.spark.carriers.base import source_below
from connectors_core.spark.internals.plans import analyzed_plan
from connectors_core.spark.lookups import RegisteredLookup, lookup_below
from connectors_core.spark.pushdown.source_needs import (
    LookupOccurrence,
    SourceOccurrence,
    column_ids,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class PushableSource(Protocol):
    """A source of a pipeline."""

    @property
    def reader(self) -> ReaderTask:
        """Reads all columns of all rows."""

    def narrowed(self, reader: ReaderTask) -> DataFrame:
        """Return the DataFrame of the source with the columns of another reader."""


def source_occurrences(
    df: DataFrame, sources: Mapping[str, PushableSource]
) -> list[SourceOccurrence]:
    """Return the places in the plan of a DataFrame that read these sources."""
    found = []
    nodes = [analyzed_plan(df)]
    while nodes:
        node = nodes.pop()
        uid = source_below(node)
        if uid is None:
            nodes += [*node.children, *node.subqueries]
            continue
        schema = sources[uid].reader.output_schema()
        text = node.column_texts
        ids = column_ids(text, schema.names)
        if ids is not None:
            found.append(SourceOccurrence(uid, text, ids, schema))
    return found


def lookup_occurrences(
    df: DataFrame, lookups: Mapping[str, RegisteredLookup]
) -> list[LookupOccurrence]:
    """Return the places in the plan of a DataFrame that add columns of these lookups."""
    found = []
    nodes = [analyzed_plan(df)] if lookups else []
    while nodes:
        node = nodes.pop()
        nodes += [*node.children, *node.subqueries]
        uid = lookup_below(node)
        if uid is None:
            continue
        join = lookups[uid].join
        (chosen,) = node.children
        (stage,) = chosen.children
        ids = column_ids(stage.column_texts, join.schema.names)
        if ids is not None:
            needed = [
                at
                for at, column in enumerate(join.rows)
                if column.name in join.on or not column.nullable
            ]
            added = tuple(join.origin_of(column) for column, _ in join.columns)
            on = tuple(map(join.rows.get_field_index, join.on))
            keys = tuple(map(join.origin_of, join.keys))
            found.append(LookupOccurrence(uid, ids, tuple(needed), added, on, keys))
    return found
