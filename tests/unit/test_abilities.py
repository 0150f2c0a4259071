# SPDX-License-Identifier: Apache-2.0
"""Runs the suites for the connectors of docs/write-a-connector/abilities.md."""

from __future__ import annotations

import itertools
from pathlib import Path

from page_modules import modules_of

from connectors_core.formats import JsonFormat
from connectors_core.testing import (
    ROWS,
    Capabilities,
    Capability,
    SourceExternalContext,
    SourceTestSuite,
    SplitDataWriter,
)

modules = modules_of("write-a-connector/abilities.md")
log_source, test_slot_sink = modules["log_source"], modules["test_slot_sink"]

TestSlotSink = test_slot_sink.TestSlotSink
TestSlotCommitter = test_slot_sink.TestSlotCommitter


class Log(SplitDataWriter):
    def __init__(self, path):
        self.path = path
        path.touch()

    def write(self, rows):
        with self.path.open("ab") as log:
            for batch in rows.to_batches():
                messages = JsonFormat().encode(batch).messages.to_pylist()
                log.write(b"".join(message + b"\n" for message in messages))

    def write_poison(self):
        with self.path.open("ab") as log:
            log.write(b"no object\n")


class Logs(SourceExternalContext):
    def __init__(self, folder):
        self.folder, self.numbers = folder, itertools.count()

    def create_split(self):
        return Log(self.folder / f"{next(self.numbers)}.log")

    def create_source(self, boundedness):
        return log_source.LogSource(self.folder, ROWS)


class TestLogSource(SourceTestSuite):
    written_for = "1.1"
    capabilities = Capabilities(
        can=frozenset(
            {
                Capability.UNBOUNDED,
                Capability.DISCOVERY,
                Capability.GROWING_SPLITS,
                Capability.POISON_READS,
                Capability.REPLAYABLE,
            }
        ),
        cannot={
            Capability.BOUNDED: "the example has no end",
            Capability.DATA_TYPES: "the types are those of JSON",
            Capability.SCHEMA_CHANGE: "the columns are given",
            Capability.SECRETS: "a local folder needs none",
        },
    )
    # The page says that the example omits SupportsAvailableNow.
    test_a_run_to_what_is_available_now_ends = None
    test_a_run_to_what_is_available_now_ends_splits_that_an_earlier_run_began = None
    test_a_position_behind_the_end_that_is_available_now_is_a_loss = None

    def external_context(self, folder):
        return Logs(folder)


def test_committed_positions_are_written_to_the_folder(tmp_path: Path) -> None:
    source = log_source.LogSource(tmp_path, ROWS)
    split = log_source.LogSplit("flights.log", line=7)
    enumerator = source.create_enumerator(None)
    enumerator.positions_committed(3, [split], [])
    assert (tmp_path / "flights.log.read").read_text() == "7"
