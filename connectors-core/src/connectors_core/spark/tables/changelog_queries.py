# SPDX-License-Identifier: Apache-2.0
"""Queries on changelogs: filters and projections keep them valid, and other operators miscount."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from connectors_core.errors import UnsupportedError
from connectors_core.schema import ROW_KIND_COLUMN
from connectors_core.spark.tables.text_edits import Edits
from connectors_core.table.sql.errors import SqlError

__all__ = ["keep_row_kinds"]

# The parts of a SELECT that look at several rows, by the names that users know.
_OVER_ROWS: Final = {
    "distinct": "DISTINCT",
    "group": "GROUP BY",
    "having": "HAVING",
    "joins": "a join",
    "laterals": "LATERAL VIEW",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "order": "ORDER BY",
    "qualify": "QUALIFY",
    "sort": "SORT BY",
    "windows": "WINDOW",
}


def keep_row_kinds(query: exp.Expr, text: str, edits: Edits, table: str) -> None:
    """Add the column of the kinds of changes to a query on a changelog.

    Args:
        query: The query.
        text: Its text.
        edits: The replacements in the text.
        table: The name of the changelog, for errors.

    Raises:
        UnsupportedError: The query is more than filters and projections.
    """
    if not isinstance(query, exp.Select):
        raise _refused(
            table, "a set operation" if isinstance(query, exp.SetOperation) else "VALUES"
        )
    if query.args.get("with_") is not None:
        raise _refused(table, "WITH")
    for part, shown in _OVER_ROWS.items():
        if query.args.get(part):
            raise _refused(table, shown)
    for each in query.expressions:
        if each.find(exp.AggFunc, exp.Window) is not None:
            raise _refused(table, each.sql("spark"))
    if query.find(exp.Subquery) is not None:
        raise _refused(table, "a subquery")
    if not any(isinstance(each, exp.Star) for each in query.expressions):
        at = _end_of_selected(text)
        edits.replace(at, at, f", {ROW_KIND_COLUMN} ")


def _end_of_selected(text: str) -> int:
    """Return the place of the FROM that follows the selected columns."""
    from connectors_core.table.sql.dialect import TableSql

    depth = 0
    for token in TableSql().tokenize(text):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.text.upper() == "FROM":
            return int(token.start)
    raise SqlError("the query of a changelog has no FROM")


def _refused(table: str, found: str) -> UnsupportedError:
    return UnsupportedError(
        f"{table} is a changelog, and Spark would count its updates and deletions as rows",
        expected="SELECT ... FROM ... WHERE",
        found=found,
        hint="write the changelog to a table with a primary key, and query that table",
    )
