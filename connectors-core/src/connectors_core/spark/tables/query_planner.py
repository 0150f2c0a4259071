# SPDX-License-Identifier: Apache-2.0
"""Turns queries on tables into DataFrames of a pipeline."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from connectors_core.catalog.catalog_manager import CatalogManager, FullName
from connectors_core.engine.coordinator.identity import uid_of
from connectors_core.errors import UnsupportedError
from connectors_core.schema import ROW_KIND_COLUMN
from connectors_core.schema.ddl import quoted
from connectors_core.spark.pipeline import Pipeline
from connectors_core.spark.tables.catalog_functions import CatalogFunctions
from connectors_core.spark.tables.changelog_queries import keep_row_kinds
from connectors_core.spark.tables.row_changes import current_rows
from connectors_core.spark.tables.scanned_tables import ScannedTables
from connectors_core.spark.tables.spark_errors import sql_errors
from connectors_core.spark.tables.table_frames import scan
from connectors_core.spark.tables.temporal_joins import TemporalJoins, is_temporal
from connectors_core.spark.tables.text_edits import Edits, name_of, span, tables_of
from connectors_core.table import CatalogTable, CatalogView
from connectors_core.table.sql import SqlError, parse_query
from connectors_core.table.sql.statements import Name

__all__ = ["QueryPlanner"]

_NUMBERS: Final = itertools.count()


class QueryPlanner:
    """Plans the queries of one pipeline. Each table is one source, however often it is named.

    Args:
        spark: The session.
        catalog: The tables.
        pipeline: The pipeline that reads them.
        tables: The sources of the tables.
        statement: The text of the statement with the queries. Errors name their place in it.
        only_current: Whether queries on changelogs see the rows that they leave, in batch.
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: CatalogManager,
        pipeline: Pipeline,
        tables: ScannedTables,
        statement: str,
        *,
        only_current: bool = False,
    ) -> None:
        self.spark = spark
        self._statement = statement
        self._only_current = only_current
        self._placed: SqlError | None = None
        self.catalog = catalog
        self.pipeline = pipeline
        self._tables = tables
        self._views: dict[FullName, tuple[str, DataFrame]] = {}
        self._functions = CatalogFunctions(spark, catalog)
        self._temporary: list[str] = []
        self._expanding: list[str] = []
        self._uids: set[str] = set()

    def frame(self, text: str) -> DataFrame:
        """Return the rows of a query.

        The rows of a query on a changelog have the column `_row_kind`.

        Raises:
            SqlError: The query is wrong.
            UnsupportedError: The query would miscount a changelog.
        """
        with self._places_of(text):
            edits = self._edits(text)
            with sql_errors(edits):
                return self.spark.sql(edits.result())

    def rewritten(self, text: str) -> str:
        """Return the text of a query for Spark, which names views of the tables' rows.

        Raises:
            SqlError: The query is wrong.
            UnsupportedError: The query would miscount a changelog.
        """
        with self._places_of(text):
            return self._edits(text).result()

    @contextmanager
    def _places_of(self, query: str) -> Iterator[None]:
        """Raise errors in a query with their place in the statement. Queries can be nested."""
        try:
            yield
        except SqlError as error:
            if error is not self._placed:
                self._placed = error.within(self._statement, query)
            raise self._placed from error.__cause__

    def _edits(self, text: str) -> Edits:
        query = parse_query(text)
        edits = Edits(text)
        self._functions.rename(query, edits)
        joins = TemporalJoins(self, text, edits)
        changelog: str | None = None
        for table in tables_of(query):
            name = name_of(table)
            found = self.catalog.find(name)
            if is_temporal(table, text):
                joins.add(table, name, found)
                continue
            if found is None:
                continue  # a table or view of Spark
            _check_place(table, ".".join(name))
            view, rows = self._view_of(name, found)
            if ROW_KIND_COLUMN in rows.columns:
                changelog = ".".join(name)
            start, end = span(table)
            alias = "" if table.alias else f" AS {quoted(name[-1])}"
            edits.replace(start, end, f"{quoted(view)}{alias}")
            if not table.alias and len(name) > 1:
                _shorten(query, edits, name)
        joins.plan(query)
        if changelog is not None:
            keep_row_kinds(query, edits, changelog)
        return edits

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Forget the views and functions of this planner. DataFrames made from them stay usable."""
        for name in self._temporary:
            self.spark.catalog.dropTempView(name)
        self._temporary.clear()
        self._functions.close()

    def register(self, rows: DataFrame) -> str:
        """Give rows a name for the texts of queries."""
        name = f"connectors_table_{next(_NUMBERS)}"
        rows.createOrReplaceTempView(name)
        self._temporary.append(name)
        return name

    def unique_uid(self, name: str) -> str:
        """Return a uid for a lookup or sink of the pipeline, with a number if another has it."""
        unique, number = uid_of(name), 2
        while unique in self._uids:
            unique, number = uid_of(f"{name}.{number}"), number + 1
        self._uids.add(unique)
        return unique

    def _view_of(self, name: Name, found: CatalogTable | CatalogView) -> tuple[str, DataFrame]:
        full = self.catalog.full_name(name)
        if full not in self._views:
            shown = str(full)
            if isinstance(found, CatalogView):
                rows = self._rows_of_view(shown, found)
                if found.columns:
                    if ROW_KIND_COLUMN in rows.columns:
                        raise UnsupportedError(
                            f"the view {shown} of a changelog cannot rename its columns",
                            hint="rename them with AS in the query of the view",
                        )
                    rows = rows.toDF(*found.columns)
            else:
                rows = scan(self.pipeline, shown, found, self._tables.source(shown, found))
                if self._only_current and ROW_KIND_COLUMN in rows.columns:
                    rows = current_rows(rows, shown, found.schema.primary_key)
            self._views[full] = (self.register(rows), rows)
        return self._views[full]

    def _rows_of_view(self, name: str, view: CatalogView) -> DataFrame:
        if name in self._expanding:
            raise UnsupportedError(f"the view {name} contains itself")
        self._expanding.append(name)
        try:
            with self.catalog.within(view.catalog, view.database):
                return self.frame(view.query)
        finally:
            self._expanding.pop()


def _check_place(table: exp.Table, name: str) -> None:
    """Refuse what Spark cannot do with the view of a table."""
    if table.args.get("version") is not None:
        raise UnsupportedError(f"the table {name} has no versions to travel to")
    is_sample = isinstance(table.parent, exp.TableSample) or table.args.get("sample") is not None
    if is_sample and not table.alias:
        raise UnsupportedError(
            f"TABLESAMPLE of {name} needs an alias", expected=f"{name} TABLESAMPLE (...) AS t"
        )


def _shorten(query: exp.Expr, edits: Edits, name: Name) -> None:
    """Replace `database.table.column` by `table.column`, because the view has one name."""
    for column in query.find_all(exp.Column):
        before = column.parts[:-1]
        if tuple(part.name.lower() for part in before) == tuple(map(str.lower, name)):
            start, end = before[0].meta["start"], before[-1].meta["end"] + 1
            edits.replace(start, end, quoted(name[-1]))
