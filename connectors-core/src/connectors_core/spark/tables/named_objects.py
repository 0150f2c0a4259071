# SPDX-License-Identifier: Apache-2.0
"""Tells whether statements name tables and functions of Spark, or of an environment."""

from __future__ import annotations

from pyspark.sql import SparkSession

from connectors_core.catalog.catalog_manager import CatalogManager
from connectors_core.schema.ddl import quoted
from connectors_core.spark.tables.catalog_functions import CatalogFunctions
from connectors_core.spark.tables.text_edits import name_of, tables_of
from connectors_core.table.sql import parse_query
from connectors_core.table.sql import statements as sql
from connectors_core.table.sql.statements import Name, Statement

__all__ = ["NamedObjects"]


class NamedObjects:
    """The tables and functions that statements name.

    Args:
        spark: The session.
        catalog: The tables and functions of the environment.
    """

    def __init__(self, spark: SparkSession, catalog: CatalogManager) -> None:
        self._spark = spark
        self._catalog = catalog

    def is_of_spark(self, statement: Statement) -> bool:
        """Return whether a statement changes or shows an object of Spark, not one of ours."""
        match statement:
            case sql.DescribeFunction(name=name):
                return self._spark.catalog.functionExists(_path(name))
            case sql.Drop(kind="FUNCTION", names=(name,)):
                is_ours = self._catalog.find_function(name) is not None
                return not is_ours and self._spark.catalog.functionExists(_path(name))
            case sql.Drop(kind="TABLE" | "VIEW", names=names):
                pass
            case sql.AlterTable(name=name) | sql.Describe(name=name) | sql.ShowCreate(name=name):
                names = (name,)
            case sql.Insert(target=target) | sql.ChangeRows(target=target):
                names = (target,)
            case _:
                return False
        if any(map(self._catalog.exists, names)):
            return False
        return any(self._spark.catalog.tableExists(_path(each)) for each in names)

    def are_in(self, query: str) -> bool:
        """Return whether a query names a table or a function of the environment."""
        parsed = parse_query(query)
        if any(self._catalog.exists(name_of(each)) for each in tables_of(parsed)):
            return True
        return CatalogFunctions(self._spark, self._catalog).are_in(parsed, query)


def _path(name: Name) -> str:
    return ".".join(map(quoted, name))
