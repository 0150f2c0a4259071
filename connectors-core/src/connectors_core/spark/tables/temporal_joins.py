# SPDX-License-Identifier: Apache-2.0
"""`JOIN t FOR SYSTEM_TIME AS OF ...` as lookup joins (Flink's FLIP-35 and FLIP-221)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from sqlglot import exp

from connectors_core.errors import UnsupportedError
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

    @cached_property
    def columns(self) -> dict[str, str]:
        """The columns by their names in lower case."""
        return {name.lower(): name for name in self.table.schema().names}


@dataclass(frozen=True)
class _Left:
    """The rows before the joins, with the columns by their names in lower case."""

    alias: str
    columns: dict[str, str]


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
        shown = str(self._planner.catalog.full_name(name))
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
        rows = self._planner.frame(f"SELECT * FROM {left_text}")  # noqa: S608
        left = _Left(
            select.args["from_"].this.alias_or_name, {name.lower(): name for name in rows.columns}
        )
        for join, lookup in zip(joins, lookups, strict=True):
            rows = self._joined(select, rows, left, join, lookup)
        self._edits.replace(start, end, f"`{self._planner.register(rows)}` AS `{left.alias}` ")

    def _joined(
        self,
        select: exp.Select,
        rows: DataFrame,
        left: _Left,
        join: exp.Join,
        lookup: _Lookup,
    ) -> DataFrame:
        keys = self._keys(join, lookup, left)
        wanted: dict[str, str] = {}
        for column in select.find_all(exp.Column):
            if column.find_ancestor(exp.Join) is join or column.find_ancestor(exp.Version):
                continue
            found = self._column_of(lookup, left, column)
            if found is None:
                continue
            name, parts = found
            is_taken = name.lower() in {each.lower() for each in rows.columns}
            out = wanted.setdefault(name, f"{lookup.alias}__{name}" if is_taken else name)
            renamed = (
                parts == column.parts and out != name and isinstance(column.parent, exp.Select)
            )
            text = f"`{left.alias}`.`{out}`" + (f" AS `{name}`" if renamed else "")
            self._edits.replace(parts[0].meta["start"], parts[-1].meta["end"] + 1, text)
        if any(isinstance(each, exp.Star) for each in select.expressions):
            free = [name for key, name in lookup.columns.items() if key not in left.columns]
            wanted |= {name: name for name in free if name not in wanted}
        return self._planner.pipeline.lookup_join(
            rows,
            lookup.table,
            on=keys,
            how="left" if str(join.side).upper() == "LEFT" else "inner",
            columns=wanted or {next(iter(keys.values())): f"{lookup.alias}__key"},
            uid=f"{lookup.name}.{lookup.alias}",
        )

    def _column_of(
        self, lookup: _Lookup, left: _Left, column: exp.Column
    ) -> tuple[str, list[exp.Expr]] | None:
        """Return the column of the table that a name means, and the parts that name it."""
        parts = column.parts
        first = parts[0].name.lower()
        if len(parts) > 1 and first == lookup.alias.lower():
            name = lookup.columns.get(parts[1].name.lower())
            if name is None:
                raise SqlError.at(
                    self._text,
                    span(column)[0],
                    f"the table {lookup.name} has no column {parts[1].name!r}",
                    expected=f"one of {', '.join(lookup.columns.values())}",
                )
            return name, parts[:2]
        is_left = first in left.columns or (len(parts) > 1 and first == left.alias.lower())
        if is_left or first not in lookup.columns:
            return None
        return lookup.columns[first], parts[:1]

    def _keys(self, join: exp.Join, lookup: _Lookup, left: _Left) -> dict[str, str]:
        """Return the columns of the table by those of the rows."""
        found: dict[str, str] = {}
        condition = join.args.get("on")
        for each in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            sides = [each.left, each.right] if isinstance(each, exp.EQ) else []
            columns = [side for side in sides if isinstance(side, exp.Column)]
            ours = [(c, self._column_of(lookup, left, c)) for c in columns]
            names = [match[0] for _, match in ours if match is not None]
            others = [left.columns.get(c.name.lower()) for c, match in ours if match is None]
            if len(names) != 1 or len(others) != 1 or others[0] is None:
                raise UnsupportedError(
                    f"the lookup of {lookup.name} needs equal columns",
                    expected=f"ON {left.alias}.key = {lookup.alias}.key, with AND between several",
                    found="no ON" if each is None else each.sql("spark"),
                    hint="put other conditions into WHERE, and expressions into a subquery",
                )
            found[others[0]] = names[0]
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
