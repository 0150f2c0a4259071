# SPDX-License-Identifier: Apache-2.0
"""The external system of the test sink, from which broken sinks derive."""

from __future__ import annotations

import copy
from pathlib import Path

import pyarrow as pa
from toy_disk import available, responded

from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.errors import RetryableError
from connectors_core.secrets import Secret
from connectors_core.sink import SupportsCommittedEpoch
from connectors_core.testing import ROWS, Capability, SinkExternalContext
from connectors_core.testing.compacting_sink import CompactingDirectorySink
from connectors_core.testing.directory_sink import DirectorySink, DirectoryWriter, _Committer
from connectors_core.testing.holding_sink import HoldingDirectorySink
from connectors_core.testing.leased_sink import LeasedDirectorySink
from connectors_core.testing.merging_sink import MergingDirectorySink
from connectors_core.testing.stateful_sink import NumberingDirectorySink

TOKEN = "canary-91d4"
STAGES_FREELY = {
    Capability.LEASES: "everyone stages files of their own",
    Capability.REWRITING: "a staged file is not given up by itself",
}
ON_A_SURE_DISK = {
    Capability.OUTAGES: "suites of their own have them",
    Capability.COMMITTED_EPOCHS: "another sink tells them",
}
STATELESS = {Capability.WRITER_STATE: "every file stands by itself"}
PLAIN = {Capability.TOPOLOGIES: "every file is committed as it was written"}


class RequiresAToken:
    """A sink into a folder that requires a token, which it does not show."""

    changed = False

    def __init__(self, path, token):
        super().__init__(path)
        self.token = Secret(token)

    def __repr__(self):
        return f"TokenSink({str(self.path)!r}, token={self.token!r})"


class TokenSink(RequiresAToken, DirectorySink, SupportsConnectionCheck):
    """A folder that requires a token."""

    def create_writer(self, context):
        return DiskWriter(self.path, context)

    def check_connection(self, timeout):
        available()

    def create_committer(self, context):
        return DiskCommitter(self.path, context.sink_uid)


class DiskWriter(DirectoryWriter):
    def write(self, batch):
        available()
        super().write(batch)
        responded()

    def flush(self):
        available()
        super().flush()
        responded()


class DiskCommitter(_Committer, SupportsCommittedEpoch):
    def newest_committed_epoch(self):
        names = [path.name for path in self._path.glob("*.arrow")]
        return max((int(name.partition("-")[0]) for name in names), default=None)

    def commit(self, requests):
        for request in requests:
            try:
                available()
                super().commit([request])
                responded()
            except RetryableError as error:
                self.unavailable(request, error)

    def unavailable(self, request, error):
        request.retry_later()

    def sweep(self, checkpoint_id):
        available()
        super().sweep(checkpoint_id)

    def recover(self, last_decided):
        available()
        super().recover(last_decided)


class LeasedTokenSink(RequiresAToken, LeasedDirectorySink):
    """A sink whose files are staged in slots."""


class NumberingTokenSink(RequiresAToken, NumberingDirectorySink):
    """A sink whose rows are numbered."""


class MergingTokenSink(RequiresAToken, MergingDirectorySink):
    """A sink whose files are merged before the decision."""


class HoldingTokenSink(RequiresAToken, HoldingDirectorySink):
    """A sink whose files are combined over epochs."""


class WholeEpochSink(MergingTokenSink):
    """A sink whose committer needs all rows of an epoch in one file."""

    def create_committer(self, context):
        return WholeEpochCommitter(self.path, context.sink_uid)


class WholeEpochCommitter(_Committer):
    def commit(self, requests):
        epochs = [Path(each.committable.staged).parent for each in requests]
        assert len(epochs) == len(set(epochs)), "an epoch has several files"
        super().commit(requests)


class CompactingTokenSink(RequiresAToken, CompactingDirectorySink):
    """A sink whose files are merged over several epochs."""


class Directory(SinkExternalContext):
    """A folder of Arrow files."""

    def __init__(self, folder, sink=TokenSink):
        self.sink = sink(folder, TOKEN)

    def create_sink(self):
        return self.sink

    def changed_sinks(self):
        changed = copy.copy(self.sink)
        changed.changed = True
        return {"changed": changed}

    def read_back(self, schema=ROWS):
        names = [path.name for path in self.sink.path.glob("*.arrow")]
        epochs = sorted({int(name.partition("-")[0]) for name in names})
        tables = [self.sink.read(epoch) for epoch in epochs]
        parts = [table for table in tables if table.num_columns]
        if not parts:
            return schema.empty_table()
        return pa.concat_tables(parts, promote_options="default").select(schema.names).cast(schema)

    def lose(self, committables):
        for each in committables:
            Path(each.staged).unlink()

    def assert_states(self, states, rows):
        self.sink.assert_numbered(states, rows)

    def assert_post_committed(self, committables):
        self.sink.assert_indexed(committables)

    def leftovers(self):
        return [path.name for path in self.sink.staged()]

    def secrets(self):
        return [TOKEN]
