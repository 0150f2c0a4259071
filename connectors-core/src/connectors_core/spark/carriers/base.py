# SPDX-License-Identifier: Apache-2.0
"""The parts shared by all carriers: the contract, schemas, and the sources of a DataFrame.

A carrier passes the entries of plans to Structured Streaming, so that Spark's own offset log
records which plan belongs to which micro-batch. Its offset is the plan number: plans are numbered
from 0, and -1 stands for the position before the first one.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from connectors_core.engine.coordinator.identity import spark_stream
from connectors_core.engine.execution.joined_batches import joined
from connectors_core.errors import FatalError, StateCorruptedError, UnsupportedError
from connectors_core.spark.error_notes import add_notes
from connectors_core.spark.internals.arrow_types import arrow_type, spark_type
from connectors_core.spark.internals.plans import PlanNode, analyzed_plan
from connectors_core.spark.warm_workers import keep_warm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

BEFORE_FIRST: Final = -1
"""The offset before the first plan."""

ALIAS_PREFIX: Final = "connectors_source__"

# Leaves that return the same rows whenever Spark reads them.
_CONSTANT: Final = frozenset({"LocalRelation", "OneRowRelation", "Range", "CTERelationRef"})

ReadEntry = Callable[[str], Iterator[pa.RecordBatch]]
"""Runs one entry on an executor. Called exactly once per entry and attempt of a task."""


ENTRIES: Final = pa.schema([("entry", pa.string())])
"""Schema of a DataFrame of entries."""


def hand_on(entry: str) -> Iterator[pa.RecordBatch]:
    """Return an entry as a row, for a later stage to read."""
    yield pa.RecordBatch.from_arrays([pa.array([entry])], schema=ENTRIES)


class PlanFeed(Protocol):
    """The plans of one source in the state location.

    Other processes receive it through cloudpickle. It holds no state, and callers may repeat each
    call: every result follows from files that are created once and never changed.
    """

    def initial(self) -> int:
        """Return the plan before the first plan of a new Spark checkpoint, normally -1."""
        ...

    def newest_after(self, plan: int) -> int:
        """Return `plan + 1` if that plan exists, else `plan`."""
        ...

    def entries(self, plan: int) -> Sequence[str]:
        """Return the entries of an existing plan; raise an error if it cannot be read."""
        ...


@dataclass(frozen=True)
class Resume:
    """The position from which Spark will resume one source.

    Attributes:
        start: The plan before the first plan that Spark will request.
        end: The newest plan in Spark's offset log. Spark runs the plans `start + 1` to `end` again,
            or none if both are equal.
    """

    start: int = BEFORE_FIRST
    end: int = BEFORE_FIRST


class Carrier(ABC):
    """Passes the entries of one source to one streaming query; runs on the driver.

    The order of calls is: construct, `dataframe`, and for every start of the query `restore`, then
    `feed` for each new plan, then `stop` after the end of the query.

    Args:
        spark: A classic session.
        pipeline_id: Identifier of the pipeline.
        uid: Identifier of the source within the pipeline.
        schema: Arrow schema of the batches; see `spark_schema` for the supported types.
        read_entry: Runs one entry on an executor; picklable by cloudpickle.
        plans: The plans of this source.
        max_entries: Number of entries up to which each entry gets its own task.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        pipeline_id: str,
        uid: str,
        schema: pa.Schema,
        read_entry: ReadEntry,
        plans: PlanFeed,
        max_entries: int,
    ) -> None:
        if max_entries < 1:
            raise ValueError(f"max_entries must be at least 1, not {max_entries}")
        self.uid: Final = uid
        self._spark = spark
        self._pipeline_id = pipeline_id
        self._plans = plans
        self._open(max_entries)
        self._dataframe = self._read_by(read_entry, schema, uid).alias(ALIAS_PREFIX + uid)

    def _open(self, max_entries: int) -> None:
        """Prepare a stream of entries."""

    @abstractmethod
    def _read(self, row_type: StructType, read_entry: ReadEntry, name: str) -> DataFrame: ...

    def _read_by(self, read_entry: ReadEntry, schema: pa.Schema, name: str) -> DataFrame:
        return self._read(spark_schema(schema), checked(read_entry, self.uid, schema), name)

    @abstractmethod
    def _open_entries(self) -> DataFrame: ...

    @abstractmethod
    def _prime(self, start: int, newest: int) -> None:
        """Prepare exactly the plans `start + 1` to `newest` for Spark."""

    def dataframe(self) -> DataFrame:
        """Return the streaming DataFrame; `sources_of` finds the source in derived DataFrames."""
        return self._dataframe

    def read_by(self, read_entry: ReadEntry, schema: pa.Schema) -> DataFrame:
        """Return a streaming DataFrame that reads the same entries in another way.

        Args:
            read_entry: Runs one entry on an executor; picklable by cloudpickle.
            schema: Arrow schema of its batches.
        """
        return self._read_by(read_entry, schema, f"{self.uid} narrowed")

    def entries(self) -> DataFrame:
        """Return a streaming DataFrame of the entries that `dataframe` reads, one string column."""
        return self._open_entries().alias(ALIAS_PREFIX + self.uid)

    def restore(self, resume: Resume, newest: int) -> None:
        """Prepare for a start of the query.

        Call it before every start, including the first. Afterward all plans that Spark will run
        again are available. Otherwise this raises an error, because Spark would silently commit a
        micro-batch without rows.

        Args:
            resume: The position from which Spark will resume, from `SparkLog.resume`.
            newest: The newest plan that exists.

        Raises:
            StateCorruptedError: A plan that Spark's offset log names is missing.
        """
        if not self._plans.initial() <= resume.start <= resume.end:
            raise StateCorruptedError(
                f"Spark's offset log goes backward for source {self.uid!r}",
                expected=f"offsets in ascending order from {self._plans.initial()}",
                found=f"{resume.start} followed by {resume.end}",
            )
        if newest < resume.end:
            raise StateCorruptedError(
                f"Spark must run plan {resume.end} of source {self.uid!r} again, but the plan is "
                "missing",
                expected=f"plans {resume.start + 1} to {resume.end}",
                found=f"the newest plan is {newest}",
            )
        self._prime(resume.start, newest)

    @abstractmethod
    def feed(self, plan: int, entries: Sequence[str]) -> None:
        """Pass a new, durable plan to Spark.

        Args:
            plan: Its number: that of the last fed or restored plan plus one.
            entries: Its entries for this source, possibly none.
        """

    def stop(self) -> None:
        """Release the plans after the end of the query; `restore` reopens the carrier."""


