# SPDX-License-Identifier: Apache-2.0
"""Reads off Spark's plan from which columns of sources and lookups each column is derived."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from connectors_core.lineage import ColumnOrigin, Transformation
from connectors_core.spark.internals.plan_rewrites import SOURCE
from connectors_core.spark.pushdown.plan_tree import PlanTree
from connectors_core.spark.pushdown.source_needs import (
    MAPPING_BATCHES,
    LookupOccurrence,
    SourceOccurrence,
    output_of,
)

Origins: TypeAlias = frozenset[ColumnOrigin]
_Columns: TypeAlias = list[tuple[int, Origins]]
"""Spark's id and the origins of each column of a node, in order, and perhaps of unused ones."""

_NONE: Final[Origins] = frozenset()
_STRENGTH: Final = (*Transformation,)  # identity, transformation, aggregation
# The fields of a node with expressions that become columns behind those of its child.
_ADDED: Final = {"Window": ("windowExpressions",)}
_CHOSEN: Final = {"Project": "projectList", "Aggregate": "aggregateExpressions"}
_PYTHON: Final = frozenset({"ArrowEvalPython", "BatchEvalPython"})
_APPLYING_FUNCTIONS: Final = MAPPING_BATCHES | {"MapInPandas"}


def column_origins(
    plan: PlanTree,
    output: Sequence[int],
    sources: Sequence[SourceOccurrence],
    lookups: Sequence[LookupOccurrence],
) -> list[Origins]:
    """Return the origins of each column of a query.

    Conditions, keys of joins and groups, and orders also decide which rows a query returns. They
    are no origins of its values.

    Args:
        plan: The optimized plan.
        output: Spark's ids of the columns.
        sources: The sources in the analyzed plan.
        lookups: The lookups in the analyzed plan.
    """
    known = dict(_Walk(sources, lookups).columns_of(plan))
    return [known[column] for column in output]


class _Walk:
    def __init__(
        self, sources: Sequence[SourceOccurrence], lookups: Sequence[LookupOccurrence]
    ) -> None:
        self._sources = {each.text: each for each in sources}
        self._lookups = {each.columns: each for each in lookups}

    def columns_of(self, node: PlanTree) -> _Columns:
        if node.kind == SOURCE:
            source = self._sources[node.fields["columns"]]
            return [
                (column, _origin(source.uid, name))
                for column, name in zip(source.columns, source.schema.names, strict=True)
            ]
        children = [self.columns_of(child) for child in node.children]
        below = [*itertools.chain(*children)]
        known = dict(below)
        if node.kind in _CHOSEN:
            return [_named(each, known) for each in node.expressions(_CHOSEN[node.kind])]
        if node.kind in _APPLYING_FUNCTIONS:
            return self._mapped(node, known)
        if node.kind == "Union":
            return _united(children)
        if node.kind == "Join" and any(
            kind in str(node.fields.get("joinType")) for kind in ("Semi", "Anti", "Existence")
        ):
            return children[0]
        if node.kind in _PYTHON:
            return [*below, *_results(node, known)]
        if node.kind == "Generate":
            generated = _derived(node.expressions("generator"), known)
            output = node.expressions("generatorOutput")
            return [*below, *((_id_of(each), generated) for each in output)]
        added = [each for field in _ADDED.get(node.kind, ()) for each in node.expressions(field)]
        if below or added:
            return [*below, *(_named(each, known) for each in added)]
        return [(column, _NONE) for column in output_of(node)]

    def _mapped(self, node: PlanTree, known: Mapping[int, Origins]) -> _Columns:
        """Return the results of a lookup, or those of a function, each of all its inputs."""
        output = output_of(node)
        lookup = self._lookups.get(output)
        functions = [each for each in node.expressions() if each.kind == "PythonUDF"]
        if lookup is None or not functions:
            everything = _strengthened(
                frozenset().union(*known.values()), Transformation.TRANSFORMATION
            )
            return [(column, everything) for column in output]
        inputs = [_derived([each], known) for each in functions[0].children]
        added = [_origin(lookup.uid, name) for name in lookup.added]
        return list(zip(output, [*inputs, *added], strict=True))


def _origin(uid: str, column: str) -> Origins:
    return frozenset({ColumnOrigin(uid=uid, column=column, transformation=Transformation.IDENTITY)})


def _id_of(expression: PlanTree) -> int:
    return int(expression.fields["exprId"]["id"])


def _named(expression: PlanTree, known: Mapping[int, Origins]) -> tuple[int, Origins]:
    values = expression.children if expression.kind == "Alias" else [expression]
    return _id_of(expression), _derived(values, known)


def _derived(expressions: Iterable[PlanTree], known: Mapping[int, Origins]) -> Origins:
    """Return the origins of a value."""
    found: Origins = _NONE
    for each in expressions:
        used = frozenset().union(*(known.get(column, _NONE) for column, _ in each.references()))
        if each.column_id is None:
            aggregates = any(part.kind == "AggregateExpression" for part in each.walk())
            used = _strengthened(
                used,
                Transformation.AGGREGATION if aggregates else Transformation.TRANSFORMATION,
            )
        found |= used
    return found


def _strengthened(origins: Origins, least: Transformation) -> Origins:
    return frozenset(
        ColumnOrigin(
            uid=each.uid,
            column=each.column,
            transformation=max(each.transformation, least, key=_STRENGTH.index),
        )
        for each in origins
    )


def _united(children: Sequence[_Columns]) -> _Columns:
    return [
        (same[0][0], frozenset().union(*(origins for _, origins in same)))
        for same in zip(*children, strict=True)
    ]


def _results(node: PlanTree, known: Mapping[int, Origins]) -> _Columns:
    """Return the results of functions in Python, whose inputs are their children."""
    functions, results = node.expressions("udfs"), node.expressions("resultAttrs")
    return [
        (_id_of(result), _derived([function], known))
        for function, result in zip(functions, results, strict=True)
    ]
