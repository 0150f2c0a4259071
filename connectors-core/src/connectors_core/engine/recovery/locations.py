# SPDX-License-Identifier: Apache-2.0
"""The locations of a pipeline's state: its own files and Spark's, in one location or two."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from connectors_core.engine.coordinator.completeness import verify_decided
from connectors_core.engine.coordinator.identity import (
    PipelineIdentity,
    QueryIdentity,
    read_identity,
)
from connectors_core.engine.coordinator.spark_offsets import corrupted_log, newest_offset
from connectors_core.engine.state import StateStore
from connectors_core.errors import StateLocationError

_SPARK_FILE: Final = re.compile(r"query-\d+/spark-\d+/.+")
_BATCH: Final = re.compile(r"\d+")


@dataclass(frozen=True)
class Locations:
    """The state location of a pipeline and its checkpoint location.

    A relative path identifies a file in either location. Spark's files are in
    ``query-<n>/spark-<generation>/``.

    Attributes:
        state: The location of plans, reports, and decisions.
        checkpoint: The location of Spark's checkpoints; by default the same.
    """

    state: StateStore
    checkpoint: StateStore

    def of(self, path: str) -> StateStore:
        """Return the location that holds a file."""
        return self.checkpoint if _SPARK_FILE.fullmatch(path) else self.state

    def identity(self) -> PipelineIdentity:
        """Return the recorded pipeline.

        Raises:
            StateLocationError: The location holds no pipeline.
        """
        identity = read_identity(self.state)
        if identity is None:
            raise StateLocationError(
                f"there is no pipeline at {self.state}",
                expected="the state_location of a pipeline, by default its checkpoint_location",
                hint="check the path; a pipeline writes its state there on its first start",
            )
        return identity

    def whole_identity(self) -> PipelineIdentity:
        """Return the recorded pipeline, after checking that all Spark checkpoints exist.

        Raises:
            StateLocationError: The location holds no pipeline, or a checkpoint is missing.
        """
        identity = self.identity()
        for query in identity.queries if identity.streaming else ():
            if self.spark(query).query_id() is None:
                raise StateLocationError(
                    f"Spark's checkpoint of {query.folder} is not at {self.checkpoint}",
                    expected=f"{query.spark_folder}/metadata",
                    option="checkpoint",
                    hint="pass the checkpoint location of the pipeline with --checkpoint",
                )
        return identity

    def spark(self, query: QueryIdentity) -> SparkCheckpoint:
        """Return Spark's checkpoint of a query."""
        return SparkCheckpoint(self.checkpoint, query)

    def verify_decided(self, query: QueryIdentity) -> None:
        """Check that every micro-batch that Spark has finished is decided.

        Raises:
            StateCorruptedError: A decision is missing.
        """
        log = self.spark(query)
        batch = log.last_committed
        verify_decided(
            self.state.child(query.folder),
            spark_query_id=query.spark_query_id,
            first=query.first,
            batch=batch,
            plan=log.plan_after(batch),
            stateful=log.has_state,
            spark_streams=query.reads_spark_stream,
        )


class SparkCheckpoint:
    """Spark's log files of one streaming query; `SparkLog` reads them through the JVM instead.

    Args:
        root: The checkpoint location of the pipeline.
        query: The query.
    """

    def __init__(self, root: StateStore, query: QueryIdentity) -> None:
        self._store = root.child(query.spark_folder)
        self._query = query

    @property
    def has_state(self) -> bool:
        """Whether Spark keeps state: joins, aggregations, deduplication."""
        return bool(self._store.list("state", recursive=True))

    def query_id(self) -> str | None:
        """Return Spark's id of the query; None without a checkpoint."""
        data = self._store.read_or_none("metadata")
        return None if data is None else str(json.loads(data)["id"])

    def write_query_id(self, query_id: str) -> None:
        """Create a checkpoint as Spark does."""
        self._store.create("metadata", json.dumps({"id": query_id}).encode())

    def logged(self) -> list[int]:
        """Return the micro-batches with logged offsets, in order."""
        return self._batches("offsets")

    def committed(self) -> list[int]:
        """Return the micro-batches that Spark has finished, in order."""
        return self._batches("commits")

    @property
    def last_committed(self) -> int:
        """The newest micro-batch that Spark has finished, -1 for none."""
        return max(self.committed(), default=-1)

    def plan_after(self, batch: int) -> int:
        """Return the last plan that a micro-batch reads, -1 before the first.

        Raises:
            StateCorruptedError: The log has no such batch.
        """
        if batch < 0:
            return self._query.first
        path = f"offsets/{batch}"
        data = self._store.read_or_none(path)
        where = f"{self._store}/{path}"
        if data is None:
            raise corrupted_log(where, "a micro-batch's offsets", "no such file")
        newest = newest_offset(data.decode(), self._query.sources, where)
        return self._query.first if newest is None else max(newest, self._query.first)

    def _batches(self, folder: str) -> list[int]:
        names: Sequence[str] = self._store.list(folder)
        return sorted(int(name) for name in names if _BATCH.fullmatch(name))