# --- Schemas and batches --------------------------------------------------------------------------


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to the schema of a DataFrame.

    Batches pass to the JVM unchanged. A type that Spark would store as another Arrow type is
    therefore not supported: 64-bit offsets, dictionaries, timestamps that are not in microseconds,
    and time zones other than UTC.

    Args:
        schema: The schema of the batches.

    Raises:
        UnsupportedError: A column has a type that Spark does not accept unchanged.
    """
    from pyspark.sql.types import StructField, StructType

    fields = []
    for field in schema:
        try:
            row_type = spark_type(field.type)
            wire = arrow_type(row_type)
        except Exception as error:
            raise _type_error(field, "a type that Spark supports") from error
        if not _nullable(wire).equals(_nullable(field.type)):
            raise _type_error(field, str(wire))
        fields.append(StructField(field.name, row_type, field.nullable))
    return StructType(fields)


def _type_error(field: pa.Field, expected: str) -> UnsupportedError:
    return UnsupportedError(
        f"column {field.name!r} has an Arrow type that Spark does not accept",
        expected=expected,
        found=str(field.type),
        hint="let the source cast the column",
    )


def _nullable(kind: pa.DataType) -> pa.DataType:
    """Return a type with all nested fields nullable, since Spark 3.5 drops nested nullability."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _nullable(field.type)) for field in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_nullable(kind.value_type))
    return kind


