# SPDX-License-Identifier: Apache-2.0
"""A sink of Sink V1 into a local folder, with the parts that a test needs."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from connectors_core.errors import DataLossError
from connectors_core.lineage import LineageVertexProvider, file_dataset
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.sink.v1 import Committer, GlobalCommitter, Sink, Writer
from connectors_core.testing import ROWS, SinkExternalContext
from connectors_core.testing.directory_sink import StagedFile, read_files
from connectors_core.testing.merging_sink import MergingDirectorySink
from connectors_core.testing.stateful_sink import _CHAIN, _NUMBER, Chain, NumberingDirectorySink


@dataclass(frozen=True)
class Listing:
    """The files of an epoch."""

    files: tuple[StagedFile, ...]


@dataclass(frozen=True)
class FolderSink(Sink, LineageVertexProvider):
    """Writes Arrow files. Its global committer lists them in an index.

    Attributes:
        path: The folder.
        stateful: Whether its writers number their rows.
        committing: Whether a committer makes the files visible.
        listing: Whether it has a global committer, which makes the files visible if no committer
            does.
    """

    path: Path
    stateful: bool = False
    committing: bool = False
    listing: bool = False

    def create_writer(self, context, states):
        return FolderWriter(self, states)

    def create_committer(self):
        return FolderCommitter(self.path) if self.committing else None

    def create_global_committer(self):
        return ListingCommitter(self.path) if self.listing else None

    def committable_serializer(self):
        return JsonDataclassSerializer(StagedFile) if self.committing or self.listing else None

    def global_committable_serializer(self):
        return JsonDataclassSerializer(Listing) if self.listing else None

    def writer_state_serializer(self):
        return JsonDataclassSerializer(Chain) if self.stateful else None

    def lineage_datasets(self):
        return (file_dataset(str(self.path)),)


class FolderWriter(Writer):
    def __init__(self, sink, states):
        self.sink = sink
        self.chain, *self.others = states or [Chain(uuid.uuid4().hex, 0)]
        name = f"{uuid.uuid4().hex}.arrow"
        self.file = StagedFile(str(sink.path / "_staged" / name), name)
        self.output = self.writer = None

    def write(self, element, context):
        if self.sink.stateful:
            element = self.numbered(element)
        if self.writer is None:
            Path(self.file.staged).parent.mkdir(exist_ok=True)
            self.output = pa.OSFile(self.file.staged, "wb")
            self.writer = pa.ipc.new_stream(self.output, element.schema)
        self.writer.write_batch(element)

    def numbered(self, batch):
        first = self.chain.next_number
        self.chain = replace(self.chain, next_number=first + batch.num_rows)
        numbers = pa.array(range(first, self.chain.next_number), pa.int64())
        names = pa.array([self.chain.name] * batch.num_rows, pa.string())
        return batch.append_column(_CHAIN, names).append_column(_NUMBER, numbers)

    def prepare_commit(self, flush):
        assert flush
        if self.writer is None:
            return []
        self.writer.close()
        self.output.close()
        if self.sink.committable_serializer() is not None:
            return [self.file]
        show(self.sink.path, self.file)
        return []

    def snapshot_state(self, checkpoint_id):
        assert self.sink.stateful
        return [self.chain, *self.others]

    def close(self):
        if self.output is not None:
            self.output.close()


class FolderCommitter(Committer):
    def __init__(self, path):
        self.path = path

    def commit(self, committables):
        for file in committables:
            show(self.path, file)
        return []

    def close(self):
        pass


class ListingCommitter(GlobalCommitter):
    """Lists the files of each epoch once."""

    def __init__(self, path):
        self.index = MergingDirectorySink(path)

    def filter_recovered_committables(self, global_committables):
        listed = set(self.index.index())
        return [each for each in global_committables if not {f.name for f in each.files} <= listed]

    def combine(self, committables):
        return Listing(tuple(committables))

    def commit(self, global_committables):
        for each in global_committables:
            for file in each.files:
                show(self.index.path, file)
            self.index.enter(file.name for file in each.files)
        return []

    def close(self):
        pass


def show(path, file):
    """Make a staged file visible, unless it is already.

    Raises:
        DataLossError: It is neither staged nor visible.
    """
    if (path / file.name).exists():
        return
    if not Path(file.staged).exists():
        raise DataLossError(f"{file.staged} is gone")
    Path(file.staged).rename(path / file.name)


class Folder(SinkExternalContext):
    """The folder of a `FolderSink`. Sink V1 never removes what failed attempts have staged."""

    def __init__(self, path, create):
        self.path, self.create = path, create

    def create_sink(self):
        return self.create(self.path)

    def read_back(self, schema=ROWS):
        files = [read_files([file]) for file in self.path.glob("*.arrow")]
        rows = pa.concat_tables([schema.empty_table(), *files], promote_options="default")
        return rows.select(schema.names)

    def assert_states(self, states, rows):
        NumberingDirectorySink(self.path).assert_numbered(states, rows)

    def assert_post_committed(self, committables):
        MergingDirectorySink(self.path).assert_indexed(committables)
