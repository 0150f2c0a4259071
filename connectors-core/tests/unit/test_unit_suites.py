# SPDX-License-Identifier: Apache-2.0
"""Runs the unit suites on the toy source and the test sink."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from broken_responses import CopiesBeforeItRemoves
from toy_connector import ABILITIES, LogFolder, LogSource
from toy_disk import Disk
from toy_service import ServiceContext
from toy_sink import (
    ON_A_SURE_DISK,
    STAGES_FREELY,
    Directory,
    LeasedTokenSink,
    NumberingTokenSink,
    TokenSink,
    WholeEpochSink,
)

from connectors_core.testing import (
    AsyncSinkWriterTestSuite,
    Capabilities,
    Capability,
    CommitterTestSuite,
    SerializerTestSuite,
    SourceReaderTestSuite,
    SplitEnumeratorTestSuite,
)
from connectors_core.testing.directory_sink import StagedFile
from connectors_core.testing.stateful_sink import Chain

SOURCE = Capabilities(can=ABILITIES | {Capability.OUTAGES})
STATE = Path(__file__).parent / "state"


def logs(folder):
    return LogFolder(folder, LogSource, timedelta(seconds=1))


class TestLogReader(SourceReaderTestSuite):
    system = Disk()
    capabilities = SOURCE

    def external_context(self, folder):
        return logs(folder)


class TestLogEnumerator(SplitEnumeratorTestSuite):
    system = Disk()
    capabilities = SOURCE

    def external_context(self, folder):
        return logs(folder)


class TestLogSerializers(SerializerTestSuite):
    capabilities = SOURCE
    state_folder = STATE

    def external_context(self, folder):
        return logs(folder)


class TestDirectoryCommitter(CommitterTestSuite):
    system = Disk()
    capabilities = Capabilities(
        can=frozenset({Capability.EXACTLY_ONCE, Capability.OUTAGES, Capability.SECRETS}),
        cannot=STAGES_FREELY,
    )

    def external_context(self, folder):
        return Directory(folder)


class TestCopyingCommitter(CommitterTestSuite):
    """A committer at-least-once. A lost response may double rows, but not lose any."""

    system = Disk()
    capabilities = Capabilities(
        can=frozenset({Capability.OUTAGES}),
        cannot={
            **STAGES_FREELY,
            Capability.EXACTLY_ONCE: "an interrupted commit copies a file again",
            Capability.SECRETS: "another one shows it",  # pragma: allowlist secret
        },
    )

    def external_context(self, folder):
        class Sink(TokenSink):
            def create_committer(self, context):
                return CopiesBeforeItRemoves(self.path, context.sink_uid)

        return Directory(folder, Sink)


class TestLeasedCommitter(CommitterTestSuite):
    capabilities = Capabilities(
        can=frozenset({Capability.EXACTLY_ONCE, Capability.LEASES, Capability.REWRITING}),
        # pragma: allowlist nextline secret
        cannot={**ON_A_SURE_DISK, Capability.SECRETS: "the one that stages freely shows it"},
    )

    def external_context(self, folder):
        return Directory(folder, LeasedTokenSink)


class TestWholeEpochCommitter(CommitterTestSuite):
    """The committables have passed the pre-commit topology."""

    capabilities = Capabilities(
        can=frozenset({Capability.EXACTLY_ONCE}),
        # pragma: allowlist nextline secret
        cannot={**STAGES_FREELY, **ON_A_SURE_DISK, Capability.SECRETS: "another one shows it"},
    )

    def external_context(self, folder):
        return Directory(folder, WholeEpochSink)


class TestDirectorySerializer(SerializerTestSuite):
    state_folder = STATE

    def external_context(self, folder):
        return Directory(folder)

    def examples(self):
        return {"committable": [StagedFile("/data/_staging/1/a.arrow", "a.arrow")]}


class TestNumberingSerializers(SerializerTestSuite):
    state_folder = STATE

    def external_context(self, folder):
        return Directory(folder, NumberingTokenSink)

    def examples(self):
        committable = StagedFile("/data/_staging/1/a.arrow", "a.arrow")
        return {"committable": [committable], "writer-state": [Chain("0-00000-0-1a2b", 20)]}


class TestServiceWriter(AsyncSinkWriterTestSuite):
    capabilities = Capabilities(can=frozenset({Capability.KEYS, Capability.SECRETS}))

    def external_context(self, folder):
        return ServiceContext()
