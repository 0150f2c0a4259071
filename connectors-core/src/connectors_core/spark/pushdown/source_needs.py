# SPDX-License-Identifier: Apache-2.0
"""Reads off Spark's optimized plan what a query needs of each source."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from connectors_core.engine.execution.pushed_reader import SourceNeeds
from connectors_core.source.predicates import And, FieldPath, Or, Predicate
from connectors_core.spark.internals.plan_rewrites import SOURCE
from connectors_core.spark.pushdown.conditions import Conditions, conjuncts, may_be_random
from connectors_core.spark.pushdown.plan_tree import FieldReference, PlanTree

# Nodes that return the columns of their children, and use those in their own expressions.
_KEEPING_COLUMNS: Final = frozenset(
    {
        "ArrowEvalPython",
        "BatchEvalPython",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "EventTimeWatermark",
        "Filter",
        "GlobalLimit",
        "Join",
        "LocalLimit",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "Window",
    }
)
# Nodes that return only the columns that their own expressions use.
_CHOOSING_COLUMNS: Final = frozenset({"Aggregate", "Project"})
MAPPING_BATCHES: Final = frozenset({"MapInArrow", "PythonMapInArrow"})
_KEEPING_ROWS: Final = frozenset({"EventTimeWatermark", "SubqueryAlias"})


@dataclass(frozen=True)
class SourceOccurrence:
    """A place in a plan that reads a source.

    Attributes:
        uid: The source.
        text: Its columns as in the plan.
        columns: Spark's ids of its columns, in order.
        schema: Its columns.
    """

    uid: str
    text: str
    columns: tuple[int, ...]
    schema: pa.Schema


@dataclass(frozen=True)
class LookupOccurrence:
    """A place in a plan that adds columns of a table to rows.

    Attributes:
        uid: The lookup.
        columns: Spark's ids of the result's columns: first those of the rows, in order.
        needed: The positions of the columns that the lookup itself uses.
        added: The columns of the table that follow those of the rows.
        on: The positions of the columns that are compared with the keys.
        keys: The key columns of the table.
    """

    uid: str
    columns: tuple[int, ...]
    needed: tuple[int, ...]
    added: tuple[str, ...]
    on: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()


def column_ids(columns: str, names: Sequence[str]) -> tuple[int, ...] | None:
    """Return Spark's ids of columns from their text, such as ``a#1L,b#2,at#3-T60000ms``.

    The suffix of an event time is the delay of its watermark.

    Args:
        columns: The columns.
        names: Their names.

    Returns:
        Their ids; None if the text is in another form.
    """
    pattern = ",".join(re.escape(name) + r"#(\d+)L?(?:-T\d+ms)?" for name in names)
    found = re.fullmatch(pattern, columns)
    return None if found is None else tuple(map(int, found.groups()))


def needs_of(
    plan: PlanTree,
    occurrences: Sequence[SourceOccurrence],
    *,
    lookups: Sequence[LookupOccurrence] = (),
    own_columns: Sequence[str],
    time_zone: Callable[[], str],
) -> dict[str, SourceNeeds]:
    """Return what a plan needs of each source.

    Args:
        plan: The optimized plan.
        occurrences: The sources in the analyzed plan.
        lookups: The lookups in the analyzed plan.
        own_columns: Columns that the pipeline adds and filters itself.
        time_zone: Returns the time zone in which Spark shows timestamps.

    Returns:
        The needs by uid. A source is missing if the optimized plan reads it in other places, such
        as rows that Spark keeps in memory for several queries.
    """
    walk = _Walk(occurrences, lookups, own_columns, time_zone)
    walk.visit(plan, _Above(None))
    expected = [each.uid for each in occurrences]
    return {
        uid: _united(needs)
        for uid, needs in walk.found.items()
        if len(needs) == expected.count(uid)
    }


def _united(needs: Sequence[SourceNeeds]) -> SourceNeeds:
    """Return what several places need together, since they read the source in the same way."""
    limits = [each.limit for each in needs]
    filters = [dict.fromkeys(each.filters) for each in needs]
    shared = [each for each in filters[0] if all(each in others for others in filters)]
    own = [tuple(each for each in some if each not in shared) for some in filters]
    if all(own):
        shared.append(Or(tuple(And(some) if len(some) > 1 else some[0] for some in own)))
    return SourceNeeds(
        fields=frozenset().union(*(each.fields for each in needs)),
        filters=tuple(shared),
        limit=None if None in limits else max(each for each in limits if each is not None),
    )


@dataclass(frozen=True)
class _Above:
    """What the nodes above a place in the plan need of it.

    Attributes:
        used: The columns and fields that they use; None for all.
        conditions: Conditions that the rows must satisfy.
        limit: The number of rows that they need of each task.
        origins: The column below a lookup whose values a column above it has.
    """

    used: frozenset[FieldReference] | None
    conditions: tuple[PlanTree, ...] = ()
    limit: int | None = None
    origins: Mapping[int, int] = field(default_factory=dict)


class _Walk:
    def __init__(
        self,
        occurrences: Sequence[SourceOccurrence],
        lookups: Sequence[LookupOccurrence],
        own_columns: Sequence[str],
        time_zone: Callable[[], str],
    ) -> None:
        self._sources = {each.text: each for each in occurrences}
        self._lookups = {each.columns: each for each in lookups}
        self._own = frozenset(
            column
            for each in occurrences
            for column, name in zip(each.columns, each.schema.names, strict=True)
            if name in own_columns
        )
        self._time_zone = time_zone
        self.found: dict[str, list[SourceNeeds]] = {}

    def visit(self, node: PlanTree, above: _Above) -> None:
        if node.kind == SOURCE:
            source = self._sources[node.fields["columns"]]
            self.found.setdefault(source.uid, []).append(self._needs(source, above))
            return
        below = self._below(node, above)
        for child in node.children:
            self.visit(child, below)

    def _below(self, node: PlanTree, above: _Above) -> _Above:
        lookup = self._lookups.get(output_of(node)) if node.kind in MAPPING_BATCHES else None
        if lookup is not None:
            return _below_lookup(node, lookup, above)
        if node.kind in _CHOOSING_COLUMNS:
            used: frozenset[FieldReference] | None = _references(node)
        elif node.kind in _KEEPING_COLUMNS:
            used = None if above.used is None else above.used | _references(node)
        else:
            used = None
        if node.kind == "Filter":
            return self._below_filter(node, replace(above, used=used))
        if node.kind in _KEEPING_ROWS:
            return replace(above, used=used)
        if node.kind == "Project":
            columns = node.expressions("projectList")
            plain = all(each.column_id is not None for each in columns)
            return replace(above, used=used, conditions=above.conditions if plain else ())
        if node.kind in ("LocalLimit", "GlobalLimit"):
            return _Above(used, (), _limit_of(node))
        return _Above(used)

    def _below_filter(self, node: PlanTree, above: _Above) -> _Above:
        (condition,) = node.expressions("condition")
        if any(column in self._own for column, _ in condition.references()):
            return above  # the pipeline's own filter drops only rows that it added
        if may_be_random(condition):
            return _Above(above.used)
        conditions = (*above.conditions, *conjuncts(condition))
        return replace(above, conditions=conditions, limit=None)

    def _needs(self, source: SourceOccurrence, above: _Above) -> SourceNeeds:
        names = dict(zip(source.columns, source.schema.names, strict=True))
        for column in above.origins:
            origin = column
            while origin in above.origins:
                origin = above.origins[origin]
            if origin in names:
                names[column] = names[origin]
        conditions = Conditions(names, source.schema, self._time_zone)
        filters: dict[Predicate, None] = {}
        for each in above.conditions:
            translated = conditions.translated(each)
            if translated is not None:
                filters[translated] = None
        return SourceNeeds(
            fields=_fields(above.used, names), filters=tuple(filters), limit=above.limit
        )


def output_of(node: PlanTree) -> tuple[int, ...]:
    """Return Spark's ids of the columns in the field `output` or `outputAttrs` of a node."""
    output = node.expressions("output") or node.expressions("outputAttrs")
    columns = [each.column_id for each in output]
    return tuple(each for each in columns if each is not None)


