# SPDX-License-Identifier: Apache-2.0
"""Reads off Spark's plan on which columns of its inputs each column and the rows depend."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from connectors_core.lineage import ColumnOrigin, Transformation
from connectors_core.spark.internals.plan_rewrites import SOURCE
from connectors_core.spark.pushdown.conditions import conjuncts
from connectors_core.spark.pushdown.plan_tree import PlanTree
from connectors_core.spark.pushdown.source_needs import (
    MAPPING_BATCHES,
    LookupOccurrence,
    SourceOccurrence,
    output_of,
)

Origins: TypeAlias = frozenset[ColumnOrigin]
_Columns: TypeAlias = list[tuple[int, Origins]]
"""Spark's id and the origins of each column of a node, in order."""

_NONE: Final[Origins] = frozenset()
_STRENGTH: Final = (*Transformation,)  # direct ones by strength, then indirect ones
# The fields of a node with expressions that become columns behind those of its child.
_ADDED: Final = {"Window": ("windowExpressions",)}
_CHOSEN: Final = {"Project": "projectList", "Aggregate": "aggregateExpressions"}
_PYTHON: Final = frozenset({"ArrowEvalPython", "BatchEvalPython"})
_SUBQUERY: Final = "ScalarSubquery"
_APPLYING_FUNCTIONS: Final = MAPPING_BATCHES | {
    "FlatMapCoGroupsInArrow",
    "FlatMapCoGroupsInPandas",
    "FlatMapGroupsInArrow",
    "FlatMapGroupsInPandas",
    "FlatMapGroupsInPandasWithState",
    "MapInPandas",
    "TransformWithStateInPandas",
    "TransformWithStateInPySpark",
}
# The fields of a node with expressions that decide which rows it returns, or in which order.
_DECIDING: Final = {
    "Aggregate": ("groupingExpressions", Transformation.GROUP_BY),
    "Deduplicate": ("keys", Transformation.GROUP_BY),
    "DeduplicateWithinWatermark": ("keys", Transformation.GROUP_BY),
    "FlatMapGroupsInArrow": ("groupingAttributes", Transformation.GROUP_BY),
    "FlatMapGroupsInPandas": ("groupingAttributes", Transformation.GROUP_BY),
    "FlatMapGroupsInPandasWithState": ("groupingAttributes", Transformation.GROUP_BY),
    "Join": ("condition", Transformation.JOIN),
    "Sort": ("order", Transformation.SORT),
}
_OF_GROUPS: Final = ("leftGroupingLen", "rightGroupingLen")
_OF_STATE: Final = ("groupingAttributesLen", "initGroupingAttrsLen")
# The fields of a node with the number of keys, which are the first columns of each child.
_KEYS: Final = {
    "FlatMapCoGroupsInArrow": _OF_GROUPS,
    "FlatMapCoGroupsInPandas": _OF_GROUPS,
    "TransformWithStateInPandas": _OF_STATE,
    "TransformWithStateInPySpark": _OF_STATE,
}
# Functions whose arguments are the order of their window.
_RANKS: Final = frozenset({"DenseRank", "PercentRank", "Rank"})


@dataclass(frozen=True)
class PlanInputs:
    """What a plan reads.

    Attributes:
        sources: The sources in the analyzed plan.
        lookups: The lookups in the analyzed plan.
        columns: The origins of the columns that Spark reads itself, by Spark's id.
        own_columns: The names of columns that only the pipeline itself uses.
    """

    sources: Sequence[SourceOccurrence]
    lookups: Sequence[LookupOccurrence] = ()
    columns: Mapping[int, ColumnOrigin] = field(default_factory=dict)
    own_columns: Collection[str] = ()


@dataclass(frozen=True)
class PlanOrigins:
    """On which columns the result of a plan depends.

    Attributes:
        columns: The origins of each column.
        rows: The columns of conditions, keys, and orders.
    """

    columns: Sequence[Origins] = ()
    rows: Origins = _NONE


def plan_origins(plan: PlanTree, output: Sequence[int], inputs: PlanInputs) -> PlanOrigins:
    """Return on which columns the result of a query depends.

    Args:
        plan: The optimized plan.
        output: Spark's ids of the columns.
        inputs: The inputs of the plan.
    """
    walk = _Walk(inputs)
    known = dict(walk.columns_of(plan))
    return PlanOrigins([known.get(column, _NONE) for column in output], walk.rows)


