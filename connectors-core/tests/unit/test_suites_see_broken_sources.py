# SPDX-License-Identifier: Apache-2.0
"""Tests the source suite: each broken source fails the one case that must detect it."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
import unicodedata
import uuid
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import broken_log
import pytest
from broken_connectors import failed_cases
from broken_cuts import (
    EndsACutBoundedSplit,
    EndsACutSplit,
    ReadsACutBoundedSplitAgain,
    ReadsACutSplitAgain,
    WaitsForLostRows,
    WaitsForLostRowsOfABoundedSplit,
)
from broken_misfits import (
    CutsFractions,
    DropsMisfitsInLists,
    NamesTheRecordOfAMisfit,
    NamesTheValueOfAMisfit,
    ReadsMisfitsAsNull,
    ReadsMisfitsInStructsAsNull,
    ShowsTheMisfitInTheCause,
    SkipsMisfits,
    TellsNoColumnOfAMisfit,
)
from broken_names import ReadsFoldedNames, ReadsStrippedNames, ReadsUnescapedNames
from broken_outages import (
    ConnectsInTheBackground,
    SkipsWhatIsLate,
    SkipsWhatItCannotRead,
    TakesALateResponseForAFailure,
    TakesAnOutageForNothing,
    TakesAnOutageForTheEnd,
)
from broken_skips import (
    FailsWhereItHasRead,
    SaysThatItFails,
    SkipsWithoutADeadLetter,
    SkipsWithoutALine,
    SkipsWithoutAMetric,
)
from broken_systems import (
    ACKNOWLEDGED,
    OUT_OF_ORDER,
    REFUSED,
    AcknowledgesNothing,
    AcknowledgesOnlyItsFirstSplit,
    AcknowledgesWhatItAssigns,
    CountsHiddenRows,
    ReadsBehindTheGreatestKey,
    RetriesARefusal,
    SwallowsEveryError,
    TakesARefusalForTheEnd,
    WaitsAWhileForSmallerKeys,
)
from broken_versions import (
    HidesItsVersions,
    KeepsItsEnds,
    NamesNewVersions,
    NamesNoVersions,
    ReadsItsFirstInputAgain,
    RefusesNewInput,
)
from toy_connector import (
    ABILITIES,
    LogEnumerator,
    LogFolder,
    LogReader,
    LogSource,
    LogSplit,
    LogState,
)
from toy_disk import Disk

from connectors_core.lineage import LineageDataset
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import Boundedness
from connectors_core.testing import Capabilities, Capability, SourceTestSuite

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.line("4.3")  # without Spark

TICK = timedelta(milliseconds=30)
NOT_IN_JSON = "JSON has no such type"
CAN = Capabilities(
    can=ABILITIES
    | {
        Capability.GROWING_SPLITS,
        Capability.REPLAYABLE,
        Capability.DATA_TYPES,
        Capability.MISFITS,
        Capability.SCHEMA_CHANGE,
        Capability.OUTAGES,
    },
    cannot_carry=dict.fromkeys(
        ["binary", "decimal", "date", "timestamp", "timestamp_ntz", "day-time interval", "map"],
        NOT_IN_JSON,
    ),
)


class LogSuite(SourceTestSuite):
    system = Disk()
    source = LogSource
    capabilities = CAN
    __test__ = False

    def external_context(self, folder):
        return LogFolder(folder, self.source, TICK)


class TestCorrectSource(LogSuite):
    __test__ = True


# --- Broken readers ----------------------------------------------------------------------------


class LosesTheLastLine(LogReader):
    def emit(self, split, lines, output):
        size = len(b"".join(lines))
        last = split.position + size == split.end
        super().emit(split, lines[:-1] if last else lines, output)
        if last:
            self.splits[0] = replace(split, position=split.end)


class ReversesABatch(LogReader):
    def emit(self, split, lines, output):
        super().emit(split, lines[::-1], output)


class ChangesTexts(LogReader):
    def parse(self, line):
        row = super().parse(line)
        return row | {"text": row["text"].strip(",")} if "text" in row else row


class ReadsNoNulls(LogReader):
    def parse(self, line):
        row = super().parse(line)
        text = "value" in row and str(self.source.schema().field("value").type) == "string"
        return row | {"value": row["value"] or ""} if text else row


class TakesFurtherColumnsForPoison(LogReader):
    def parse(self, line):
        row = super().parse(line)
        if "extra" in row:
            raise ValueError("a column more")
        return row


class StaysWhereItWas(LogReader):
    """Returns the position before the batch, so rows of a cut batch repeat."""

    before = None

    def emit(self, split, lines, output):
        super().emit(split, lines, output)
        self.before = replace(split, position=split.position)

    def snapshot_state(self):
        state = super().snapshot_state()
        bounded = self.source.boundedness() is Boundedness.BOUNDED
        if (
            bounded
            and self.before is not None
            and state
            and state[0].split_id == self.before.split_id
        ):
            state[0] = self.before
        return state


class HandsPoisonOnTwice(LogReader):
    def bad(self, split, position, line, error):
        super().bad(split, position, line, error)
        super().bad(split, position, line, error)


class EndsALiveSplit(LogReader):
    """Treats the end of the available data as the end of a split."""

    def poll_next(self, output):
        status = super().poll_next(output)
        if status.name == "NOTHING_AVAILABLE":
            self.splits.clear()
        return status


class IgnoresItsEnd(LogReader):
    def handle_source_events(self, event):
        pass


class ReadsToTheEndThatItFinds(LogReader):
    """Reads to the end of its file instead of the end of its split."""

    def add_splits(self, splits):
        super().add_splits(splits)
        self.splits = [
            replace(each, end=max(each.end, self.size(each))) if each.end > 0 else each
            for each in self.splits
        ]

    def size(self, split):
        return (Path(self.source.folder) / split.split_id).stat().st_size


class LeavesAThread(LogReader):
    def close(self):
        threading.Thread(target=threading.Event().wait, args=(30,), daemon=True).start()


class LeavesAFileOpen(LogReader):
    def read(self, split):
        os.open(Path(self.source.folder) / split.split_id, os.O_RDONLY)
        return super().read(split)


class LeavesATemporaryFile(LogReader):
    def close(self):
        tempfile.mkstemp()


class LogsItsToken(LogReader):
    def close(self):
        if self.source.token is not None:
            logging.getLogger("toy").debug("closed with %s", self.source.token.reveal())


# --- Broken enumerators ------------------------------------------------------------------------


class ForgetsWhatItFound(LogEnumerator):
    """After a restart of an unbounded run, discovers the same files under other ids."""

    def __init__(self, context, source, state):
        super().__init__(context, source, state)
        self.again = bool(state.known) and not self.bounded
        if self.again:
            self.known = set()

    def split_of(self, name):
        split = super().split_of(name)
        return replace(split, split_id=f"./{name}") if self.again else split

    def stat(self, name):
        return super().stat(name.removeprefix("./"))


class FindsNothingNew(LogEnumerator):
    def found(self, names, error):
        super().found(() if self.known else names, error)


class ForgetsWhoAsked(LogEnumerator):
    """Tells only the readers that received a split that there are no more."""

    served = frozenset()

    def assign(self):
        if not self.waiting:
            self.asking &= self.served
        self.served |= self.asking
        super().assign()


class AssignsTwice(LogEnumerator):
    def split_of(self, name):
        split = super().split_of(name)
        self.waiting.append(replace(split, split_id=f"./{name}"))
        return split

    def stat(self, name):
        return super().stat(name.removeprefix("./"))


class FreezesNewSplitsOnly(LogEnumerator):
    """Leaves live splits of an earlier run without an end."""

    def freeze_end(self):
        began = set(self.known)
        send, self.context.send_event_to_source_reader = (
            self.context.send_event_to_source_reader,
            lambda subtask, event: send(
                subtask,
                replace(event, ends={k: v for k, v in event.ends.items() if k not in began}),
            ),
        )
        super().freeze_end()


class WaitsForTheFirstRow(LogEnumerator):
    """Keeps splits without rows, which hold back the watermark."""

    def unassigned_splits(self):
        return self.empty()

    def empty(self):
        return [
            split for split in self.waiting if not self.bounded and not self.size(split.split_id)
        ]

    def assign(self):
        kept = self.empty()
        self.waiting = [split for split in self.waiting if split not in kept]
        super().assign()
        self.waiting += kept


class MovesTheEnd(LogEnumerator):
    """After a restart, moves the end of a waiting split to the current end of its file."""

    def __init__(self, context, source, state):
        super().__init__(context, source, state)
        if self.bounded:
            self.waiting = [replace(each, end=self.size(each.split_id)) for each in self.waiting]


class GivesUpWhatWaitedLong(LogEnumerator):
    """Treats old state as the state of another run."""

    def __init__(self, context, source, state):
        super().__init__(context, source, state)
        stamps = {each for each in self.known if each.startswith("@")}
        self.known -= stamps
        if any(time.time() - float(each[1:]) > 1800 for each in stamps):
            self.waiting.clear()

    def snapshot_state(self, checkpoint_id):
        state = super().snapshot_state(checkpoint_id)
        return replace(state, known=(*state.known, f"@{time.time()}"))


# --- Broken for some values and positions ------------------------------------------------------


class ReadsNaNAsNothing(LogReader):
    def parse(self, line):
        row = super().parse(line)
        return row | {"value": None} if row.get("value", 0) != row.get("value", 0) else row


class ReadsNoNegativeZero(LogReader):
    def parse(self, line):
        row = super().parse(line)
        if isinstance(row.get("value"), float):
            row["value"] += 0.0
        return row


class NormalizesTexts(LogReader):
    def parse(self, line):
        row = super().parse(line)
        if isinstance(row.get("value"), str):
            row["value"] = unicodedata.normalize("NFC", row["value"])
        return row


# --- Broken sources ----------------------------------------------------------------------------


@dataclass(frozen=True)
class LyingSplit(LogSplit):
    """Claims that its first row comes after all of its rows."""

    def event_time_lower_bound(self):
        return 2**51


@dataclass(frozen=True)
class LyingState(LogState):
    waiting: tuple[LyingSplit, ...]


class LiesAboutItsTimes(LogSource):
    class enumerator(LogEnumerator):  # noqa: N801
        def split_of(self, name):
            split = super().split_of(name)
            return LyingSplit(split.split_id, split.position, split.end, split.version)

        def snapshot_state(self, checkpoint_id):
            return LyingState(tuple(self.waiting), tuple(sorted(self.known)))

    def split_serializer(self):
        return JsonDataclassSerializer(LyingSplit)

    def enumerator_state_serializer(self):
        return JsonDataclassSerializer(LyingState)


class SaysItCannotBeReadAgain(LogSource):
    def split_traits(self):
        return replace(super().split_traits(), replayable=False)


class ShowsItsToken(LogSource):
    def __repr__(self):
        return f"LogSource({self.folder!r}, {self.token.reveal()!r})"


class NamesNoDatasets(LogSource):
    def lineage_datasets(self):
        return ()


class NamesItsToken(LogSource):
    def lineage_datasets(self):
        token = self.token.reveal() if self.token else ""
        return (LineageDataset(namespace=f"logs://user:{token}@host", name=str(self.folder)),)


class NamesItsDatasetsAnew(LogSource):
    def lineage_datasets(self):
        return (LineageDataset(namespace="file", name=f"{self.folder}/{uuid.uuid4()}"),)


class WritesItsToken(LogEnumerator):
    def __init__(self, context, source, state):
        super().__init__(context, source, state)
        self.known.discard(self.token)

    @property
    def token(self):
        return self.source.token.reveal() if self.source.token else ""

    def snapshot_state(self, checkpoint_id):
        return replace(super().snapshot_state(checkpoint_id), known=(*self.known, self.token))


class ForgetsWhetherItEnds(LogSource):
    def recorded_options(self):
        return ()


class EndsWithAnotherInterval(LogEnumerator):
    def __init__(self, context, source, state):
        super().__init__(context, source, state)
        self.frozen = source.interval != TICK


class FindsNothingWithAnotherInterval(LogEnumerator):
    def discover(self):
        return [] if self.source.interval != TICK else super().discover()


LATE = "test_first_responses_that_are_late_in_every_life_lose_nothing"
CHANGED = "test_a_restart_with_one_changed_option_is_exact_or_refused"
NAMED = "test_a_column_of_any_name_is_read"
MISFIT = "test_a_value_that_does_not_fit_its_type_is_a_bad_record"
CUT = "test_a_position_behind_the_end_that_is_available_now_is_a_loss"
SKIPPED = "test_a_split_that_cannot_be_read_is_skipped_and_reported"
SKIPPED_LATER = "test_a_split_that_can_no_longer_be_read_when_it_is_repeated_stops_nothing"
CUT_BOUNDED = "test_a_bounded_split_that_is_cut_behind_its_position_is_a_loss"
RETRIED = "test_a_batch_run_that_is_tried_again_after_a_crash_is_written_once"
NEXT = "test_a_batch_run_after_a_crash_before_the_decision_reads_its_own_input"
NOTICED = "test_a_batch_run_after_a_crash_reads_new_input_too_or_names_the_source"
BROKEN = {
    LosesTheLastLine: "test_a_single_split_is_read_to_its_end",
    ReversesABatch: "test_a_single_split_is_read_to_its_end",
    ChangesTexts: "test_a_single_split_is_read_to_its_end",
    ReadsNoNulls: "test_values_of_every_type_are_read_as_they_are",
    TakesFurtherColumnsForPoison: "test_a_further_column_in_the_system_changes_no_row",
    StaysWhereItWas: "test_a_limit_of_rows_holds_in_every_plan",
    broken_log.SwallowsPoison: "test_poison_fails_the_pipeline_and_names_the_record",
    broken_log.RaisesPoison: "test_poison_fails_the_pipeline_and_names_the_record",
    HandsPoisonOnTwice: "test_poison_is_skipped_and_counted",
    EndsALiveSplit: "test_rows_that_are_added_to_a_split_are_read",
    IgnoresItsEnd: "test_a_run_to_what_is_available_now_ends_splits_that_an_earlier_run_began",
    LeavesAThread: "test_no_thread_handle_or_temporary_file_is_left",
    LeavesAFileOpen: "test_no_thread_handle_or_temporary_file_is_left",
    LeavesATemporaryFile: "test_no_thread_handle_or_temporary_file_is_left",
    LogsItsToken: "test_a_secret_is_seen_nowhere",
    broken_log.ForgetsWhatWaits: "test_a_restart_in_the_middle_of_splits",
    ForgetsWhatItFound: "test_a_restart_goes_on_with_as_many_more_or_fewer_readers",
    FindsNothingNew: "test_splits_that_appear_are_found",
    broken_log.NeverSaysNoMore: "test_a_single_split_is_read_to_its_end",
    ForgetsWhoAsked: "test_a_reader_without_a_split_does_not_keep_the_pipeline_running",
    AssignsTwice: "test_a_single_split_is_read_to_its_end",
    broken_log.DropsWhatComesBack: "test_a_restart_in_the_middle_of_splits",
    broken_log.DoesNotFreeze: "test_a_run_to_what_is_available_now_ends",
    FreezesNewSplitsOnly: (
        "test_a_run_to_what_is_available_now_ends_splits_that_an_earlier_run_began"
    ),
    WaitsForTheFirstRow: "test_a_split_without_rows_is_idle_until_it_has_some",
    LiesAboutItsTimes: "test_the_watermark_never_passes_a_row_that_is_still_to_come",
    MovesTheEnd: "test_rows_behind_the_end_of_a_bounded_source_are_never_read",
    broken_log.FindsMoreBehindTheEnd: "test_rows_behind_the_end_of_a_bounded_source_are_never_read",
    ReadsToTheEndThatItFinds: "test_rows_behind_the_end_of_a_bounded_source_are_never_read",
    GivesUpWhatWaitedLong: "test_a_driver_with_another_clock_takes_over",
    ReadsNoNegativeZero: "test_values_that_are_hard_to_keep_are_read_as_they_are",
    ReadsNaNAsNothing: "test_values_that_are_hard_to_keep_are_read_as_they_are",
    NormalizesTexts: "test_values_that_are_hard_to_keep_are_read_as_they_are",
    broken_log.PlacesABadRecordInItsBatch: (
        "test_poison_between_rows_is_met_once_whatever_cuts_the_split"
    ),
    TakesAnOutageForTheEnd: "test_an_outage_in_the_middle_loses_and_doubles_nothing",
    SkipsWhatItCannotRead: "test_an_outage_in_the_middle_loses_and_doubles_nothing",
    TakesAnOutageForNothing: "test_a_start_in_an_outage_loses_nothing",
    ConnectsInTheBackground: LATE,
    TakesALateResponseForAFailure: LATE,
    SkipsWhatIsLate: LATE,
    WaitsForLostRows: CUT,
    EndsACutSplit: CUT,
    ReadsACutSplitAgain: CUT,
    WaitsForLostRowsOfABoundedSplit: CUT_BOUNDED,
    EndsACutBoundedSplit: CUT_BOUNDED,
    ReadsACutBoundedSplitAgain: CUT_BOUNDED,
    SkipsWithoutADeadLetter: SKIPPED,
    SkipsWithoutAMetric: SKIPPED,
    SkipsWithoutALine: SKIPPED,
    SaysThatItFails: SKIPPED,
    FailsWhereItHasRead: SKIPPED_LATER,
    ReadsMisfitsAsNull: MISFIT,
    ReadsMisfitsInStructsAsNull: MISFIT,
    DropsMisfitsInLists: MISFIT,
    CutsFractions: MISFIT,
    SkipsMisfits: MISFIT,
    TellsNoColumnOfAMisfit: MISFIT,
    NamesTheValueOfAMisfit: MISFIT,
    NamesTheRecordOfAMisfit: MISFIT,
    ShowsTheMisfitInTheCause: MISFIT,
    NamesNewVersions: RETRIED,
    ReadsItsFirstInputAgain: NEXT,
    RefusesNewInput: NEXT,
    HidesItsVersions: NOTICED,
    KeepsItsEnds: "test_a_batch_run_after_a_crash_notices_rows_that_were_added",
    NamesNoVersions: "test_a_batch_run_after_a_crash_notices_rows_that_were_replaced",
    ForgetsWhetherItEnds: CHANGED,
    EndsWithAnotherInterval: CHANGED,
    FindsNothingWithAnotherInterval: CHANGED,
    SaysItCannotBeReadAgain: "test_what_is_said_of_replays_is_what_the_source_says",
    NamesNoDatasets: "test_datasets_are_named_for_lineage",
    NamesItsToken: "test_datasets_are_named_for_lineage",
    NamesItsDatasetsAnew: "test_datasets_are_named_for_lineage",
    ShowsItsToken: "test_a_secret_is_seen_nowhere",
    WritesItsToken: "test_a_secret_is_seen_nowhere",
}
# Only the case that must detect these runs.
BROKEN_FOR_ONE_CASE = {
    ReadsFoldedNames: NAMED,
    ReadsUnescapedNames: NAMED,
    ReadsStrippedNames: NAMED,
    AcknowledgesNothing: ACKNOWLEDGED,
    AcknowledgesWhatItAssigns: ACKNOWLEDGED,
    AcknowledgesOnlyItsFirstSplit: ACKNOWLEDGED,
    SwallowsEveryError: REFUSED,
    TakesARefusalForTheEnd: REFUSED,
    RetriesARefusal: REFUSED,
    ReadsBehindTheGreatestKey: OUT_OF_ORDER,
    WaitsAWhileForSmallerKeys: OUT_OF_ORDER,
    CountsHiddenRows: OUT_OF_ORDER,
}
BY_NAME = {
    broken.__name__: (broken, seen_by) for broken, seen_by in (BROKEN | BROKEN_FOR_ONE_CASE).items()
}


def broken_source(name):
    """Return a source that is broken, or that has this broken reader or enumerator."""
    broken, _ = BY_NAME[name]
    if issubclass(broken, LogSource):
        return broken
    part = "reader" if issubclass(broken, LogReader) else "enumerator"
    return type(name, (LogSource,), {part: broken})


RUN = """
from test_suites_see_broken_sources import LogSuite, broken_source

Broken = broken_source({name!r})
Broken.__module__, Broken.__qualname__ = __name__, "Broken"

class TestBroken(LogSuite):
    __test__ = True
    source = Broken
"""


@pytest.mark.slow
@pytest.mark.line("4.3", only=True)
@pytest.mark.parametrize("name", sorted(each.__name__ for each in BROKEN))
def test_a_broken_source_fails_the_intended_case(name, pytester):
    assert failed_cases(pytester, RUN.format(name=name)) == {BY_NAME[name][1]}


@pytest.mark.slow
@pytest.mark.line("4.3", only=True)
@pytest.mark.parametrize("name", sorted(each.__name__ for each in BROKEN_FOR_ONE_CASE))
def test_a_broken_source_fails_its_case(name, pytester):
    seen_by = BY_NAME[name][1]
    assert failed_cases(pytester, RUN.format(name=name), only=seen_by) == {seen_by}