def checked(read_entry: ReadEntry, uid: str, schema: pa.Schema) -> ReadEntry:
    """Wrap `read_entry` to check its batches, join small ones, and annotate its errors.

    A batch with another schema is an error. Spark checks at most the first batch and would
    misinterpret the memory of the others.

    Args:
        read_entry: Runs one entry.
        uid: The source, for the message.
        schema: The schema of every batch; metadata is ignored.
    """

    def matching(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not batch.schema.equals(schema):
                raise FatalError(
                    f"source {uid!r} returned a batch that does not match the declared schema",
                    expected=str(schema),
                    found=str(batch.schema),
                    hint="this is a bug in the connector: report it",
                )
            yield batch

    def read(entry: str) -> Iterator[pa.RecordBatch]:
        keep_warm()
        try:
            yield from joined(matching(read_entry(entry)))
        except Exception as error:
            add_notes(error, f"while reading source {uid!r}")
            raise

    return read


# --- Sources of a DataFrame -----------------------------------------------------------------------


def streams_of(df: DataFrame) -> list[str]:
    """Return the streams of a DataFrame in the order of Spark's offset log.

    Args:
        df: Any DataFrame.

    Returns:
        For each line of the offset log, the uid of a source or the mark of a stream that Spark
        reads itself. A stream that several branches read appears several times. Empty for a
        DataFrame that is not streaming.
    """
    return [uid or spark_stream(leaf.stream_kind) for uid, leaf in _stream_leaves(df)]


def stream_keys_of(df: DataFrame) -> set[str]:
    """Return a key for each stream, which is the same in all DataFrames that read this stream."""
    return {
        uid or spark_stream(f"{leaf.stream_kind}#{leaf.first_column_id}")
        for uid, leaf in _stream_leaves(df)
    }


def _stream_leaves(df: DataFrame) -> list[tuple[str | None, PlanNode]]:
    """Return uid and leaf of each line of Spark's offset log; no uid for a stream of Spark."""
    leaves: list[tuple[str | None, PlanNode]] = []

    def walk(node: PlanNode, uid: str | None) -> None:
        if not node.is_streaming:
            return
        uid = source_below(node) or uid
        children = node.children
        if not children and node.name.startswith("Streaming"):
            leaves.append((uid, node))
        for child in children:
            walk(child, uid)

    walk(analyzed_plan(df), None)
    return leaves


def spark_inputs_of(df: DataFrame) -> tuple[str, ...]:
    """Return the kinds of inputs that Spark reads itself, without rows that are in the plan.

    Args:
        df: Any DataFrame.
    """
    return tuple(dict.fromkeys(leaf.input_kind for leaf in spark_leaves(df)))


def spark_files_of(dfs: Iterable[DataFrame]) -> str | None:
    """Return a digest of the files that Spark reads itself.

    Args:
        dfs: Any DataFrames.

    Returns:
        None if Spark also reads anything else.
    """
    digest = hashlib.sha256()
    for df in dfs:
        for leaf in spark_leaves(df):
            files = leaf.input_files
            if files is None:
                return None
            digest.update(files.encode())
    return digest.hexdigest()


def spark_leaves(df: DataFrame) -> list[PlanNode]:
    """Return the leaves of a DataFrame's analyzed plan that Spark reads itself.

    Args:
        df: Any DataFrame.
    """
    leaves: list[PlanNode] = []

    def walk(node: PlanNode) -> None:
        if source_below(node) is not None:
            return
        children = [*node.children, *node.subqueries]
        if not children and node.name not in _CONSTANT:
            leaves.append(node)
        for child in children:
            walk(child)

    walk(analyzed_plan(df))
    return leaves


def source_below(node: PlanNode) -> str | None:
    """Return the uid of the source whose DataFrame this node is; None for any other node."""
    alias = node.alias()
    if alias is None or not alias.startswith(ALIAS_PREFIX):
        return None
    return alias.removeprefix(ALIAS_PREFIX)


def watermark_delays(df: DataFrame) -> list[str]:
    """Return the delays of all `withWatermark` in a streaming DataFrame, such as "10 seconds"."""
    delays: list[str] = []

    def walk(node: PlanNode) -> None:
        delay = node.watermark_delay()
        if delay is not None:
            delays.append(delay)
        for child in node.children:
            walk(child)

    walk(analyzed_plan(df))
    return delays