class _Walk:
    def __init__(self, inputs: PlanInputs) -> None:
        self._sources = {each.text: each for each in inputs.sources}
        self._sources_by_ids = {tuple(each.columns): each for each in inputs.sources}
        self._lookups = {each.columns: each for each in inputs.lookups}
        self._columns = inputs.columns
        self._own = frozenset(
            column
            for source in inputs.sources
            for column, name in zip(source.columns, source.schema.names, strict=True)
            if name in inputs.own_columns
        )
        self._deciding: set[ColumnOrigin] = set()
        self._not_null: set[ColumnOrigin] = set()

    @property
    def rows(self) -> Origins:
        """The columns that decide which rows the visited nodes return.

        Spark adds conditions that the keys of its joins are not null. They are no filters of the
        query.
        """
        keys = {
            replace(each, transformation=Transformation.FILTER)
            for each in self._deciding
            if each.transformation is Transformation.JOIN
        }
        return frozenset(self._deciding | (self._not_null - keys))

    def columns_of(self, node: PlanTree) -> _Columns:
        source = self._source_at(node)
        if source is not None:
            return [
                (column, _origin(source.uid, name))
                for column, name in zip(source.columns, source.schema.names, strict=True)
            ]
        children = [self.columns_of(child) for child in node.children]
        below = [*itertools.chain(*children)]
        known = dict(below) | self._subqueries(node)
        join = str(node.fields.get("joinType"))
        if "Existence" in join:  # it keeps all rows and adds whether others match
            return [*children[0], *_matches(node, known)]
        self._decide(node, known)
        for columns, count in zip(children, _KEYS.get(node.kind, ()), strict=False):
            keys = _union(origins for _, origins in columns[: node.fields[count]])
            self._deciding |= _indirect(keys, Transformation.GROUP_BY)
        if node.kind in _CHOSEN:
            return [_named(each, known) for each in node.expressions(_CHOSEN[node.kind])]
        if node.kind in _APPLYING_FUNCTIONS:
            return self._mapped(node, below)
        if node.kind == "Union":
            return _united(children)
        if node.kind == "Expand":
            return _expanded(node, known)
        if "Semi" in join or "Anti" in join:
            return children[0]
        if node.kind in _PYTHON:
            return [*below, *_results(node, known)]
        if node.kind == "Generate":
            generated = _union(_value(each, known) for each in node.expressions("generator"))
            output = node.expressions("generatorOutput")
            dropped = node.fields.get("unrequiredChildIndex") or ()
            kept = [each for at, each in enumerate(below) if at not in dropped]
            return [*kept, *((_id_of(each), generated) for each in output)]
        added = [each for field in _ADDED.get(node.kind, ()) for each in node.expressions(field)]
        if below or added:
            return [*below, *(_named(each, known) for each in added)]
        return [(column, self._read_by_spark(column)) for column in _columns_of_leaf(node)]

    def _source_at(self, node: PlanTree) -> SourceOccurrence | None:
        if node.kind == SOURCE:
            return self._sources[node.fields["columns"]]
        return self._sources_by_ids.get(tuple(output_of(node)))  # in the plan of a subquery

    def _subqueries(self, node: PlanTree) -> dict[int, Origins]:
        """Return the origins of the values of subqueries in a node's expressions."""
        return {
            _id_of(each): self.columns_of(plan)[0][1]
            for expression in node.expressions()
            for each in expression.walk()
            if each.kind == _SUBQUERY
            for plan in each.expressions("plan")
        }

    def _read_by_spark(self, column: int) -> Origins:
        origin = self._columns.get(column)
        return _NONE if origin is None else frozenset({origin})

    def _decide(self, node: PlanTree, known: Mapping[int, Origins]) -> None:
        """Add the columns that decide which rows a node returns."""
        if node.kind == "Filter":
            (condition,) = node.expressions("condition")
            if any(column in self._own for column, _ in condition.references()):
                return  # the pipeline's own filter drops only rows that it added
            for each in conjuncts(condition):
                found = _indirect(_value(each, known), Transformation.FILTER)
                (self._not_null if each.kind == "IsNotNull" else self._deciding).update(found)
        elif node.kind in _DECIDING:
            expressions, transformation = _DECIDING[node.kind]
            for each in node.expressions(expressions):
                self._deciding |= _indirect(_value(each, known), transformation)

    def _mapped(self, node: PlanTree, below: _Columns) -> _Columns:
        """Return the results of a lookup, or those of a function, each of all its inputs."""
        output = output_of(node)
        lookup = self._lookups.get(output)
        functions = [each for each in node.expressions() if each.kind == "PythonUDF"]
        if lookup is None or not functions:
            everything = _union(origins for _, origins in below)
            result = _strengthened(everything, Transformation.TRANSFORMATION)
            return [(column, result) for column in output]
        known = dict(below)
        inputs = [_value(each, known) for each in functions[0].children]
        keys = [inputs[at] for at in lookup.on]
        keys += [_origin(lookup.uid, name) for name in lookup.keys]
        self._deciding |= _indirect(_union(keys), Transformation.JOIN)
        added = [_origin(lookup.uid, name) for name in lookup.added]
        return list(zip(output, [*inputs, *added], strict=True))


