# SPDX-License-Identifier: Apache-2.0
"""Tests that Spark tasks commit thousands of committables, even if one of them is killed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest
from pipeline_support import new_pipeline, travel_with_closures

from connectors_core.sink import (
    ColumnRouter,
    CommitRequest,
    Committer,
    CommitterInitContext,
    CommittingSinkWriter,
    DemultiplexingSink,
    Sink,
    SupportsCommitTasks,
    WriterInitContext,
)
from connectors_core.source import NumberSequenceSource
from connectors_core.testing.directory_sink import DirectorySink, StagedFile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

travel_with_closures(__name__)

COMMITTABLES = 3000


class FilePerNumber(DirectorySink, SupportsCommitTasks[StagedFile]):
    """Writes each number as a file of its own, and lets tasks move the files."""

    def create_writer(self, context: WriterInitContext) -> CommittingSinkWriter[StagedFile]:
        folder = self.path / "_staging" / context.sink_uid / f"{context.checkpoint_id:010d}"
        folder.mkdir(parents=True, exist_ok=True)
        return NumberWriter(folder, context)

    def create_task_committer(self, context: CommitterInitContext) -> Committer[StagedFile]:
        return KilledOnce(self)


class NumberWriter(CommittingSinkWriter[StagedFile]):
    def __init__(self, folder: Path, context: WriterInitContext) -> None:
        self.folder, self.context = folder, context
        self.files: list[StagedFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        for number in batch["value"].to_pylist():
            staged = self.folder / f"{self.context.attempt_name}-{number}"
            staged.touch()
            self.files.append(StagedFile(str(staged), str(number)))

    def flush(self) -> None:
        pass

    def prepare_commit(self) -> list[StagedFile]:
        return self.files

    def close(self) -> None:
        pass


class KilledOnce(Committer[StagedFile]):
    """Ends its process once, after half of its share."""

    def __init__(self, sink: FilePerNumber) -> None:
        self.path = sink.path

    def commit(self, requests: Sequence[CommitRequest[StagedFile]]) -> None:
        (self.path / f"_task-{os.getpid()}").touch()
        for number, request in enumerate(requests):
            final = self.path / request.committable.name
            if final.exists():
                request.signal_already_committed()
            else:
                Path(request.committable.staged).rename(final)
            if number == len(requests) // 2:
                self.die_once()

    def die_once(self) -> None:
        try:
            (self.path.parent / "_killed").touch(exist_ok=False)
        except FileExistsError:
            return
        os._exit(1)


def of_last_digit(root: Path, digit: str) -> FilePerNumber:
    return FilePerNumber(root / digit)


class LastDigits(ColumnRouter):
    """Routes numbers by their last digit."""

    def routes(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.utf8_slice_codeunits(super().routes(batch), -1)


@pytest.mark.parametrize(("streaming", "by_digit"), [(True, False), (False, False), (True, True)])
def test_tasks_commit_thousands_of_files_though_one_is_killed(
    spark: SparkSession, tmp_path: Path, streaming: bool, by_digit: bool
) -> None:
    out = tmp_path / "out"
    sink: Sink = FilePerNumber(out)
    folders = [out]
    if by_digit:
        sink = DemultiplexingSink(LastDigits("value", partial(of_last_digit, out)))
        folders = [out / f"{digit}" for digit in range(10)]
    for folder in folders:
        folder.mkdir(parents=True)
    with new_pipeline(spark, tmp_path, streaming=streaming) as pipeline:
        source = NumberSequenceSource(0, COMMITTABLES - 1, split_rows=COMMITTABLES // 4)
        rows = pipeline.from_source(source, uid="numbers")
        pipeline.sink_to(rows, sink, uid="out")
        pipeline.run()
        (status,) = pipeline.status().sinks
    paths = [path for folder in folders for path in folder.iterdir()]
    names = [path.name for path in paths if not path.name.startswith("_")]
    assert sorted(names, key=int) == [f"{number}" for number in range(COMMITTABLES)]
    assert (folders[0].parent / "_killed").exists()
    # The driver commits nothing itself.
    assert not any(path.name == f"_task-{os.getpid()}" for path in paths)
    assert status.counters["commitTasks"] >= 2
    again = status.counters["alreadyCommittedCommittables"]
    assert 0 < again < COMMITTABLES
    assert again + status.counters["successfulCommittables"] == COMMITTABLES
    assert not list(out.glob("**/_staging/*/*/*"))
