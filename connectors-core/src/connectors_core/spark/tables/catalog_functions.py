# SPDX-License-Identifier: Apache-2.0
"""Functions that catalogs keep: their statements, and their names in queries."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final

from pyspark.sql import SparkSession
from sqlglot import exp

from connectors_core.catalog import CatalogFunction, CatalogOperationUnsupportedError
from connectors_core.catalog.catalog_manager import CatalogManager, FullName
from connectors_core.schema.ddl import quoted
from connectors_core.spark.internals.functions import register_function
from connectors_core.spark.tables.functions import is_table_function, python_function
from connectors_core.spark.tables.text_edits import Edits
from connectors_core.table.sql import statements as sql
from connectors_core.table.sql.dialect import Kind, words_of
from connectors_core.table.sql.statements import Name

__all__ = ["CatalogFunctions", "define_function", "function_names"]

_NAMES: Final = frozenset({Kind.WORD, Kind.NAME})
_NUMBERS: Final = itertools.count()


def define_function(
    catalog: CatalogManager, statement: sql.CreateFunction | sql.AlterFunction
) -> None:
    """Keep a function in a catalog, after its import.

    Raises:
        ConfigurationError: The module has no such function, or the catalog refuses it.
    """
    function = CatalogFunction(identifier=statement.identifier)
    python_function(statement.identifier)
    if isinstance(statement, sql.CreateFunction):
        catalog.create_function(statement.name, function, if_not_exists=statement.if_not_exists)
    else:
        catalog.alter_function(statement.name, function, if_exists=statement.if_exists)


def function_names(spark: SparkSession, catalog: CatalogManager, statement: sql.Show) -> list[str]:
    """Return the functions of Spark, and those of a database.

    Raises:
        DatabaseNotExistError: The database does not exist.
    """
    found = {row[0] for row in spark.sql(f"SHOW {statement.kind}").collect()}
    with suppress(CatalogOperationUnsupportedError):  # of a catalog that keeps none
        found.update(catalog.functions(statement.parent))
    return sorted(found)


@dataclass(frozen=True)
class _Call:
    """A call of a function of a catalog.

    Attributes:
        name: Its name as the query writes it.
        start: The number of the first character of the name.
        end: The number of the character after it.
        function: The function.
    """

    name: Name
    start: int
    end: int
    function: CatalogFunction


class CatalogFunctions:
    """The functions of catalogs in queries. Each becomes a temporary function for a while.

    A name of one part that Spark knows is that of Spark, also a temporary function, as in Flink.

    Args:
        spark: The session.
        catalog: The catalogs.
    """

    def __init__(self, spark: SparkSession, catalog: CatalogManager) -> None:
        self._spark = spark
        self._catalog = catalog
        self._is_of_spark = cache(lambda name: spark.catalog.functionExists(quoted(name)))
        self._temporary: dict[tuple[FullName, str], str] = {}

    def are_in(self, query: exp.Expr, text: str) -> bool:
        """Return whether a query calls one."""
        return any(True for _ in self._calls(query, text))

    def rename(self, query: exp.Expr, edits: Edits) -> None:
        """Let a query call temporary functions.

        Raises:
            ConfigurationError: Python cannot import a function.
        """
        for call in self._calls(query, edits.text):
            edits.replace(call.start, call.end, quoted(self._registered(call)))

    def close(self) -> None:
        """Remove the temporary functions. DataFrames that call them stay usable."""
        for name in self._temporary.values():
            self._spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")
        self._temporary.clear()

    def _registered(self, call: _Call) -> str:
        key = (self._catalog.full_name(call.name), call.name[-1])
        if key not in self._temporary:
            function = python_function(call.function.identifier)
            name = f"connectors_function_{next(_NUMBERS)}"
            if is_table_function(function):
                self._spark.udtf.register(name, function)
            else:
                register_function(self._spark, name, function, shown=call.name[-1])
            self._temporary[key] = name
        return self._temporary[key]

    def _calls(self, query: exp.Expr, text: str) -> Iterator[_Call]:
        words = words_of(text)
        at_start = {word.start: number for number, word in enumerate(words)}
        for node in query.find_all(exp.Func):
            number = at_start.get(node.meta.get("start", -1))
            if number is None:
                continue
            first = number
            while first > 1 and words[first - 1].upper == "." and words[first - 2].kind in _NAMES:
                first -= 2
            name = tuple(word.value for word in words[first : number + 1 : 2])
            if len(name) == 1 and self._is_of_spark(name[0]):
                continue
            function = self._catalog.find_function(name)
            if function is not None:
                yield _Call(name, words[first].start, words[number].end, function)