def _origin(uid: str, column: str) -> Origins:
    return frozenset({ColumnOrigin(uid=uid, column=column, transformation=Transformation.IDENTITY)})


def _union(origins: Iterable[Origins]) -> Origins:
    return frozenset().union(*origins)


def _id_of(expression: PlanTree) -> int:
    return int(expression.fields["exprId"]["id"])


def _columns_of_leaf(node: PlanTree) -> Sequence[int]:
    """Return Spark's ids of the columns of a leaf, which most leaves have in the field `output`."""
    columns = [each.column_id for each in node.expressions()]
    return output_of(node) or [each for each in columns if each is not None]


def _named(expression: PlanTree, known: Mapping[int, Origins]) -> tuple[int, Origins]:
    values = expression.children if expression.kind == "Alias" else [expression]
    return _id_of(expression), _union(_value(each, known) for each in values)


def _value(expression: PlanTree, known: Mapping[int, Origins]) -> Origins:
    """Return the origins of a value."""
    column = expression.column_id
    if expression.kind == _SUBQUERY:
        column = _id_of(expression)
    if column is not None:
        return known.get(column, _NONE)
    arguments, conditions = _arguments(expression)
    least = Transformation.TRANSFORMATION
    if expression.kind == "AggregateExpression":
        least = Transformation.AGGREGATION
    found = _strengthened(_union(_value(each, known) for each in arguments), least)
    kind = Transformation.CONDITIONAL
    if expression.kind == "WindowExpression":
        kind = Transformation.WINDOW
    return found | _indirect(_union(_value(each, known) for each in conditions), kind)


def _arguments(expression: PlanTree) -> tuple[Sequence[PlanTree], Sequence[PlanTree]]:
    """Return the arguments from which a value follows, and those that only decide about it."""
    children = expression.children
    match expression.kind:
        case "If":
            return children[1:], children[:1]
        case "CaseWhen":  # a condition and a value for each branch, then perhaps the other value
            paired = len(children) // 2 * 2
            return [*children[1:paired:2], *children[paired:]], children[:paired:2]
        case "Coalesce":
            return children, children
        case "AggregateExpression":  # the function, and perhaps its FILTER
            return children[:1], children[1:]
        case "WindowExpression":
            function, window = children
            return [] if function.kind in _RANKS else [function], [window]
    return children, ()


def _strengthened(origins: Origins, least: Transformation) -> Origins:
    """Return origins with at least this direct transformation; indirect ones stay as they are."""
    return frozenset(
        replace(each, transformation=max(each.transformation, least, key=_STRENGTH.index))
        for each in origins
    )


def _indirect(origins: Origins, transformation: Transformation) -> Origins:
    return frozenset(replace(each, transformation=transformation) for each in origins)


def _united(children: Sequence[_Columns]) -> _Columns:
    return [
        (same[0][0], _union(origins for _, origins in same)) for same in zip(*children, strict=True)
    ]


def _expanded(node: PlanTree, known: Mapping[int, Origins]) -> _Columns:
    """Return the columns of several projections of each row, as for grouping sets."""
    output, values = output_of(node), node.expressions("projections")
    return [
        (column, _union(_value(each, known) for each in values[at :: len(output)]))
        for at, column in enumerate(output)
    ]


def _matches(node: PlanTree, known: Mapping[int, Origins]) -> _Columns:
    conditions = _union(_value(each, known) for each in node.expressions("condition"))
    found = _indirect(conditions, Transformation.CONDITIONAL)
    return [(_id_of(each), found) for each in node.expressions("joinType")]


def _results(node: PlanTree, known: Mapping[int, Origins]) -> _Columns:
    """Return the results of functions in Python, whose inputs are their children."""
    functions, results = node.expressions("udfs"), node.expressions("resultAttrs")
    return [
        (_id_of(result), _value(function, known))
        for function, result in zip(functions, results, strict=True)
    ]
