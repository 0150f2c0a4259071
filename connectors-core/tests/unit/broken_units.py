# SPDX-License-Identifier: Apache-2.0
"""Broken parts of connectors by kind, each with the case that must detect it, and their suites."""

from __future__ import annotations

import types
from datetime import timedelta

from broken_async_sinks import ASYNC_SINKS, async_sink_suite
from broken_committers import COMMITTERS, LEASED
from broken_enumerators import ENUMERATORS
from broken_options import OPTIONS
from broken_outages import OUTAGE_COMMITTERS, OUTAGE_ENUMERATORS, OUTAGE_READERS
from broken_readers import READERS
from broken_responses import LOST_IN_COMMITS, LOST_IN_WRITERS
from broken_serializers import SERIALIZERS, ForgotItsPast, HasNoFile
from broken_systems import GREEDY_READERS, REFUSED_READERS
from toy_connector import ABILITIES, LogFolder, LogReader, LogSource
from toy_disk import Disk
from toy_sink import ON_A_SURE_DISK as NO_OUTAGES
from toy_sink import STAGES_FREELY, Directory, LeasedTokenSink, TokenSink

from connectors_core.testing import (
    Capabilities,
    Capability,
    CommitterTestSuite,
    OptionsTestSuite,
    SerializerTestSuite,
    SourceReaderTestSuite,
    SplitEnumeratorTestSuite,
)
from connectors_core.testing.directory_sink import StagedFile

# Only outage cases test parts that are broken during an outage.
ON_A_SURE_DISK = {"capabilities": Capabilities(can=ABILITIES, cannot=NO_OUTAGES)}
ON_A_DISK = {"capabilities": Capabilities(can=ABILITIES | NO_OUTAGES.keys()), "system": Disk()}
TICK = timedelta(seconds=1)

_TABLES = (
    READERS,
    REFUSED_READERS,
    GREEDY_READERS,
    ENUMERATORS,
    SERIALIZERS,
    COMMITTERS,
    LEASED,
    ASYNC_SINKS,
    OPTIONS,
    OUTAGE_READERS,
    OUTAGE_ENUMERATORS,
    OUTAGE_COMMITTERS,
    LOST_IN_COMMITS,
    LOST_IN_WRITERS,
)
BROKEN = {broken: seen for table in _TABLES for broken, seen in table.items()}
SEEN_BY = {
    f"Test{broken.__name__}": {seen} if isinstance(seen, str) else seen
    for broken, seen in BROKEN.items()
}


# --- Suites for these parts, in the separate run that the test starts ---------------------------


def source_suite(suite, broken):
    if issubclass(broken, LogSource):
        source = broken
    else:
        role = "reader" if issubclass(broken, LogReader) else "enumerator"
        roles = {"reader": getattr(broken, "reader", LogReader), role: broken}
        source = type(f"{broken.__name__}Source", (LogSource,), roles)
        source.__module__, source.__qualname__ = __name__, source.__name__
        globals()[source.__name__] = source

    def external_context(self, path):
        return LogFolder(path, source, TICK)

    return suite, {
        **(ON_A_DISK if broken in OUTAGE_READERS | OUTAGE_ENUMERATORS else ON_A_SURE_DISK),
        "deadline": 1.0,
        "closes_within": 1.0,
        "external_context": external_context,
    }


def serializer_suite(broken):
    class Sink(TokenSink):
        def committable_serializer(self):
            return broken(StagedFile)

    def external_context(self, path):
        serializer = broken(StagedFile)
        if broken is not HasNoFile:
            state = self.state_folder = path / "state"
            state.mkdir()
            example = StagedFile("/a", "a")
            name = f"committable-v{serializer.version}.bin"
            (state / name).write_bytes(serializer.serialize(example))
            if broken is ForgotItsPast:
                (state / "committable-v1.bin").write_bytes(serializer.serialize(example))
        else:
            self.state_folder = path
        return Directory(path, Sink)

    return SerializerTestSuite, {"external_context": external_context}


def committer_suite(broken):
    class Sink(TokenSink):
        def create_committer(self, context):
            return broken(self.path, context.sink_uid)

    class SinkOfWriter(TokenSink):
        def create_writer(self, context):
            return broken(self.path, context)

    sink = SinkOfWriter if broken in LOST_IN_WRITERS else Sink
    if issubclass(broken, TokenSink):
        sink = broken

    def external_context(self, path):
        return Directory(path, sink)

    can = {Capability.EXACTLY_ONCE}
    # pragma: allowlist nextline secret
    cannot = {**STAGES_FREELY, **NO_OUTAGES, Capability.SECRETS: "it is judged in an outage"}
    if broken in OUTAGE_COMMITTERS | LOST_IN_COMMITS | LOST_IN_WRITERS:
        can |= cannot.keys() - STAGES_FREELY.keys()
        cannot = STAGES_FREELY
    return CommitterTestSuite, {
        "system": Disk(),
        "capabilities": Capabilities(can=frozenset(can), cannot=cannot),
        "external_context": external_context,
    }


def leased_suite(broken):
    class Sink(LeasedTokenSink):
        def create_committer(self, context):
            return broken(self.path, context.sink_uid, self.attempts)

    sink = broken if issubclass(broken, LeasedTokenSink) else Sink

    def external_context(self, path):
        return Directory(path, sink)

    return CommitterTestSuite, {
        "capabilities": Capabilities(
            can=frozenset({Capability.EXACTLY_ONCE, *STAGES_FREELY}),
            cannot={**NO_OUTAGES, Capability.SECRETS: "it has none"},  # pragma: allowlist secret
        ),
        "external_context": external_context,
    }


def options_suite(broken):
    def valid_options(self, path):
        return {"path": str(path)}

    return OptionsTestSuite, {
        "capabilities": Capabilities(can=frozenset({Capability.SECRETS})),
        "factory": broken,
        "options": broken.options,
        "valid_options": valid_options,
    }


def suite_of(broken):
    if broken in READERS | OUTAGE_READERS | REFUSED_READERS | GREEDY_READERS:
        return source_suite(SourceReaderTestSuite, broken)
    if broken in ENUMERATORS | OUTAGE_ENUMERATORS:
        return source_suite(SplitEnumeratorTestSuite, broken)
    if broken in SERIALIZERS:
        return serializer_suite(broken)
    if broken in COMMITTERS | OUTAGE_COMMITTERS | LOST_IN_COMMITS | LOST_IN_WRITERS:
        return committer_suite(broken)
    if broken in LEASED:
        return leased_suite(broken)
    if broken in ASYNC_SINKS:
        return async_sink_suite(broken)
    return options_suite(broken)


def suites():
    """Create a suite for each part, by name."""
    found = {}
    for broken in BROKEN:
        base, members = suite_of(broken)
        name = f"Test{broken.__name__}"
        found[name] = types.new_class(name, (base,), exec_body=lambda ns, m=members: ns.update(m))
    return found
