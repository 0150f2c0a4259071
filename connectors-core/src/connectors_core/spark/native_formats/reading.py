# SPDX-License-Identifier: Apache-2.0
"""Reads a source through Spark's Python Data Source API, in batch and streaming.

A stream's offset is a plan: the positions of all splits, the state of the enumerator, and the reads
of one micro-batch. Spark's offset log therefore holds the whole state of the source.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql.datasource import (  # type: ignore[import-not-found, unused-ignore]
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found, unused-ignore]
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from connectors_core.engine.coordinator.enumeration import Enumeration, batch_entries
from connectors_core.engine.coordinator.offset_plans import (
    OffsetPlanner,
    decode_plan,
    encode_plan,
)
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.pushed_reader import SourceNeeds, pushed_reader
from connectors_core.engine.execution.reader_task import ReaderTask, read_whole
from connectors_core.engine.execution.writer_task import conform
from connectors_core.engine.protocol import SourcePlan, decode_entry, encode_entry
from connectors_core.engine.state import StateStore
from connectors_core.errors import StateCorruptedError
from connectors_core.source.predicates import Predicate
from connectors_core.source.split import ReadLimits
from connectors_core.spark.carriers.base import BEFORE_FIRST, checked
from connectors_core.spark.native_formats.filters import predicates_of

NO_STATE: Final = StateStore("memory://no-state")
"""Stands for a state location where nothing is stored."""


class EntryPartition(InputPartition):  # type: ignore[misc, unused-ignore]
    """An entry to read in one task."""

    def __init__(self, entry: str) -> None:
        super().__init__(None)
        self.entry = entry


@dataclass(frozen=True)
class EntryRows:
    """Reads the rows of entries in the types that Spark expects. Picklable.

    Attributes:
        settings: The source.
        source_schema: The schema of its batches.
        row_schema: The schema that Spark expects. It can lack columns of the source, which are
            then not read.
        filters: Conditions on the rows, which Spark evaluates again.
    """

    settings: SourceSettings
    source_schema: pa.Schema
    row_schema: pa.Schema
    filters: tuple[Predicate, ...] = ()

    def of(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the entry of a partition. Executor."""
        read = checked(self, self.settings.uid, self.row_schema)
        return read(cast(EntryPartition, partition).entry)

    def __call__(self, entry: str) -> Iterator[pa.RecordBatch]:
        """Read an encoded entry."""
        task = ReaderTask(
            source=self.settings.source,
            uid=self.settings.uid,
            store=NO_STATE,
            schema=self.source_schema,
            policy=self.settings.policy,
        )
        if self.filters or len(self.row_schema) < len(self.source_schema):
            fields = frozenset((name,) for name in self.row_schema.names)
            task = pushed_reader(task, SourceNeeds(fields=fields, filters=self.filters)).reader
        for batch in read_whole(task, decode_entry(entry)):
            yield conform(batch.select(self.row_schema.names), self.row_schema)


class BatchReader(DataSourceReader):  # type: ignore[misc, unused-ignore]
    """Reads the splits of a bounded source.

    It has no `pushFilters`: Spark fails every read of a source that has one while its setting
    `spark.sql.python.filterPushdown.enabled` is off, which is the default. See `FilteringReader`.
    """

    def __init__(self, rows: EntryRows) -> None:
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        """Enumerate the splits, and distribute them to tasks."""
        settings = self._rows.settings
        with contextlib.closing(Enumeration(settings)) as enumeration:
            entries = batch_entries(
                settings,
                enumeration.splits,
                pipeline_id=settings.uid,
                run_id="read",
                events=enumeration.events,
            )
        return [EntryPartition(encode_entry(entry)) for entry in entries]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the entry of one task. Executor."""
        return self._rows.of(partition)


class FilteringReader(BatchReader):
    """Reads the splits of a bounded source, without rows that Spark's filters exclude."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        """Take over filters; Spark evaluates all of them again."""
        predicates = predicates_of(filters, self._rows.row_schema)
        self._rows = dataclasses.replace(self._rows, filters=predicates)
        return filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc, unused-ignore]
    """Plans the micro-batches of a source; lives in one process for the whole query."""

    def __init__(self, rows: EntryRows) -> None:
        self._rows = rows
        self._available_now = False
        self._planner: OffsetPlanner | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset before the first plan."""
        return {"source": self._rows.settings.uid, "plan": BEFORE_FIRST}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a micro-batch, for Spark's information."""
        limits = self._rows.settings.limits
        if limits.rows is not None:
            return ReadMaxRows(limits.rows)
        if limits.splits is not None:
            return ReadMaxFiles(limits.splits)
        if limits.bytes is not None:
            return ReadMaxBytes(limits.bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End with the data that is available at the first plan."""
        self._available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the next plan, or the start if there is nothing to read."""
        planner = self._planner
        if planner is None:
            settings = self._rows.settings
            if isinstance(limit, ReadAllAvailable):
                settings = dataclasses.replace(settings, limits=ReadLimits())
            planner = self._planner = OffsetPlanner(
                settings, pipeline_id=settings.uid, available_now=self._available_now
            )
        plan = planner.plan_after(self._plan_of(start))
        if plan is None:
            return start
        return {
            "source": self._rows.settings.uid,
            "plan": plan.number,
            "state": encode_plan(plan),
        }

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the progress of the source, for the status of the query."""
        if self._planner is None:
            return None
        uid = self._rows.settings.uid
        return {"source": uid, "unfinished_splits": self._planner.unfinished_splits()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the entries of a plan, which follow from the offset alone."""
        if start["plan"] == end["plan"]:
            return []
        plan = self._plan_of(end)
        if plan is None or start["plan"] != plan.number - 1:
            raise StateCorruptedError(
                "Spark asks for several plans in one micro-batch",
                expected=f"the plan after {start['plan']}",
                found=end["plan"],
                hint="restore Spark's checkpoint as a whole",
            )
        return [EntryPartition(encode_entry(entry)) for entry in plan.entries]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the entry of one task. Executor."""
        return self._rows.of(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Notify the enumerator that Spark has committed a plan."""
        if self._planner is not None and end["plan"] != BEFORE_FIRST:
            self._planner.committed(end["plan"])

    def stop(self) -> None:
        """Close the enumerator."""
        if self._planner is not None:
            self._planner.close()

    def _plan_of(self, offset: dict[str, Any]) -> SourcePlan | None:
        uid = self._rows.settings.uid
        if offset.get("source") != uid:
            raise StateCorruptedError(
                "Spark's offset log gives this source the offset of another source",
                expected=uid,
                found=offset.get("source"),
                hint="keep the original order of the sources in the query",
            )
        return None if offset["plan"] == BEFORE_FIRST else decode_plan(offset["state"])
