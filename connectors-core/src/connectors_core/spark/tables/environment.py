# SPDX-License-Identifier: Apache-2.0
"""The environment in which statements on tables run."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from connectors_core.catalog import (
    Catalog,
    CatalogError,
    CatalogModificationListener,
    CatalogStore,
)
from connectors_core.catalog.catalog_manager import CatalogManager
from connectors_core.engine.state import shortened
from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.lineage import JobStatusChangedListener
from connectors_core.options.keywords import suggesting_keywords
from connectors_core.schema import ROW_KIND_COLUMN
from connectors_core.schema.ddl import quoted
from connectors_core.spark.internals.arrow_types import arrow_type, check_writable
from connectors_core.spark.pipeline import Pipeline
from connectors_core.spark.tables.catalog_functions import define_function, function_names
from connectors_core.spark.tables.catalog_statements import DONE, define
from connectors_core.spark.tables.functions import create_function
from connectors_core.spark.tables.jobs import Job, Jobs
from connectors_core.spark.tables.named_objects import NamedObjects
from connectors_core.spark.tables.query_planner import QueryPlanner
from connectors_core.spark.tables.results import TableResult
from connectors_core.spark.tables.scanned_tables import ScannedTables, no_end
from connectors_core.spark.tables.session_options import RuntimeMode, SessionOptions
from connectors_core.spark.tables.spark_errors import sql_errors
from connectors_core.spark.tables.spark_inserts import explained, insert_rows, refuse_stream
from connectors_core.spark.tables.temporal_joins import refuse_lookup_joins
from connectors_core.spark.tables.text_edits import Edits
from connectors_core.spark.tables.writes import plan_writes, refuse_streams, statement_name
from connectors_core.table import CatalogTable, CatalogView, PhysicalColumn, TableSchema
from connectors_core.table.factory import validate_table
from connectors_core.table.sql import SqlError, parse_statement
from connectors_core.table.sql import statements as sql
from connectors_core.table.sql.dialect import Kind, words_of
from connectors_core.table.sql.parsing import parse_create_table, parse_placed
from connectors_core.table.sql.statements import ChangeRows, Insert, Name, Statement
from connectors_core.table.sql.word_reader import WordReader

__all__ = ["TableEnvironment"]

_JOB_COLUMNS: Final = (
    "job name",
    "job id",
    "status",
    "start time",
    "epoch",
    "rows read",
    "rows written",
    "statement",
)
_UNSAFE: Final = re.compile(r"[^a-z0-9_.-]+")


class TableEnvironment:
    """Creates tables, and runs queries and INSERTs on them (Flink's `TableEnvironment`). Driver.

    An INSERT is a pipeline, exactly once, with a checkpoint of its own below the location. The same
    INSERT resumes it, even if only the format of its text has changed. An INSERT whose tables all
    end runs in batch, to its end. Otherwise, it starts, and the result stops or awaits it. A
    statement set is one pipeline with one decision for all its tables.

    Statements that name no table of this environment run on Spark unchanged.

    Args:
        spark: A classic session.
        checkpoint_location: The location of the pipelines, a path or a URL for Hadoop.
        state_location: The location of their plans and decisions, a URL for fsspec. The default is
            the checkpoint location.
        storage_options: Options for the file system of ``state_location``.
        listeners: Receive the lineage and the state of each run.
        catalog_store: Keeps catalogs, and the columns that their systems cannot keep. By default,
            they end with the environment.
        catalog_listeners: Learn of changed databases and tables.

    Raises:
        UnsupportedError: The session is a Spark Connect session.
    """

    @suggesting_keywords
    def __init__(
        self,
        spark: SparkSession,
        *,
        checkpoint_location: str | os.PathLike[str],
        state_location: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        listeners: Sequence[JobStatusChangedListener] = (),
        catalog_store: CatalogStore | None = None,
        catalog_listeners: Sequence[CatalogModificationListener] = (),
    ) -> None:
        self._spark = spark
        self._checkpoint = os.fspath(checkpoint_location).rstrip("/")
        self._state = None if state_location is None else os.fspath(state_location).rstrip("/")
        self._storage_options = storage_options
        self._listeners = tuple(listeners)
        self._catalog = CatalogManager(catalog_store, tuple(catalog_listeners))
        self._objects = NamedObjects(spark, self._catalog)
        self._options: dict[str, str] = {}
        self._jobs = Jobs()

    # --- catalogs -------------------------------------------------------------------------------

    def register_catalog(self, name: str, catalog: Catalog) -> None:
        """Add a catalog that the program has created, as Flink's `registerCatalog` does.

        It ends with the environment, which closes it. Unlike those of `CREATE CATALOG`, it is not
        in the catalog store, and neither are the definitions that it keeps.

        Raises:
            CatalogAlreadyExistError: There is one of this name.
            ConnectorError: Its system does not respond, or refuses the login.
        """
        self._catalog.register(name, catalog)

    def get_catalog(self, name: str) -> Catalog:
        """Return a catalog, for what SQL has no statement for.

        Raises:
            CatalogNotExistError: There is none of this name.
        """
        return self._catalog.catalog(name)

    def use_catalog(self, name: str) -> None:
        """Make a catalog the current one, as `USE CATALOG` does.

        Raises:
            CatalogNotExistError: There is none of this name.
        """
        self._catalog.use_catalog(name)

    def list_catalogs(self) -> list[str]:
        """Return the names of all catalogs."""
        return self._catalog.catalogs()

    # --- statements -----------------------------------------------------------------------------

    def execute_sql(self, text: str) -> TableResult:
        """Run one statement.

        Raises:
            SqlError: The statement is wrong.
            ConnectorError: It failed.
        """
        return self._execute(parse_statement(text), text)

    def execute_script(self, text: str) -> list[TableResult]:
        """Run statements that semicolons separate, one after another.

        An INSERT without an end does not hold up the statements after it. If a later statement
        fails, it continues; see :attr:`pipelines`.

        Raises:
            SqlError: A statement is wrong; none has run.
            ConnectorError: A statement failed; those after it have not run.
        """
        return [self._execute(each.statement, each.text) for each in parse_placed(text)]

    def sql_query(self, text: str) -> DataFrame:
        """Return the rows of a query in batch.

        Raises:
            SqlError: The query is wrong.
            UnsupportedError: A table has no end.
        """
        statement = parse_statement(text)
        if not isinstance(statement, sql.Query):
            raise ConfigurationError("the statement is no query", hint="use execute_sql")
        tables = ScannedTables(self._catalog)
        tables.refuse_endless(statement.text)
        refuse_lookup_joins(statement.text)
        with self._planner("query", text, tables) as planner:
            return planner.frame(statement.text)

    @property
    def jobs(self) -> Mapping[str, Job]:
        """The INSERTs of this environment by name, also those that have ended. From any thread."""
        return self._jobs.all

    @property
    def pipelines(self) -> Mapping[str, Pipeline]:
        """The pipelines of the jobs, by name."""
        return {name: job.pipeline for name, job in self.jobs.items()}

    def close(self) -> None:
        """Stop all jobs that still run, and close the catalogs."""
        self._jobs.stop_all()
        self._catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def explain_sql(self, text: str) -> str:
        """Return what an INSERT or a query reads, and the plan of Spark.

        Raises:
            SqlError: The statement is wrong.
        """
        return self._explained(parse_statement(text), text)

    @suggesting_keywords
    def create_table(self, name: str, table: CatalogTable, *, if_not_exists: bool = False) -> None:
        """Create a table from its definition, as `CREATE TABLE` does.

        Raises:
            ConfigurationError: A table of this name exists, or its options are wrong.
        """
        self._create_table(
            sql.CreateTable(
                name=_name(name),
                table=table,
                if_not_exists=if_not_exists,
            )
        )

    def from_path(self, name: str) -> DataFrame:
        """Return the rows of a table in batch.

        Args:
            name: The name, with the catalog and the database if they are not the current ones. Put
                a part with a dot between backticks.
        """
        return self._rows_of(_name(name))

    # --- one statement --------------------------------------------------------------------------

    def _execute(self, statement: Statement, text: str) -> TableResult:
        if self._objects.is_of_spark(statement):
            if isinstance(statement, Insert) and self._objects.are_in(statement.query):
                return self._insert_into_spark(statement, text)
            return self._of_spark(text.strip(), text)
        match statement:
            case sql.Query():
                return TableResult(frame=self.sql_query(text))
            case Insert() | ChangeRows():
                return self._insert((statement,), text)
            case sql.StatementSet():
                return self._insert(statement.inserts, text)
            case sql.Explain():
                return TableResult(
                    columns=("plan",), rows=((self._explained(statement.statement, text),),)
                )
            case sql.CreateTable():
                return self._create_table(statement, text)
            case sql.CreateFunction(is_temporary=True):
                create_function(self._spark, statement)
                return DONE
            case sql.CreateFunction() | sql.AlterFunction():
                define_function(self._catalog, statement)
                return DONE
            case sql.Show(kind="FUNCTIONS" | "USER FUNCTIONS"):
                functions = function_names(self._spark, self._catalog, statement)
                return TableResult(columns=("function",), rows=[(each,) for each in functions])
            case sql.SetOption() | sql.Reset():
                return self._set(statement)
            case sql.Show(kind="JOBS"):
                return TableResult(columns=_JOB_COLUMNS, rows=self._jobs.rows())
            case sql.DescribeJob():
                rows = self._jobs.described(statement.job)
                return TableResult(columns=("name", "value"), rows=rows)
            case sql.StopJob():
                self._jobs.stop(statement.job)
                return DONE
            case sql.SparkStatement(creates=tuple(name)) if self._catalog.is_in_system(name):
                return self._create_table(parse_create_table(statement.text), text)
            case sql.SparkStatement():
                return self._of_spark(statement.text, text)
            case _:
                return define(self._catalog, statement, self._fields_of_table)

    def _of_spark(self, statement: str, text: str) -> TableResult:
        try:
            with sql_errors(Edits(statement)):
                return TableResult(frame=self._spark.sql(statement))
        except SqlError as error:
            raise error.within(text, statement) from error.__cause__

    def _rows_of(self, name: Name) -> DataFrame:
        path = ".".join(map(quoted, name))
        return self.sql_query(f"SELECT * FROM {path}")  # noqa: S608

    def _create_table(self, statement: sql.CreateTable, text: str = "") -> TableResult:
        table = statement.table
        if statement.if_not_exists and self._catalog.exists(statement.name):
            return DONE
        if statement.like is not None:
            like = self._catalog.find(statement.like)
            if like is None and not table.options:
                return self._of_spark(text.strip(), text)
            like = like or self._catalog.get(statement.like)
            if isinstance(like, CatalogView):
                raise UnsupportedError(f"{'.'.join(statement.like)} is a view, not a table")
            table = CatalogTable(
                schema=table.schema if table.schema.columns else like.schema,
                options={**(like.options if statement.like_options else {}), **table.options},
                partition_keys=table.partition_keys or like.partition_keys,
                comment=table.comment or like.comment,
            )
        name = str(self._catalog.full_name(statement.name))
        complete = self._catalog.completed(statement.name, table)
        validate_table(name, complete)
        if statement.query is None:
            self._catalog.put(statement.name, table, if_not_exists=statement.if_not_exists)
            return DONE
        table = replace(table, schema=self._schema_of(statement.query, text))
        if not self._catalog.put(statement.name, table, if_not_exists=statement.if_not_exists):
            return DONE
        try:
            insert = Insert(target=statement.name, query=statement.query)
            return self._insert((insert,), text, shown=f"CREATE TABLE {name} AS {insert.query}")
        except BaseException as error:
            try:
                self._catalog.drop(statement.name, view=False)
            except CatalogError as refused:
                error.add_note(f"the table {name} stays: {refused.message}")
            raise

    def _fields_of_table(self, name: Name) -> list[StructField]:
        path = ".".join(map(quoted, name))
        return self._fields_of(f"SELECT * FROM {path}", "")  # noqa: S608

    def _fields_of(self, query: str, text: str) -> list[StructField]:
        tables = ScannedTables(self._catalog)
        with self._planner("schema", text, tables, streaming=True) as planner:
            return planner.frame(query).schema.fields

    def _schema_of(self, query: str, text: str) -> TableSchema:
        fields = self._fields_of(query, text)
        check_writable(StructType(fields))
        return TableSchema(
            tuple(
                PhysicalColumn(each.name, arrow_type(each.dataType))
                for each in fields
                if each.name != ROW_KIND_COLUMN
            )
        )

    def _set(self, statement: sql.SetOption | sql.Reset) -> TableResult:
        match statement:
            case sql.SetOption(key=None):
                return TableResult(columns=("key", "value"), rows=sorted(self._options.items()))
            case sql.SetOption(key=str(key), value=str(value)):
                SessionOptions.from_options({**self._options, key: value})
                self._options[key] = value
            case sql.SetOption(key=str(key)):
                return TableResult(
                    columns=("key", "value"), rows=((key, self._options.get(key, "")),)
                )
            case sql.Reset(key=None):
                self._options.clear()
            case sql.Reset(key=str(key)):
                SessionOptions.OPTIONS.refuse_unknown([key])
                self._options.pop(key, None)
        return DONE

    # --- queries and INSERTs --------------------------------------------------------------------

    @property
    def _session(self) -> SessionOptions:
        return SessionOptions.from_options(self._options)

    def _insert(
        self, inserts: Sequence[Insert | ChangeRows], text: str, *, shown: str | None = None
    ) -> TableResult:
        session, name = self._session, self._name_of(inserts)
        is_named = session.pipeline_name is not None
        self._jobs.refuse_running(name, option="pipeline.name" if is_named else None)
        tables = ScannedTables(self._catalog)
        endless = [name for each in inserts for name in tables.endless(each.query)]
        mode = session.runtime_mode
        if mode is RuntimeMode.BATCH and endless:
            raise no_end(endless[0])
        if endless or mode is RuntimeMode.STREAMING:
            reason = f"{endless[0]}, which has no end" if endless else "streaming mode"
            refuse_streams(inserts, self._catalog, reason)
        pipeline = self._planned(inserts, text, tables, streaming=mode is RuntimeMode.STREAMING)
        with self._jobs.starting(name, shown or text.strip(), pipeline):
            if endless and not session.available_now:
                pipeline.start()
            else:
                pipeline.run(
                    available_now=session.available_now and bool(endless), drain=session.drain
                )
        return TableResult(
            columns=tuple(".".join(each.target) for each in inserts), pipeline=pipeline
        )

    def _insert_into_spark(self, insert: Insert, text: str) -> TableResult:
        tables = ScannedTables(self._catalog)
        refuse_stream(insert, tables.endless(insert.query), self._session.runtime_mode)
        with self._planner("query", text, tables) as planner:
            insert_rows(insert, planner)
        return DONE

    def _planned(
        self,
        writes: Sequence[Insert | ChangeRows],
        text: str,
        tables: ScannedTables,
        *,
        streaming: bool,
    ) -> Pipeline:
        pipeline = self._pipeline(self._name_of(writes), streaming=streaming or None)
        changes = any(isinstance(each, ChangeRows) for each in writes)
        with QueryPlanner(
            self._spark, self._catalog, pipeline, tables, text, only_current=changes
        ) as planner:
            plan_writes(planner, writes)
        return pipeline

    def _planner(
        self, kind: str, text: str, tables: ScannedTables, *, streaming: bool | None = None
    ) -> QueryPlanner:
        """Return the planner of a query that no statement runs again.

        Args:
            kind: Its purpose.
            text: The statement with the query.
            tables: The tables that it reads.
            streaming: Whether tables with an end are read as streams too.
        """
        pipeline = self._pipeline(f"{kind}-{uuid.uuid4().hex}", streaming=streaming)
        return QueryPlanner(self._spark, self._catalog, pipeline, tables, text)

    def _pipeline(self, name: str, *, streaming: bool | None) -> Pipeline:
        session, folder = self._session, shortened(_UNSAFE.sub("-", name.lower()))
        return Pipeline(
            self._spark,
            name,
            checkpoint_location=f"{self._checkpoint}/{folder}",
            state_location=None if self._state is None else f"{self._state}/{folder}",
            storage_options=self._storage_options,
            streaming=streaming,
            parallelism=session.parallelism,
            batch_tasks=session.batch_tasks,
            resume_batch_runs=session.resume_batch_runs,
            trigger_interval=session.trigger_interval,
            connection_timeout=session.connection_timeout,
            listeners=self._listeners,
        )

    def _name_of(self, writes: Sequence[Insert | ChangeRows]) -> str:
        """Return the name in the session, or one of the statements without their format."""
        if self._session.pipeline_name is not None:
            return self._session.pipeline_name
        tables = [str(self._catalog.full_name(each.target)) for each in writes]
        here = (self._catalog.current_catalog, self._catalog.current_database)
        meaning = [
            (
                each.columns if isinstance(each, Insert) else each.assigned,
                sorted(each.partition.items()) if isinstance(each, Insert) else [],
                _without_format(each.query),
            )
            for each in writes
        ]
        digest = hashlib.sha256(repr((tables, here, meaning)).encode()).hexdigest()[:10]
        verb = statement_name(writes[0]).lower().replace(" ", "-")
        return f"{verb}-{'-'.join(tables)}-{digest}"

    def _explained(self, statement: Statement, text: str) -> str:
        tables = ScannedTables(self._catalog)
        match statement:
            case sql.Query():
                tables.refuse_endless(statement.text)
                with self._planner("explain", text, tables) as planner:
                    planner.frame(statement.text)  # names what Spark finds wrong
                    query = planner.rewritten(statement.text)
                    return str(self._spark.sql(f"EXPLAIN {query}").collect()[0][0])
            case Insert() if self._objects.is_of_spark(statement):
                tables.refuse_endless(statement.query)
                with self._planner("explain", text, tables) as planner:
                    return explained(statement, planner)
            case Insert() | ChangeRows():
                return self._planned((statement,), text, tables, streaming=False).explain()
            case sql.StatementSet():
                return self._planned(statement.inserts, text, tables, streaming=False).explain()
            case _:
                raise ConfigurationError("only a query or an INSERT can be explained")


def _name(text: str) -> Name:
    """Return the parts of a name, of which each can be in backticks."""
    reader = WordReader(text, words_of(text))
    found = reader.name()
    reader.end()
    return found


def _without_format(query: str) -> list[tuple[str, str]]:
    """Return the words of a query, without spaces, comments, and the case of plain words."""
    return [
        (each.kind.value, each.value.lower() if each.kind is Kind.WORD else each.value)
        for each in words_of(query)
    ]
