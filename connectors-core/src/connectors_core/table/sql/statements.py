# SPDX-License-Identifier: Apache-2.0
"""The statements of a table environment as values. Those it does not know are Spark's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from connectors_core.table.catalog_table import CatalogTable, CatalogView

__all__ = [
    "NEW_VALUE",
    "AlterTable",
    "ChangeRows",
    "CreateCatalog",
    "CreateDatabase",
    "CreateFunction",
    "CreateTable",
    "CreateView",
    "Describe",
    "DescribeJob",
    "Drop",
    "Explain",
    "Insert",
    "Name",
    "Query",
    "Reset",
    "SetOption",
    "Show",
    "ShowCreate",
    "SparkStatement",
    "Statement",
    "StatementSet",
    "StopJob",
    "Use",
]

NEW_VALUE: Final = "_connectors_value_"
"The names of the columns with new values, before their numbers."

Name: TypeAlias = tuple[str, ...]
"""A name of one to three parts: catalog, database, and table."""


@dataclass(frozen=True, kw_only=True)
class CreateTable:
    """`CREATE TABLE`.

    Attributes:
        name: The table.
        table: Its definition.
        if_not_exists: Whether an existing table stays.
        like: The table whose definition it extends.
        like_options: Whether it has the options of that table too.
        query: The query whose columns it has and whose rows it receives.
    """

    name: Name
    table: CatalogTable
    if_not_exists: bool = False
    like: Name | None = None
    like_options: bool = True
    query: str | None = None


@dataclass(frozen=True, kw_only=True)
class CreateView:
    """`CREATE VIEW`.

    Attributes:
        name: The view.
        view: Its definition.
        replace: Whether it replaces an existing view.
        if_not_exists: Whether an existing view stays.
    """

    name: Name
    view: CatalogView
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateCatalog:
    """`CREATE CATALOG`.

    Attributes:
        name: The catalog.
        options: Its options.
        comment: Its comment.
        if_not_exists: Whether an existing catalog stays.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    comment: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateDatabase:
    """`CREATE DATABASE`.

    Attributes:
        name: The database.
        if_not_exists: Whether an existing database stays.
    """

    name: Name
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateFunction:
    """`CREATE [TEMPORARY [SYSTEM]] FUNCTION ... LANGUAGE PYTHON`.

    Attributes:
        name: The function. The name of a temporary one has one part.
        identifier: Its name in Python: `module.attribute`.
        is_temporary: Whether it lasts as long as the session. Otherwise, a catalog keeps it.
        replace: Whether it replaces an existing temporary function.
        if_not_exists: Whether an existing function stays.
    """

    name: Name
    identifier: str
    is_temporary: bool = False
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class AlterFunction:
    """`ALTER FUNCTION ... LANGUAGE PYTHON`.

    Attributes:
        name: The function.
        identifier: Its new name in Python: `module.attribute`.
        if_exists: Whether it may be missing.
    """

    name: Name
    identifier: str
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class DescribeFunction:
    """`DESCRIBE FUNCTION`.

    Attributes:
        name: The function.
    """

    name: Name


@dataclass(frozen=True, kw_only=True)
class Drop:
    """`DROP TABLE`, `DROP VIEW`, `DROP FUNCTION`, `DROP DATABASE`, and `DROP CATALOG`.

    Attributes:
        kind: TABLE, VIEW, FUNCTION, DATABASE, or CATALOG.
        names: Their names.
        if_exists: Whether it may be missing.
        cascade: Whether a database may have tables.
    """

    kind: str
    names: tuple[Name, ...]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, kw_only=True)
class AlterTable:
    """`ALTER TABLE`.

    Attributes:
        name: The table.
        set_options: Options that get a value.
        reset_options: Options that lose theirs.
        new_name: Its new name.
    """

    name: Name
    set_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    reset_options: tuple[str, ...] = ()
    new_name: Name | None = None


