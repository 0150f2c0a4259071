# SPDX-License-Identifier: Apache-2.0
"""Broken enumerators, each with the case that must detect it. See `broken_units`."""

from __future__ import annotations

from dataclasses import replace

from broken_log import (
    ClosesItsClient,
    DoesNotFreeze,
    DropsWhatComesBack,
    FindsMoreBehindTheEnd,
    ForgetsWhatWaits,
    NeverSaysNoMore,
    RefusesASecondClose,
)
from toy_connector import (
    EndAt,
    LogEnumerator,
    LogReader,
    LogState,
)


class StartsTooEarly(LogEnumerator):
    def __init__(self, context, source, state):
        super().__init__(context, source, state)
        context.call_async(self.discover, self.found)


class AssignsTwice(LogEnumerator):
    def split_of(self, name):
        split = super().split_of(name)
        self.waiting.append(replace(split, split_id=f"{name}/"))
        return split


class ReadsUpToTheSign(LogReader):
    def read(self, split):
        return super().read(replace(split, split_id=split.split_id.partition("?")[0]))


class NamesSplitsByChance(LogEnumerator):
    reader = ReadsUpToTheSign
    numbers = iter(range(1_000_000))

    def split_of(self, name):
        return replace(super().split_of(name), split_id=f"{name}?{next(self.numbers)}")


class AnswersTheFirstReaderOnly(NeverSaysNoMore):
    def assign(self):
        super().assign()
        self.asking &= {0}
        LogEnumerator.assign(self)


class EndsWithoutAnEnd(LogEnumerator):
    def assign(self):
        super().assign()
        for subtask in sorted(self.asking):
            self.context.signal_no_more_splits(subtask)


class SpeaksAfterItsEnd(LogEnumerator):
    def notify_checkpoint_complete(self, checkpoint_id):
        self.context.send_event_to_source_reader(0, EndAt({}))


class GivesTheNewestFirst(LogEnumerator):
    def assign(self):
        self.waiting.sort(key=lambda split: split.split_id, reverse=True)
        super().assign()


class FindsNothingNew(LogEnumerator):
    ending = False

    def found(self, names, error):
        super().found(() if self.known and not self.ending else names, error)

    def freeze_end(self):
        self.ending = True
        super().freeze_end()


class DropsWhatComesBackLate(LogEnumerator):
    def add_splits_back(self, splits, subtask_id):
        if self.waiting:
            super().add_splits_back(splits, subtask_id)


class PutsSeveralInPlaceOfWhatWaits(LogEnumerator):
    def add_splits_back(self, splits, subtask_id):
        if len(splits) > 1:
            self.waiting[: len(splits)] = []
        super().add_splits_back(splits, subtask_id)


class ForgetsPositions(LogEnumerator):
    def add_splits_back(self, splits, subtask_id):
        super().add_splits_back([replace(s, position=0) for s in splits], subtask_id)


class ChangesItsSnapshots(LogEnumerator):
    last = None

    def snapshot_state(self, checkpoint_id):
        self.last = super().snapshot_state(checkpoint_id)
        return self.last

    def assign(self):
        super().assign()
        if self.last is not None:
            object.__setattr__(self.last, "waiting", tuple(self.waiting))


class ForgetsItsBatchRun(LogEnumerator):
    def snapshot_state(self, checkpoint_id):
        return LogState((), ()) if checkpoint_id < 0 else super().snapshot_state(checkpoint_id)


class ForgetsWhatItFound(LogEnumerator):
    def __init__(self, context, source, state):
        super().__init__(context, source, LogState(state.waiting, ()))


class LooksOnce(LogEnumerator):
    """Discovers new files only if it has not found any before."""

    def __init__(self, context, source, state):
        super().__init__(context, source, state)
        self.restored = bool(state.known)

    def found(self, names, error):
        super().found([n for n in names if n in self.known] if self.restored else names, error)


class ForgetsWhatCameBack(LogEnumerator):
    """Assigns returned splits that are missing in earlier snapshots."""

    def __init__(self, context, source, state):
        super().__init__(context, source, state)
        self.returned = set()

    def add_splits_back(self, splits, subtask_id):
        self.returned |= {split.split_id for split in splits}
        super().add_splits_back(splits, subtask_id)

    def snapshot_state(self, checkpoint_id):
        waiting = tuple(s for s in self.waiting if s.split_id not in self.returned)
        return LogState(waiting, tuple(sorted(self.known)))


class ForgetsWhatCameBackAlone(ForgetsWhatCameBack):
    """Keeps returned splits while other splits are waiting."""

    def add_splits_back(self, splits, subtask_id):
        if self.waiting:
            LogEnumerator.add_splits_back(self, splits, subtask_id)
        else:
            super().add_splits_back(splits, subtask_id)


class SwallowsErrors(LogEnumerator):
    def found(self, names, error):
        super().found(names or (), None)


class HidesErrors(LogEnumerator):
    def found(self, names, error):
        if error is not None:
            raise RuntimeError("something went wrong") from None
        super().found(names, None)


class EndsOnlyOnce(RefusesASecondClose, LogEnumerator):
    pass


class EndsOnlyAfterItsStart(ClosesItsClient, LogEnumerator):
    pass


ENUMERATORS = {
    StartsTooEarly: "test_nothing_happens_before_the_start",
    AssignsTwice: "test_every_split_is_assigned_once",
    NamesSplitsByChance: "test_a_split_has_the_same_id_whenever_it_is_found",
    NeverSaysNoMore: "test_every_reader_is_told_that_there_are_no_more",
    AnswersTheFirstReaderOnly: "test_every_reader_is_told_that_there_are_no_more",
    EndsWithoutAnEnd: "test_without_an_end_no_reader_is_told_of_one",
    GivesTheNewestFirst: ("test_a_split_that_appears_before_every_request_keeps_no_other_waiting"),
    FindsNothingNew: "test_splits_that_appear_are_found_once",
    DoesNotFreeze: "test_a_run_to_what_is_available_now_ends",
    DropsWhatComesBack: "test_splits_of_a_reader_that_goes_away_go_to_others",
    DropsWhatComesBackLate: "test_splits_that_come_back_late_are_assigned_too",
    PutsSeveralInPlaceOfWhatWaits: (
        "test_several_splits_that_come_back_take_no_place_of_those_that_wait"
    ),
    FindsMoreBehindTheEnd: "test_what_appears_behind_the_end_is_not_found_after_a_restart",
    SpeaksAfterItsEnd: "test_another_source_can_follow_it",
    ForgetsItsBatchRun: "test_a_batch_run_that_resumes_has_the_same_splits",
    ForgetsPositions: "test_a_split_that_comes_back_keeps_its_position",
    ChangesItsSnapshots: "test_a_snapshot_stays_as_it_was_taken",
    ForgetsWhatWaits: "test_an_enumerator_restored_at_any_moment_goes_on",
    ForgetsWhatItFound: "test_an_enumerator_restored_at_any_moment_goes_on",
    LooksOnce: "test_discovery_goes_on_after_a_restart",
    ForgetsWhatCameBack: "test_several_splits_that_come_back_take_no_place_of_those_that_wait",
    ForgetsWhatCameBackAlone: "test_a_random_walk_loses_and_doubles_nothing",
    SwallowsErrors: "test_an_error_of_a_discovery_reaches_the_coordinator",
    HidesErrors: "test_an_error_of_a_discovery_reaches_the_coordinator",
    EndsOnlyOnce: "test_closing_twice_does_nothing",
    EndsOnlyAfterItsStart: "test_an_enumerator_that_never_started_can_be_closed",
}
