# SPDX-License-Identifier: Apache-2.0
"""The suites are tested: broken connectors fail the cases that are meant to see them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from toy_connector import BATCH_LINES, LogEnumerator, LogFolder, LogReader, LogSource, LogState

from connectors_core.testing import Capabilities, Capability, SourceTestSuite

pytest_plugins = ["pytester"]

TICK = timedelta(milliseconds=30)
CAN = Capabilities(
    can=frozenset(
        {
            Capability.BOUNDED,
            Capability.UNBOUNDED,
            Capability.DISCOVERY,
            Capability.POISON_READS,
        }
    ),
    cannot={Capability.GROWING_SPLITS: "a file is complete when it appears"},
)


class LogSuite(SourceTestSuite):
    source = LogSource
    capabilities = CAN
    __test__ = False

    def external_context(self, folder):
        return LogFolder(folder, self.source, TICK)


class TestCorrectSource(LogSuite):
    __test__ = True


# --- Broken readers and enumerators ------------------------------------------------------------


class LosesTheLastLine(LogReader):
    def add_splits(self, splits):
        super().add_splits(replace(split, end=split.end - 1) for split in splits)


class ReadsSplitsBackwards(LogReader):
    def parse(self, line):
        row = super().parse(line)
        return row | {"seq": 59 - row["seq"]}


class ChangesTexts(LogReader):
    def parse(self, line):
        row = super().parse(line)
        return row | {"text": row["text"].strip(",")}


class StaysWhereItWas(LogReader):
    """Gives the position before the batch: rows of a cut batch come again."""

    def snapshot_state(self):
        return [
            replace(split, position=max(0, split.position - BATCH_LINES))
            if split.position < split.end
            else split
            for split in self.splits
        ]


class SwallowsPoison(LogReader):
    def bad(self, split, number, line, error):
        pass


class RaisesPoison(LogReader):
    def bad(self, split, number, line, error):
        raise RuntimeError("a line cannot be read") from error


class ForgetsWhatWaits(LogEnumerator):
    def snapshot_state(self, checkpoint_id):
        return LogState((), tuple(sorted(self.known)))


class ForgetsWhatItFound(LogEnumerator):
    """Finds files again under other ids after a restart."""

    def __init__(self, context, source, state):
        super().__init__(context, source, LogState(state.waiting, ()))


class FindsNothingNew(LogEnumerator):
    def found(self, names, error):
        super().found(() if self.known else names, error)


class NeverSaysNoMore(LogEnumerator):
    def assign(self):
        for subtask in sorted(self.asking):
            if self.waiting:
                self.context.assign_split(self.waiting.pop(0), subtask)
                self.asking.discard(subtask)


class AnswersTheFirstReaderOnly(LogEnumerator):
    def assign(self):
        others = {subtask for subtask in self.asking if subtask}
        if not self.waiting:
            self.asking -= others
        super().assign()


class AssignsTwice(LogEnumerator):
    def split_of(self, name):
        split = super().split_of(name)
        self.waiting.append(replace(split, split_id=f"{name}/"))
        return split


class DropsWhatComesBack(LogEnumerator):
    def add_splits_back(self, splits, subtask_id):
        pass


class DoesNotFreeze(LogEnumerator):
    def freeze_end(self):
        pass


BROKEN = {
    LosesTheLastLine: "test_a_single_split_is_read_to_its_end",
    ReadsSplitsBackwards: "test_splits_are_read_side_by_side_and_each_in_its_order",
    ChangesTexts: "test_a_single_split_is_read_to_its_end",
    StaysWhereItWas: "test_a_restart_in_the_middle_of_splits",
    SwallowsPoison: "test_poison_is_skipped_and_counted",
    RaisesPoison: "test_poison_fails_the_pipeline_and_names_the_record",
    ForgetsWhatWaits: "test_a_restart_in_the_middle_of_splits",
    ForgetsWhatItFound: "test_a_restart_goes_on_with_as_many_more_or_fewer_readers",
    FindsNothingNew: "test_splits_that_appear_are_found",
    NeverSaysNoMore: "test_a_single_split_is_read_to_its_end",
    AnswersTheFirstReaderOnly: "test_a_reader_without_a_split_does_not_keep_the_pipeline_running",
    AssignsTwice: "test_a_single_split_is_read_to_its_end",
    DropsWhatComesBack: "test_a_restart_in_the_middle_of_splits",
    DoesNotFreeze: "test_a_run_to_what_is_available_now_ends",
}
BY_NAME = {broken.__name__: (broken, seen_by) for broken, seen_by in BROKEN.items()}

RUN = """
import sys
sys.path[:0] = [{folder!r}]
import pytest
from test_suites_see_faults import BY_NAME, LogSuite
from toy_connector import LogReader, LogSource
import connectors_core.testing.trial as trial
trial.DEADLINE = 8.0
broken, _ = BY_NAME[{name!r}]

class Broken(LogSource):
    locals()["reader" if issubclass(broken, LogReader) else "enumerator"] = broken

class TestBroken(LogSuite):
    __test__ = True
    source = Broken
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_broken_source_is_seen(name, pytester):
    pytester.makepyfile(test_broken=RUN.format(name=name, folder=str(Path(__file__).parent)))
    pytester.runpytest("-q", "-m", "not slow", "--connector-report", "report")
    results = json.loads((pytester.path / "report.json").read_text())["results"]
    failed = {each["case"].partition("[")[0] for each in results if each["outcome"] == "failed"}
    assert BY_NAME[name][1] in failed
