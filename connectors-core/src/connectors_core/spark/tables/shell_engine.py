# SPDX-License-Identifier: Apache-2.0
"""The part of `connectors sql` that needs Spark: a session, an environment, and rows as text."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import orjson
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, NumericType, StructField

from connectors_core.engine.query.status import PipelineStatus
from connectors_core.errors import ConnectorError
from connectors_core.spark.failures import translated
from connectors_core.spark.internals.sessions import is_error_of_spark
from connectors_core.spark.tables.catalog_statements import DONE
from connectors_core.spark.tables.environment import TableEnvironment
from connectors_core.spark.tables.results import TableResult

__all__ = ["ShellEngine", "TextResult"]


class ShellEngine:
    """Runs the statements of a shell. All calls except `cancel` and `jobs` come from one thread.

    Args:
        spark: The session.
        tables: The environment.
        owns_session: Whether the end of the engine ends the session.
    """

    def __init__(
        self, spark: SparkSession, tables: TableEnvironment, *, owns_session: bool
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._owns_session = owns_session
        self._statement: _Statement | None = None

    @classmethod
    def open(cls, spark_conf: Mapping[str, str], **environment: Any) -> Self:
        """Start Spark, and create an environment.

        Args:
            spark_conf: Spark's own options.
            **environment: The arguments of `TableEnvironment`.
        """
        _silence_loggers()
        defaults = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
        builder = SparkSession.builder.appName("connectors sql")
        for key, value in {**defaults, **spark_conf}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        tables = TableEnvironment(spark, **environment)
        return cls(spark, tables, owns_session=True)

    def execute(self, text: str) -> TextResult:
        """Run one statement. An INSERT into tables that end runs to its end.

        Raises:
            ConnectorError: It failed.
        """
        statement = self._statement = _Statement(self._running())
        self._spark.sparkContext.setJobGroup(
            statement.group, "connectors sql", interruptOnCancel=True
        )
        with _short_errors():
            result = self._tables.execute_sql(text)
            if statement.is_canceled and result.pipeline is not None:
                result.pipeline.stop()  # it may have started after the call of `cancel`
            return TextResult(result)

    def cancel(self) -> None:
        """Cancel the statement that runs: its queries, and the jobs that it has started."""
        statement = self._statement
        if statement is None:
            return
        statement.is_canceled = True
        for name in self._running() - statement.running_before:
            self._tables.jobs[name].pipeline.stop()
        self._spark.sparkContext.cancelJobGroup(statement.group)

    def jobs(self) -> Mapping[str, PipelineStatus]:
        """Return the jobs that this engine has started, by name. From any thread."""
        return {name: job.pipeline.status() for name, job in self._tables.jobs.items()}

    def close(self) -> None:
        """Stop all jobs after their micro-batches, and Spark."""
        try:
            self._tables.close()
        finally:
            if self._owns_session:
                self._spark.stop()

    def _running(self) -> frozenset[str]:
        return frozenset(name for name, job in self._tables.jobs.items() if job.is_running)


@dataclass(eq=False)
class _Statement:
    """A statement that runs.

    Attributes:
        running_before: The jobs that it has not started.
        group: The group of its jobs of Spark.
        is_canceled: Whether it was canceled.
    """

    running_before: frozenset[str]
    group: str = field(default_factory=lambda: f"connectors-sql-{uuid.uuid4().hex}")
    is_canceled: bool = False


@dataclass(frozen=True)
class TextResult:
    """The result of a statement as text. A query runs when its rows are read.

    Attributes:
        result: The result.
    """

    result: TableResult

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns; none if the statement shows nothing."""
        if self.result.frame is not None:
            return self.result.frame.columns
        return () if self.result is DONE or self.job is not None else self.result.columns

    @property
    def numbers(self) -> frozenset[int]:
        """The places of the columns with numbers."""
        if self.result.frame is not None:
            kinds = [isinstance(f.dataType, NumericType) for f in self.result.frame.schema.fields]
        else:
            columns = zip(*self.result.rows, strict=True)
            kinds = [all(isinstance(each, int | None) for each in values) for values in columns]
        return frozenset(place for place, is_number in enumerate(kinds) if is_number)

    @property
    def job(self) -> str | None:
        """The name of the job of an INSERT."""
        return None if self.result.pipeline is None else self.result.pipeline.status().name

    def rows(self, limit: int | None = None) -> Iterator[Sequence[str | None]]:
        """Yield the rows, at most as many as the limit.

        Raises:
            ConnectorError: The query failed.
        """
        frame = self.result.frame
        if frame is None:
            yield from (tuple(map(_text, row)) for row in self.result.rows[:limit])
            return
        renamed, fields = _numbered(frame), frame.schema.fields
        texts = [_as_text(renamed[place], field) for place, field in enumerate(fields)]
        yield from _collected(renamed.select(*texts), limit)

    def json_rows(self, limit: int | None = None) -> Iterator[str]:
        """Yield the rows as JSON objects, at most as many as the limit.

        Raises:
            ConnectorError: The query failed.
        """
        frame = self.result.frame
        if frame is None:
            for row in self.result.rows[:limit]:
                yield orjson.dumps(dict(zip(self.columns, row, strict=True))).decode()
            return
        renamed = _numbered(frame)
        named = [renamed[place].alias(name) for place, name in enumerate(frame.columns)]
        text = sf.to_json(sf.struct(*named), {"ignoreNullFields": "false"})
        yield from (row[0] for row in _collected(renamed.select(text), limit))


def _silence_loggers() -> None:
    """Let only the shell tell of errors, and not pyspark with its stack traces too."""
    with suppress(ImportError):  # Spark 3.5 has no such loggers
        from pyspark.logger import PySparkLogger

        for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _short_errors() -> Iterator[None]:
    try:
        yield
    except ConnectorError:
        raise
    except Exception as error:
        if not is_error_of_spark(error):
            raise
        found = translated(error, "the statement")
        raise found from found.__cause__


def _numbered(frame: DataFrame) -> DataFrame:
    """Return the rows with unique names of columns, which those of a query need not have."""
    return frame.toDF(*(f"_{place}" for place in range(len(frame.columns))))


def _as_text(column: Column, field: StructField) -> Column:
    if isinstance(field.dataType, BinaryType):
        return sf.hex(column)
    return column.cast("string")


def _collected(frame: DataFrame, limit: int | None) -> Iterator[Any]:
    """Yield the rows of a query; all of them partition by partition, so that they fit in memory."""
    with _short_errors():
        if limit is None:
            yield from frame.toLocalIterator(prefetchPartitions=True)
        else:
            yield from frame.limit(limit).collect()


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.isoformat(" ", "seconds") if isinstance(value, datetime) else str(value)
