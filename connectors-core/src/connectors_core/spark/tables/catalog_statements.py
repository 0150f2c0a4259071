# SPDX-License-Identifier: Apache-2.0
"""Statements that define and show tables, databases, and catalogs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql.types import StructField

from connectors_core.catalog import CatalogDescriptor
from connectors_core.catalog.catalog_manager import CatalogManager
from connectors_core.errors import UnsupportedError
from connectors_core.spark.tables.definitions import create_statement, described
from connectors_core.spark.tables.results import TableResult
from connectors_core.table import CatalogView
from connectors_core.table.factory import validate_table
from connectors_core.table.sql import parse_query
from connectors_core.table.sql import statements as sql
from connectors_core.table.sql.statements import Name, Statement

__all__ = ["DONE", "define"]

DONE = TableResult(columns=("result",), rows=(("OK",),))
"""The result of a statement that shows nothing."""


def define(
    catalog: CatalogManager, statement: Statement, fields_of: Callable[[Name], list[StructField]]
) -> TableResult:
    """Run a statement that changes or shows definitions.

    Args:
        catalog: The catalogs.
        statement: The statement.
        fields_of: Returns the columns of a view, or of a table that declares none.
    """
    match statement:
        case sql.CreateView():
            parse_query(statement.view.query)
            view = replace(
                statement.view,
                catalog=catalog.current_catalog,
                database=catalog.current_database,
            )
            catalog.put(
                statement.name,
                view,
                if_not_exists=statement.if_not_exists,
                replace=statement.replace,
            )
        case sql.CreateCatalog():
            catalog.create_catalog(
                CatalogDescriptor(statement.name, statement.options, statement.comment),
                if_not_exists=statement.if_not_exists,
            )
        case sql.CreateDatabase():
            catalog.create_database(statement.name, if_not_exists=statement.if_not_exists)
        case sql.Drop(kind="CATALOG"):
            for (single,) in statement.names:
                catalog.drop_catalog(single, if_exists=statement.if_exists)
        case sql.Drop(kind="DATABASE"):
            for name in statement.names:
                catalog.drop_database(
                    name, if_exists=statement.if_exists, cascade=statement.cascade
                )
        case sql.Drop(kind="FUNCTION"):
            for name in statement.names:
                catalog.drop_function(name, if_exists=statement.if_exists)
        case sql.Drop():
            for name in statement.names:
                catalog.drop(name, view=statement.kind == "VIEW", if_exists=statement.if_exists)
        case sql.AlterTable():
            _alter(catalog, statement)
        case sql.Use(is_catalog=True):
            catalog.use_catalog(statement.name[0])
        case sql.Use():
            catalog.use(statement.name)
        case sql.Show(kind="CATALOGS"):
            return _names("catalog", catalog.catalogs())
        case sql.Show(kind="DATABASES"):
            return _names("database", catalog.databases(*(statement.parent or ())))
        case sql.Show(kind="CURRENT CATALOG"):
            return _names("catalog", [catalog.current_catalog])
        case sql.Show(kind="CURRENT DATABASE"):
            return _names("database", [catalog.current_database])
        case sql.Show():
            shown = catalog.views if statement.kind == "VIEWS" else catalog.names
            return _names("table", shown(statement.parent))
        case sql.ShowCreate():
            full = catalog.full_name(statement.name)
            text = create_statement(full, catalog.get(statement.name))
            return TableResult(columns=("statement",), rows=((text,),))
        case sql.DescribeFunction():
            function = catalog.get_function(statement.name)
            rows = [("language", "PYTHON"), ("identifier", function.identifier)]
            return TableResult(columns=("name", "value"), rows=rows)
        case sql.Describe():
            found = catalog.get(statement.name)
            if isinstance(found, CatalogView) or not found.schema.columns:
                rows = [(f.name, f.dataType.simpleString()) for f in fields_of(statement.name)]
                return TableResult(columns=("name", "type"), rows=rows)
            return described(found)
    return DONE


def _alter(catalog: CatalogManager, statement: sql.AlterTable) -> None:
    if statement.new_name is not None:
        catalog.rename(statement.name, statement.new_name)
        return
    table = catalog.get(statement.name)
    if isinstance(table, CatalogView):
        raise UnsupportedError(f"{'.'.join(statement.name)} is a view, not a table")
    options = {k: v for k, v in table.options.items() if k not in statement.reset_options}
    changed = replace(table, options={**options, **statement.set_options})
    name = str(catalog.full_name(statement.name))
    validate_table(name, changed)
    catalog.alter(statement.name, changed)


def _names(column: str, names: Sequence[str]) -> TableResult:
    return TableResult(columns=(column,), rows=[(name,) for name in names])
