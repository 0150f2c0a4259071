# SPDX-License-Identifier: Apache-2.0
"""`JOIN t FOR SYSTEM_TIME AS OF ...` as lookup joins (Flink's FLIP-35 and FLIP-221).

A vector search (FLIP-540) is such a join, whose condition is a vector and not equal columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from sqlglot import exp

from connectors_core.errors import UnsupportedError
from connectors_core.lookup.join import JoinType
from connectors_core.lookup.lookup_table_source import LookupTableSource
from connectors_core.lookup.vector_search import VectorSearchTableSource
from connectors_core.schema.ddl import quoted
from connectors_core.spark.tables.text_edits import Edits, span, tables_of
from connectors_core.spark.tables.updating_queries import is_updating
from connectors_core.table import CatalogTable, CatalogView, DynamicTableContext
from connectors_core.table.factory import factory_named
from connectors_core.table.sql.dialect import Word, parse_query, words_of
from connectors_core.table.sql.errors import SqlError
from connectors_core.table.sql.vector_searches import VectorSearch, vector_search_of

if TYPE_CHECKING:
    from connectors_core.spark.tables.query_planner import QueryPlanner

__all__ = ["TemporalJoins", "is_temporal", "refuse_lookup_joins"]

_BEFORE_JOIN: Final = frozenset(
    {"LEFT", "INNER", "OUTER", "RIGHT", "FULL", "SEMI", "ANTI", "CROSS"}
)
_BEFORE_SEARCHED: Final = frozenset({"LATERAL", "TABLE", "VECTOR_SEARCH", "("})
_SCORE: Final = "score"
_AFTER_JOINS: Final = frozenset(
    {"WHERE", "GROUP", "HAVING", "ORDER", "SORT", "LIMIT", "WINDOW", "UNION", "EXCEPT", "INTERSECT"}
    | {"LATERAL", "CLUSTER", "DISTRIBUTE", "QUALIFY", "OFFSET", "MINUS", "PIVOT", "UNPIVOT"}
)


def is_temporal(table: exp.Table, text: str) -> bool:
    """Return whether a query looks up or searches a table: `JOIN t FOR SYSTEM_TIME AS OF ...`."""
    if vector_search_of(table) is not None:
        return True
    if table.args.get("version") is None or not isinstance(table.parent, exp.Join):
        return False
    after = text[span(table)[1] :].split(maxsplit=2)
    return [each.upper() for each in after[:2]] == ["FOR", "SYSTEM_TIME"]


def refuse_lookup_joins(query: str) -> None:
    """Refuse a query that looks a table up, because no pipeline runs it.

    Raises:
        UnsupportedError: It does.
    """
    if any(is_temporal(each, query) for each in tables_of(parse_query(query))):
        raise UnsupportedError(
            "a lookup join or vector search belongs to a pipeline, which limits what runs again "
            "after a failure",
            hint="INSERT INTO a table of a connector, or join without FOR SYSTEM_TIME AS OF",
        )


@dataclass(frozen=True)
class _Lookup:
    node: exp.Table
    name: str
    table: LookupTableSource | VectorSearchTableSource
    search: VectorSearch | None

    @property
    def alias(self) -> str:
        return str(self.node.alias_or_name)

    @cached_property
    def columns(self) -> dict[str, str]:
        """The columns by their names in lower case, with the score of a search."""
        columns = {name.lower(): name for name in self.table.schema().names}
        if self.search is None:
            return columns
        if _SCORE in columns:
            raise UnsupportedError(
                f"the table {self.name} has a column with the name of the score",
                found=columns[_SCORE],
                hint="use Pipeline.vector_search, which can rename columns and the score",
            )
        return {**columns, _SCORE: _SCORE}


@dataclass(frozen=True)
class _Left:
    """The rows before the joins.

    Attributes:
        alias: The name of the rows in the query.
        columns: Their columns by the names in lower case.
        looked_up: The columns of earlier lookups, as they are in the rows, by their aliases.
    """

    alias: str
    columns: dict[str, str]
    looked_up: dict[str, dict[str, str]]

    def column(self, column: exp.Column) -> str | None:
        """Return the column of the rows that a name means, or None if there is none."""
        *before, name = (part.name for part in column.parts)
        if before and before[0].lower() != self.alias.lower():
            found = self.looked_up.get(before[0].lower(), {})
            return {key.lower(): value for key, value in found.items()}.get(name.lower())
        return self.columns.get(name.lower())


class TemporalJoins:
    """The lookup joins of one query.

    Args:
        planner: Plans the rows that are joined.
        text: The text of the query.
        edits: The replacements in the text.
    """

    def __init__(self, planner: QueryPlanner, text: str, edits: Edits) -> None:
        self._planner = planner
        self._text = text
        self._edits = edits
        self._lookups: list[_Lookup] = []

    def add(
        self, node: exp.Table, name: tuple[str, ...], found: CatalogTable | CatalogView | None
    ) -> None:
        """Add a table that is looked up.

        Raises:
            ConfigurationError: It does not exist, or has no lookup.
        """
        if found is None:
            found = self._planner.catalog.get(name)
        if isinstance(found, CatalogView):
            raise UnsupportedError(f"{'.'.join(name)} is a view, which has no lookup")
        shown = str(self._planner.catalog.full_name(name))
        context, factory = DynamicTableContext.of(shown, found), factory_named(found, shown)
        search = vector_search_of(node)
        table: LookupTableSource | VectorSearchTableSource = (
            factory.create_lookup_source(context)
            if search is None
            else factory.create_vector_search_source(context)
        )
        self._lookups.append(_Lookup(node, shown, table, search))

    def plan(self, query: exp.Expr) -> None:
        """Replace the joins by their rows."""
        for select in query.find_all(exp.Select):
            own = [each for each in self._lookups if each.node.find_ancestor(exp.Select) is select]
            if own:
                self._plan(select, own)

    def _plan(self, select: exp.Select, lookups: list[_Lookup]) -> None:
        joins = select.args.get("joins") or []
        if len(joins) != len(lookups):
            raise UnsupportedError(
                "a lookup join cannot be mixed with other joins of the same SELECT",
                hint="put the other joins into a subquery: FROM (SELECT ...) AS a JOIN ...",
            )
        for join in joins:
            if join.side.upper() not in {"", "LEFT"} or join.kind.upper() not in {"", "INNER"}:
                found = f"{join.side} {join.kind} JOIN".strip()
                raise UnsupportedError(
                    "a lookup join keeps all rows or those that are found",
                    expected="LEFT JOIN or INNER JOIN",
                    found=found.upper(),
                )
        origin = select.args["from_"].this
        names = {each.alias.lower() for each in select.root().find_all(exp.CTE)}
        if isinstance(origin, exp.Table) and origin.name.lower() in names:
            raise UnsupportedError(
                f"a lookup join cannot begin with the WITH query {origin.name}",
                hint="put its text into a subquery, or create a view",
            )
        first, start, end = self._range(lookups)
        left_text = self._edits.text[start:first]
        rows = self._planner.frame(f"SELECT * FROM {left_text}")  # noqa: S608
        left = _Left(origin.alias_or_name, {name.lower(): name for name in rows.columns}, {})
        self._expand_stars(select, left)
        for join, lookup in zip(joins, lookups, strict=True):
            rows = self._joined(select, rows, left, join, lookup)
        joined = f"{quoted(self._planner.register(rows))} AS {quoted(left.alias)} "
        self._edits.replace(start, end, joined)

    def _expand_stars(self, select: exp.Select, left: _Left) -> None:
        """Replace `a.*` of the rows before the joins by their columns: later, they have more."""
        for each in select.expressions:
            if _is_star_of(each, left.alias):
                start = each.parts[0].meta["start"]
                names = [f"{quoted(left.alias)}.{quoted(name)}" for name in left.columns.values()]
                end = self._edits.text.index("*", start) + 1
                self._edits.replace(start, end, ", ".join(names))

    def _joined(
        self,
        select: exp.Select,
        rows: DataFrame,
        left: _Left,
        join: exp.Join,
        lookup: _Lookup,
    ) -> DataFrame:
        keys = self._keys(join, lookup, left) if lookup.search is None else {}
        wanted: dict[str, str] = {}
        taken = {each.lower() for each in rows.columns}

        def out(name: str) -> str:
            is_taken = name.lower() in taken
            return wanted.setdefault(name, f"{lookup.alias}__{name}" if is_taken else name)

        for column in select.find_all(exp.Column):
            found = self._column_of(lookup, left, column)
            if found is None or column.find_ancestor(exp.Version):
                continue
            name, parts = found
            if column.find_ancestor(exp.Join) is not None:
                if column.find_ancestor(exp.Join) is not join:
                    out(name)  # the key of a later lookup
                continue
            if column.find_ancestor(exp.Select) is not select:
                if len(parts) == 1:
                    continue  # a column of the subquery
                raise UnsupportedError(
                    f"a subquery cannot name the column {name!r} of the lookup {lookup.alias}",
                    hint="insert the joined rows into a table first",
                )
            renamed = (
                parts == column.parts
                and out(name) != name
                and isinstance(column.parent, exp.Select)
            )
            text = f"{quoted(left.alias)}.{quoted(out(name))}"
            if renamed:
                text += f" AS {quoted(name)}"
            self._edits.replace(parts[0].meta["start"], parts[-1].meta["end"] + 1, text)
        for each in select.expressions:
            if not _is_star_of(each, left.alias):
                _check_star(each)
            if isinstance(each, exp.Star):
                for name in lookup.columns.values():
                    if out(name) != name:
                        raise _name_columns(f"{lookup.alias}.{name} has the name of another column")
        keeps_rows = join.side.upper() == "LEFT"
        if not keeps_rows and is_updating(rows):
            raise UnsupportedError(
                f"a lookup of {lookup.name} can only add columns to an aggregate that is updated",
                expected="LEFT JOIN",
                found="INNER JOIN",
                hint="put the lookup before the aggregate",
            )
        left.looked_up[lookup.alias.lower()] = wanted
        uid = self._planner.unique_uid(f"{lookup.name}.{lookup.alias}")
        how: JoinType = "left" if keeps_rows else "inner"
        if isinstance(lookup.table, LookupTableSource) and lookup.search is None:
            return self._planner.pipeline.lookup_join(
                rows,
                lookup.table,
                on=keys,
                how=how,
                columns=wanted or {next(iter(keys.values())): f"{lookup.alias}__key"},
                uid=uid,
            )
        return self._searched(rows, left, lookup, wanted, how, uid)

    def _searched(
        self,
        rows: DataFrame,
        left: _Left,
        lookup: _Lookup,
        wanted: Mapping[str, str],
        how: JoinType,
        uid: str,
    ) -> DataFrame:
        """Return rows with those that a vector search finds."""
        search, table = lookup.search, lookup.table
        assert search is not None and isinstance(table, VectorSearchTableSource)  # noqa: PT018
        query = search.query
        vector = left.column(query) if isinstance(query, exp.Column) else None
        if vector is None:
            raise UnsupportedError(
                f"a vector search in {lookup.name} needs a column with the vector",
                expected=f"a column of {left.alias}",
                found=query.sql("spark"),
                hint="put an expression into a subquery: FROM (SELECT ...) AS a",
            )
        if is_updating(rows):
            raise UnsupportedError(
                f"a vector search in {lookup.name} cannot follow an aggregate that is updated",
                hint="put the search before the aggregate, or write the aggregate to a table first",
            )
        column = lookup.columns.get(search.search_column.lower(), search.search_column)
        return self._planner.pipeline.vector_search(
            rows,
            table,
            vector_column=vector,
            search_column=column,
            top_k=search.top_k,
            how=how,
            columns={name: other for name, other in wanted.items() if name != _SCORE},
            score=wanted.get(_SCORE, f"{lookup.alias}__{_SCORE}"),
            uid=uid,
        )

    def _column_of(
        self, lookup: _Lookup, left: _Left, column: exp.Column
    ) -> tuple[str, list[exp.Expr]] | None:
        """Return the column of the table that a name means, and the parts that name it."""
        parts = column.parts
        first = parts[0].name.lower()
        if len(parts) > 1 and first == lookup.alias.lower():
            _check_star(column)
            name = lookup.columns.get(parts[1].name.lower())
            if name is None:
                raise SqlError.at(
                    self._text,
                    span(column)[0],
                    f"the table {lookup.name} has no column {parts[1].name!r}",
                    expected=f"one of {', '.join(lookup.columns.values())}",
                )
            return name, parts[:2]
        if len(parts) > 1 and first in {left.alias.lower(), *left.looked_up}:
            return None
        earlier = any(first in map(str.lower, names) for names in left.looked_up.values())
        if first in left.columns or earlier or first not in lookup.columns:
            return None
        return lookup.columns[first], parts[:1]

    def _keys(self, join: exp.Join, lookup: _Lookup, left: _Left) -> dict[str, str]:
        """Return the columns of the table by those of the rows."""
        keys: dict[str, str] = {}
        condition = join.args.get("on")
        for each in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            sides = [each.left, each.right] if isinstance(each, exp.EQ) else []
            columns = [side for side in sides if isinstance(side, exp.Column)]
            ours = [(column, self._column_of(lookup, left, column)) for column in columns]
            names = [found[0] for _, found in ours if found is not None]
            others = [left.column(column) for column, found in ours if found is None]
            if len(names) != 1 or len(others) != 1 or others[0] is None or others[0] in keys:
                raise UnsupportedError(
                    f"the lookup of {lookup.name} needs equal columns",
                    expected=f"ON {left.alias}.key = {lookup.alias}.key, with AND between several",
                    found="no ON" if each is None else each.sql("spark"),
                    hint="put other conditions into WHERE, and expressions into a subquery",
                )
            keys[others[0]] = names[0]
        return keys

    def _range(self, lookups: list[_Lookup]) -> tuple[int, int, int]:
        """Return where the first join begins, where the joined rows begin, and where all end."""
        words = words_of(self._text)
        places = [span(each.node)[0] for each in lookups]
        at = next(n for n, word in enumerate(words) if word.start == min(places))
        while words[at].upper not in {"JOIN", "LATERAL"}:
            at -= 1
        if words[at].upper == "LATERAL":
            at -= 1  # a comma, or JOIN
        while words[at].upper == "JOIN" and words[at - 1].upper in _BEFORE_JOIN:
            at -= 1
        begin, depth = at - 1, 0
        while depth or words[begin].upper != "FROM":
            depth += (words[begin].upper == ")") - (words[begin].upper == "(")
            begin -= 1
        last = next(n for n, word in enumerate(words) if word.start == max(places))
        depth = _parentheses_of_search(words, last)
        while last < len(words):
            depth += (words[last].upper == "(") - (words[last].upper == ")")
            if depth < 0 or (depth == 0 and words[last].upper in _AFTER_JOINS):
                break
            last += 1
        end = words[last].start if last < len(words) else len(self._text)
        return words[at].start, words[begin + 1].start, end


def _parentheses_of_search(words: Sequence[Word], at: int) -> int:
    """Return how many parentheses of a vector search are open at the name of its table, or none."""
    depth = 0
    while words[at - 1].upper in _BEFORE_SEARCHED:
        at -= 1
        depth += words[at].upper == "("
    return depth if words[at].upper == "LATERAL" else 0


def _is_star_of(column: exp.Expr, alias: str) -> bool:
    """Return whether a selected column is all columns of an alias."""
    return (
        isinstance(column, exp.Column)
        and isinstance(column.this, exp.Star)
        and not any(column.this.args.values())
        and [part.name.lower() for part in column.parts[:-1]] == [alias.lower()]
    )


def _check_star(column: exp.Expr) -> None:
    """Refuse `a.*` of a looked-up table, and `*` without some columns."""
    is_of_table = isinstance(column, exp.Column) and isinstance(column.this, exp.Star)
    if is_of_table or (isinstance(column, exp.Star) and any(column.args.values())):
        raise _name_columns(f"{column.sql('spark')} in a lookup join")


def _name_columns(found: str) -> UnsupportedError:
    return UnsupportedError(
        "the columns of a lookup join must be named", found=found, hint="SELECT a.x, b.y FROM ..."
    )