@dataclass(frozen=True, kw_only=True)
class Use:
    """`USE` and `USE CATALOG`.

    Attributes:
        name: The catalog and the database, the database alone, or the catalog.
        is_catalog: Whether the name is that of a catalog.
    """

    name: Name
    is_catalog: bool = False


@dataclass(frozen=True, kw_only=True)
class Show:
    """`SHOW TABLES`, `SHOW CATALOGS`, `SHOW CURRENT DATABASE`, `SHOW JOBS`, and the like.

    Attributes:
        kind: TABLES, VIEWS, FUNCTIONS, USER FUNCTIONS, DATABASES, CATALOGS, CURRENT CATALOG,
            CURRENT DATABASE, or JOBS.
        parent: The database of tables, views, and functions, or the catalog of databases; None for
            the current one.
    """

    kind: str
    parent: Name | None = None


@dataclass(frozen=True, kw_only=True)
class ShowCreate:
    """`SHOW CREATE TABLE`.

    Attributes:
        name: The table or view.
    """

    name: Name


@dataclass(frozen=True, kw_only=True)
class Describe:
    """`DESCRIBE`.

    Attributes:
        name: The table or view.
    """

    name: Name


@dataclass(frozen=True, kw_only=True)
class DescribeJob:
    """`DESCRIBE JOB`.

    Attributes:
        job: The name or the id of the job.
    """

    job: str


@dataclass(frozen=True, kw_only=True)
class StopJob:
    """`STOP JOB`.

    Attributes:
        job: The name or the id of the job.
    """

    job: str


@dataclass(frozen=True, kw_only=True)
class SetOption:
    """`SET`.

    Attributes:
        key: The option, or None to show all.
        value: Its value, or None to show it.
    """

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True, kw_only=True)
class Reset:
    """`RESET`.

    Attributes:
        key: The option, or None for all.
    """

    key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query.

    Attributes:
        text: Its text.
    """

    text: str


@dataclass(frozen=True, kw_only=True)
class Insert:
    """`INSERT INTO` and `INSERT OVERWRITE`.

    Attributes:
        target: The table.
        query: The rows.
        columns: The columns that the rows have, or none for all written ones.
        partition: The values of partition columns that the rows lack, as SQL.
        overwrite: Whether the rows replace those of the table.
    """

    target: Name
    query: str
    columns: tuple[str, ...] = ()
    partition: Mapping[str, str] = field(default_factory=dict)
    overwrite: bool = False


@dataclass(frozen=True, kw_only=True)
class ChangeRows:
    """`DELETE` and `UPDATE`.

    Attributes:
        target: The table.
        query: The rows to change, followed by a column for each new value.
        assigned: The columns that get these values; none of a `DELETE`.
    """

    target: Name
    query: str
    assigned: tuple[str, ...] = ()

    @property
    def is_delete(self) -> bool:
        """Whether the rows are deleted."""
        return not self.assigned


@dataclass(frozen=True, kw_only=True)
class StatementSet:
    """Several `INSERT`s that form one pipeline.

    Attributes:
        inserts: The statements.
    """

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, kw_only=True)
class Explain:
    """`EXPLAIN`.

    Attributes:
        statement: The query, or the statements that write rows.
    """

    statement: Query | Insert | ChangeRows | StatementSet


@dataclass(frozen=True, kw_only=True)
class SparkStatement:
    """A statement of Spark.

    Attributes:
        text: Its text, which can have secrets.
        creates: The table that it creates without naming a format. If that is a table of a catalog,
            it is no statement of Spark; see `parse_create_table`.
    """

    text: str = field(repr=False)
    creates: Name | None = None


Statement: TypeAlias = (
    CreateTable
    | CreateView
    | CreateCatalog
    | CreateDatabase
    | CreateFunction
    | AlterFunction
    | DescribeFunction
    | Drop
    | AlterTable
    | Use
    | Show
    | ShowCreate
    | Describe
    | DescribeJob
    | StopJob
    | SetOption
    | Reset
    | Query
    | Insert
    | ChangeRows
    | StatementSet
    | Explain
    | SparkStatement
)
