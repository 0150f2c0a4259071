# SPDX-License-Identifier: Apache-2.0
"""`JOIN t FOR SYSTEM_TIME AS OF ...` as lookup joins (Flink's FLIP-35 and FLIP-221)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import DataFrame
from sqlglot import exp

from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.lookup.lookup_table_source import LookupTableSource
from connectors_core.spark.tables.text_edits import Edits, span
from connectors_core.table import CatalogTable, CatalogView, DynamicTableContext
from connectors_core.table.factory import factory_named
from connectors_core.table.sql.dialect import TableSql
from connectors_core.table.sql.errors import SqlError

if TYPE_CHECKING:
    from sqlglot import Token

    from connectors_core.spark.tables.query_planner import QueryPlanner

__all__ = ["TemporalJoins", "is_temporal"]

_BEFORE_JOIN: Final = frozenset({"LEFT", "INNER", "OUTER"})
_AFTER_JOINS: Final = frozenset(
    {"WHERE", "GROUP", "HAVING", "ORDER", "SORT", "LIMIT", "WINDOW", "UNION", "EXCEPT", "INTERSECT"}
    | {"LATERAL", "CLUSTER", "DISTRIBUTE", "QUALIFY", "OFFSET", "MINUS"}
)


def is_temporal(table: exp.Table) -> bool:
    """Return whether a table is looked up at the time of a row."""
    version = table.args.get("version")
    return (
        version is not None
        and version.name.upper() == "TIMESTAMP"
        and bool(table.find_ancestor(exp.Join))
    )


@dataclass(frozen=True)
class _Lookup:
    node: exp.Table
    name: str
    table: LookupTableSource

    @property
    def alias(self) -> str:
        return str(self.node.alias_or_name)


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
            raise UnsupportedError(f"{'.'.join(name)} is a view, which has no lookup by key")
        shown = ".".join(self._planner.catalog.full_name(name))
        context = DynamicTableContext.of(shown, found)
        table = factory_named(found, shown).create_lookup_source(context)
        self._lookups.append(_Lookup(node, shown, table))

    def plan(self, query: exp.Expr) -> None:
        """Replace the joins by their rows."""
        selects = {id(each.node.find_ancestor(exp.Select)): each for each in self._lookups}
        for each in selects.values():
            select = each.node.find_ancestor(exp.Select)
            assert isinstance(select, exp.Select)
            own = [one for one in self._lookups if one.node.find_ancestor(exp.Select) is select]
            self._plan(select, own)

    def _plan(self, select: exp.Select, lookups: list[_Lookup]) -> None:
        joins = select.args.get("joins") or []
        if len(joins) != len(lookups):
            raise UnsupportedError(
                "a lookup join cannot be mixed with other joins of the same SELECT",
                hint="put the other joins into a subquery: FROM (SELECT ...) AS a JOIN ...",
            )
        first, start, end = self._range(lookups)
        left_text = self._edits.text[start:first]
        left = select.args["from_"].this
        alias = left.alias_or_name
        rows = self._planner.frame(f"SELECT * FROM {left_text}")  # noqa: S608
        own = set(rows.columns)
        for join, lookup in zip(joins, lookups, strict=True):
            rows = self._joined(select, rows, alias, own, join, lookup)
        self._edits.replace(start, end, f"`{self._planner.register(rows)}` AS `{alias}` ")

    def _joined(
        self,
        select: exp.Select,
        rows: DataFrame,
        alias: str,
        own: set[str],
        join: exp.Join,
        lookup: _Lookup,
    ) -> DataFrame:
        how: Literal["left", "inner"] = "left" if str(join.side).upper() == "LEFT" else "inner"
        known = lookup.table.schema().names
        keys = self._keys(join, lookup, known, rows)
        wanted: dict[str, str] = {}
        for column in select.find_all(exp.Column):
            if column.find_ancestor(exp.Join) is join or column.find_ancestor(exp.Version):
                continue
            if not self._is_of(column, lookup, known, own):
                continue
            name = column.name
            taken = name in rows.columns
            out = wanted.setdefault(name, f"{lookup.alias}__{name}" if taken else name)
            start, end = span(column)
            renamed = out != name and isinstance(column.parent, exp.Select)
            self._edits.replace(
                start, end, f"`{alias}`.`{out}`" + (f" AS `{name}`" if renamed else "")
            )
        if any(isinstance(each, exp.Star) for each in select.expressions):
            wanted |= {name: name for name in known if name not in wanted and name not in own}
        return self._planner.pipeline.lookup_join(
            rows,
            lookup.table,
            on=keys,
            how=how,
            columns=wanted or {next(iter(keys.values())): f"{lookup.alias}__key"},
            uid=f"{lookup.name}.{lookup.alias}",
        )

    def _is_of(self, column: exp.Column, lookup: _Lookup, known: list[str], own: set[str]) -> bool:
        if column.table:
            if column.table.lower() != lookup.alias.lower():
                return False
            if column.name not in known:
                raise SqlError.at(
                    self._text,
                    span(column)[0],
                    f"the table {lookup.name} has no column {column.name!r}",
                    expected=f"one of {', '.join(known)}",
                )
            return True
        return column.name in known and column.name not in own

    def _keys(
        self, join: exp.Join, lookup: _Lookup, known: list[str], rows: DataFrame
    ) -> dict[str, str]:
        """Return the columns of the table by those of the rows."""
        found: dict[str, str] = {}
        condition = join.args.get("on")
        for each in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            sides = [each.left, each.right] if isinstance(each, exp.EQ) else []
            ours = [s for s in sides if isinstance(s, exp.Column) and s.table == lookup.alias]
            others = [s for s in sides if isinstance(s, exp.Column) and s not in ours]
            if len(ours) != 1 or len(others) != 1 or ours[0].name not in known:
                raise UnsupportedError(
                    f"the lookup of {lookup.name} needs equal columns",
                    expected=f"ON a.key = {lookup.alias}.key, with AND between several",
                    found="no ON" if each is None else each.sql("spark"),
                    hint="put other conditions into WHERE, and expressions into a subquery",
                )
            if others[0].name not in rows.columns:
                raise ConfigurationError(
                    f"the rows have no column {others[0].name!r}",
                    expected=f"one of {', '.join(rows.columns)}",
                )
            found[others[0].name] = ours[0].name
        return found

    def _range(self, lookups: list[_Lookup]) -> tuple[int, int, int]:
        """Return where the first join begins, where the joined rows begin, and where all end."""
        tokens: list[Token] = list(TableSql().tokenize(self._text))
        places = [span(each.node)[0] for each in lookups]
        at = next(n for n, token in enumerate(tokens) if token.start == min(places))
        while tokens[at].text.upper() != "JOIN":
            at -= 1
        while tokens[at - 1].text.upper() in _BEFORE_JOIN:
            at -= 1
        begin, depth = at - 1, 0
        while depth or tokens[begin].text.upper() != "FROM":
            depth += (tokens[begin].text == ")") - (tokens[begin].text == "(")
            begin -= 1
        last = next(n for n, token in enumerate(tokens) if token.start == max(places))
        depth = 0
        while last < len(tokens):
            depth += (tokens[last].text == "(") - (tokens[last].text == ")")
            if depth < 0 or (depth == 0 and tokens[last].text.upper() in _AFTER_JOINS):
                break
            last += 1
        end = tokens[last].start if last < len(tokens) else len(self._text)
        return tokens[at].start, tokens[begin + 1].start, end
