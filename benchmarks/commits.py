# SPDX-License-Identifier: Apache-2.0
"""The time to commit an epoch of many committables, in Spark tasks and on the driver."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.comparison import OURS, Result, compared
from connectors_core import Pipeline
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.sink import (
    CommitRequest,
    CommittableMessage,
    CommitTasks,
    Committer,
    CommitterInitContext,
    CommittingSinkWriter,
    SupportsCommitTasks,
    SupportsPostCommitTopology,
    SupportsPreCommitTopology,
    TwoPhaseCommittingSink,
    WriterInitContext,
    committables_of,
)
from connectors_core.source import NumberSequenceSource

SIZES = (1000, 5000)
REQUEST_SECONDS = 0.002
_NEVER = 1 << 30


def measure(spark: SparkSession, runs: int, root: Path) -> Iterator[Result]:
    """Return the comparisons.

    Args:
        spark: The Spark session.
        runs: Measured runs of each side.
        root: A folder for staged and committed files.
    """
    for seconds, what in ((0.0, "renames"), (REQUEST_SECONDS, "renames that wait for 2 ms each")):
        for size in SIZES:
            yield from compared(
                f"commit {size:,} {what} (ms)",
                runs,
                {
                    OURS: lambda size=size, seconds=seconds: _committing(
                        spark, root, size, RenamingSink(root, seconds, threshold=1)
                    ),
                    "on the driver": lambda size=size, seconds=seconds: _committing(
                        spark, root, size, RenamingSink(root, seconds, threshold=_NEVER)
                    ),
                },
            )


def _committing(spark: SparkSession, root: Path, size: int, sink: RenamingSink) -> float:
    """Return the milliseconds from the last writer to the last commit of a run of one epoch."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    with (
        tempfile.TemporaryDirectory() as state,
        Pipeline(spark, "c", checkpoint_location=f"{state}/c", streaming=False) as pipeline,
    ):
        rows = pipeline.from_source(NumberSequenceSource(0, size - 1), uid="numbers")
        pipeline.sink_to(rows, sink, uid="out")
        pipeline.run()
    assert sum(1 for each in root.iterdir() if each.suffix == ".done") == size
    began, ended = _TIMES.pop("began"), _TIMES.pop("ended")
    return 1000 * (ended - began)


_TIMES: dict[str, float] = {}
"""When the topologies of the driver ran: before the decision, and after the commits."""


@dataclass(frozen=True)
class Staged:
    """A staged file."""

    name: str


@dataclass(frozen=True)
class RenamingSink(
    TwoPhaseCommittingSink[Staged],
    SupportsCommitTasks[Staged],
    SupportsPreCommitTopology[Staged],
    SupportsPostCommitTopology[Staged],
):
    """Writes each number as an empty file, which its commit renames.

    Args:
        root: The folder.
        seconds: How long each commit waits, as for an answer of a server.
        threshold: The number of committables from which tasks commit.
    """

    root: Path
    seconds: float
    threshold: int

    def create_writer(self, context: WriterInitContext) -> NumberWriter:
        """Create a writer. Executor."""
        return NumberWriter(self.root)

    def create_committer(self, context: CommitterInitContext) -> RenamingCommitter:
        """Create the committer. Driver."""
        return RenamingCommitter(self.root, self.seconds)

    def commit_tasks(self) -> CommitTasks:
        """Return the threshold."""
        return CommitTasks(threshold=self.threshold)

    def create_task_committer(self, context: CommitterInitContext) -> RenamingCommitter:
        """Create the committer of a task. Executor."""
        return RenamingCommitter(self.root, self.seconds)

    def committable_serializer(self) -> JsonDataclassSerializer[Staged]:
        """Return JSON."""
        return JsonDataclassSerializer(Staged)

    def add_pre_commit_topology(
        self, messages: Iterable[CommittableMessage[Staged]]
    ) -> Sequence[Staged]:
        """Note the time, and return the same committables. Driver."""
        committables = committables_of(messages)
        _TIMES["began"] = time.monotonic()
        return committables

    def add_post_commit_topology(self, messages: Iterable[CommittableMessage[Staged]]) -> None:
        """Note the time. Driver."""
        _TIMES["ended"] = time.monotonic()


class NumberWriter(CommittingSinkWriter[Staged]):
    """Stages a file for each number."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._staged: list[Staged] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Create the files."""
        for number in batch["value"].to_pylist():
            (self._root / f"{number}").touch()
            self._staged.append(Staged(f"{number}"))

    def flush(self) -> None:
        """Do nothing."""

    def prepare_commit(self) -> Sequence[Staged]:
        """Return the files."""
        return self._staged

    def close(self) -> None:
        """Do nothing."""


class RenamingCommitter(Committer[Staged]):
    """Renames the files, one after another."""

    def __init__(self, root: Path, seconds: float) -> None:
        self._root, self._seconds = root, seconds

    def commit(self, requests: Sequence[CommitRequest[Staged]]) -> None:
        """Rename the files."""
        for request in requests:
            staged = self._root / request.committable.name
            staged.rename(staged.with_suffix(".done"))
            if self._seconds:
                time.sleep(self._seconds)
