# SPDX-License-Identifier: Apache-2.0
"""Spark's plans and expressions as trees, from the JSON of ``TreeNode.toJSON``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

FieldReference: TypeAlias = tuple[int, tuple[str, ...]]
"""Spark's id of a column, and the names of the nested fields below it."""


@dataclass(frozen=True)
class PlanTree:
    """A node of a plan or of an expression.

    Attributes:
        kind: The name of its class, such as ``Project``.
        fields: Its fields as JSON.
        children: Its children.
    """

    kind: str
    fields: Mapping[str, Any]
    children: tuple[PlanTree, ...]

    @staticmethod
    def of(nodes: Sequence[Mapping[str, Any]]) -> PlanTree:
        """Build a tree from its nodes in preorder."""
        remaining = iter(nodes)

        def build() -> PlanTree:
            node = next(remaining)
            count = node["num-children"]
            return PlanTree(
                str(node["class"]).rpartition(".")[2], node, tuple(build() for _ in range(count))
            )

        return build()

    def expressions(self, field: str | None = None) -> list[PlanTree]:
        """Return the expressions in one field or in all fields of this node."""
        return list(_trees_in(self.fields if field is None else self.fields.get(field)))

    def walk(self) -> Iterator[PlanTree]:
        """Yield this node and all nodes below it, but not those in its fields."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def column_id(self) -> int | None:
        """Spark's id of the column to which this expression refers; None in any other one."""
        return int(self.fields["exprId"]["id"]) if self.kind == "AttributeReference" else None

    def reference(self) -> FieldReference | None:
        """Return the column or nested field that this expression is; None in any other one."""
        column = self.column_id
        if column is not None:
            return column, ()
        if self.kind != "GetStructField":
            return None
        parent = self.children[0].reference()
        if parent is None:
            return None
        column, path = parent
        root = self.children[0]
        while root.kind == "GetStructField":
            root = root.children[0]
        kind = root.fields["dataType"]
        for name in path:
            kind = next(each["type"] for each in kind["fields"] if each["name"] == name)
        return column, (*path, str(kind["fields"][self.fields["ordinal"]]["name"]))

    def references(self) -> set[FieldReference]:
        """Return the columns and nested fields that this expression uses."""
        reference = self.reference()
        if reference is not None:
            return {reference}
        used: set[FieldReference] = set()
        for each in (*self.children, *self.expressions()):
            used |= each.references()
        return used


def _trees_in(value: Any) -> Iterator[PlanTree]:
    if isinstance(value, list):
        if value and isinstance(value[0], dict) and "num-children" in value[0]:
            yield PlanTree.of(value)
        else:
            for each in value:
                yield from _trees_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _trees_in(each)
