# SPDX-License-Identifier: Apache-2.0
"""Queries on changelogs: filters and projections keep them valid, and other operators miscount."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from connectors_core.errors import UnsupportedError
from connectors_core.schema import ROW_KIND_COLUMN
from connectors_core.spark.tables.text_edits import Edits
from connectors_core.table.sql.dialect import words_of

__all__ = ["keep_row_kinds"]

_ALLOWED: Final = frozenset({"expressions", "from_", "where"})
_OF_TABLE: Final = frozenset({"this", "db", "catalog", "alias"})


def keep_row_kinds(query: exp.Expr, edits: Edits, table: str) -> None:
    """Add the column of the kinds of changes to a query on a changelog.

    Args:
        query: The query.
        edits: The replacements in its text.
        table: The name of the changelog, for errors.

    Raises:
        UnsupportedError: The query is more than filters and projections.
    """
    words = words_of(edits.text)
    if not isinstance(query, exp.Select) or words[0].upper != "SELECT":
        raise _refused(table, query.key.upper())
    origin = query.args["from_"].this
    other = {part for part, value in query.args.items() if value} - _ALLOWED
    if isinstance(origin, exp.Table):
        other |= {part for part, value in origin.args.items() if value} - _OF_TABLE
    if other:
        raise _refused(table, ", ".join(sorted(other)))
    if len([*query.find_all(exp.Select)]) > 1:
        raise _refused(table, "a subquery")
    stars = [each for each in query.expressions if each.is_star]
    for each in query.expressions:
        star = each.this if isinstance(each, exp.Column) else each
        if isinstance(star, exp.Star) and any(star.args.values()):
            raise _refused(table, each.sql("spark"))
        if each.find(exp.AggFunc, exp.Window, exp.Explode) is not None:
            raise _refused(table, each.sql("spark"))
    if stars:
        return
    depth = 0
    for word in words:
        depth += (word.upper == "(") - (word.upper == ")")
        if depth == 0 and word.upper == "FROM":
            edits.replace(word.start, word.start, f", {ROW_KIND_COLUMN} ")
            return


def _refused(table: str, found: str) -> UnsupportedError:
    return UnsupportedError(
        f"{table} is a changelog, and Spark would count its updates and deletions as rows",
        expected="SELECT ... FROM ... WHERE",
        found=found,
        hint="write the changelog to a table with a primary key, and query that table",
    )
