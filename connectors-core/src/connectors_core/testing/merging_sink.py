# SPDX-License-Identifier: Apache-2.0
"""Exactly-once sinks with topologies, for tests of the runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors_core.sink import (
    CommittableMessage,
    SupportsPostCommitTopology,
    SupportsPreCommitTopology,
    SupportsPreWriteTopology,
    committables_of,
)
from connectors_core.testing.directory_sink import DirectorySink, StagedFile, read_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INDEX = "_index"


class MergingDirectorySink(
    DirectorySink, SupportsPreCommitTopology[StagedFile], SupportsPostCommitTopology[StagedFile]
):
    """A `DirectorySink` that merges the files of an epoch and lists committed files in an index."""

    def add_pre_commit_topology(
        self, messages: Iterable[CommittableMessage[StagedFile]]
    ) -> Sequence[StagedFile]:
        """Merge all rows into one file."""
        files = committables_of(messages)
        if not files:
            return []
        rows = read_files(Path(file.staged) for file in files)
        merged = Path(files[0].staged).with_suffix(".merged")  # swept together with its parts
        with pa.OSFile(str(merged), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return [StagedFile(str(merged), files[0].name)]

    def add_post_commit_topology(self, messages: Iterable[CommittableMessage[StagedFile]]) -> None:
        """Add missing names to the index."""
        names = [file.name for file in committables_of(messages)]
        self.enter(name for name in names if name not in self.index())

    def enter(self, names: Iterable[str]) -> None:
        """Append to the index."""
        with (self.path / _INDEX).open("a", encoding="utf-8") as index:
            index.writelines(f"{name}\n" for name in names)

    def assert_indexed(self, files: Sequence[StagedFile]) -> None:
        """Check that the index has each of these files exactly once.

        Raises:
            AssertionError: A file is missing, listed twice, or unexpected.
        """
        assert sorted(self.index()) == sorted(file.name for file in files)

    def index(self) -> list[str]:
        """Return the names in the index, in order."""
        index = self.path / _INDEX
        return index.read_text(encoding="utf-8").split() if index.exists() else []


class SortingDirectorySink(MergingDirectorySink, SupportsPreWriteTopology):
    """A `DirectorySink` whose two writers get the rows in order. Only for Spark."""

    def add_pre_write_topology(self, df: DataFrame) -> DataFrame:
        """Return the same rows, sorted."""
        return df.repartition(2, *df.columns).sortWithinPartitions(*df.columns)