def _below_lookup(node: PlanTree, lookup: LookupOccurrence, above: _Above) -> _Above:
    """Return what is needed below a lookup, which returns its rows' columns unchanged.

    A condition on these columns holds for all results of a row, or for none.
    """
    (function,) = (each for each in node.expressions() if each.kind == "PythonUDF")
    inputs = [each.column_id for each in function.children]
    rows = [each for each in inputs if each is not None]
    if len(rows) < len(inputs):
        return _Above(None)
    origins = dict(zip(lookup.columns, rows, strict=False))  # the table's columns have none
    used = above.used
    if used is not None:
        own = {(rows[at], ()) for at in lookup.needed}
        used = frozenset({(origins[each], path) for each, path in used if each in origins} | own)
    return _Above(used, above.conditions, None, {**above.origins, **origins})


def _references(node: PlanTree) -> frozenset[FieldReference]:
    return frozenset().union(*(each.references() for each in node.expressions()))


def _fields(
    used: frozenset[FieldReference] | None, names: Mapping[int, str]
) -> frozenset[FieldPath]:
    if used is None:
        return frozenset((name,) for name in names.values())
    return frozenset((names[column], *path) for column, path in used if column in names)


def _limit_of(node: PlanTree) -> int | None:
    (limit,) = node.expressions("limitExpr")
    return int(limit.fields["value"]) if limit.kind == "Literal" else None
