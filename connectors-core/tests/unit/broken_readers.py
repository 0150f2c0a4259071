# SPDX-License-Identifier: Apache-2.0
"""Broken readers, each with the case that must detect it. See `broken_units`."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from broken_log import (
    ClosesItsClient,
    PlacesABadRecordInItsBatch,
    RaisesPoison,
    RefusesASecondClose,
    SwallowsPoison,
)
from toy_connector import (
    BATCH_LINES,
    LogReader,
    LogSource,
)

from connectors_core.source import InputStatus
from connectors_core.testing.pace import stretched

POISON = b"{\n"


class LosesTheLastLine(LogReader):
    def add_splits(self, splits):
        super().add_splits([replace(s, end=self.last_line(s)) for s in splits])

    def last_line(self, split):
        text = (Path(self.source.folder) / split.split_id).read_bytes()
        return text[: max(0, split.end - 1)].rfind(b"\n") + 1


class EndsBeforeItIsTold(LogReader):
    def poll_next(self, output):
        return super().poll_next(output) if self.splits else InputStatus.END_OF_INPUT


class EndsBehindItsSplits(LogReader):
    had = False

    def add_splits(self, splits):
        self.had = True
        super().add_splits(splits)

    def poll_next(self, output):
        status = super().poll_next(output)
        return InputStatus.END_OF_INPUT if self.had and not self.splits else status


class EndsBeforeTheLastSplit(LogReader):
    def poll_next(self, output):
        if self.closing and len(self.splits) == 1:
            return InputStatus.END_OF_INPUT
        return super().poll_next(output)


class EndsOnce(LogReader):
    ended = False

    def poll_next(self, output):
        if self.ended:
            return InputStatus.NOTHING_AVAILABLE
        status = super().poll_next(output)
        self.ended = status is InputStatus.END_OF_INPUT
        return status


class StaysWhereItWas(LogReader):
    """Returns the position before the batch, so the rows of a cut batch are repeated."""

    def __init__(self, source, context):
        super().__init__(source, context)
        self.before = {}

    def emit(self, split, lines, output):
        self.before[split.split_id] = split.position
        super().emit(split, lines, output)

    def snapshot_state(self):
        return [
            replace(s, position=self.before.get(s.split_id, s.position))
            for s in super().snapshot_state()
        ]


class GoesTooFar(LogReader):
    def snapshot_state(self):
        return [
            replace(s, position=s.position + len(self.read(s)[0])) if s.position else s
            for s in super().snapshot_state()
        ]


class ForgetsItsLastBatch(LogReader):
    def snapshot_state(self):
        return [s for s in super().snapshot_state() if len(self.read(s)) == BATCH_LINES]


class ForgetsWhatItFetched(LogReader):
    """A split leaves the state at its fetch, and its only batch is emitted at the next poll."""

    batch_lines = 1_000
    fetched = False

    def poll_next(self, output):
        self.fetched = bool(self.splits) and not self.fetched
        return InputStatus.MORE_AVAILABLE if self.fetched else super().poll_next(output)

    def snapshot_state(self):
        gone = self.splits[:1] if self.fetched else []
        return [split for split in super().snapshot_state() if split not in gone]


class GivesTwoBatches(LogReader):
    def poll_next(self, output):
        status = super().poll_next(output)
        return super().poll_next(output) if self.splits else status


class GivesAnotherSchema(LogReader):
    def poll_next(self, output):
        return super().poll_next(_LargeTexts(output))


class _LargeTexts:
    def __init__(self, output):
        self.output = output

    def create_output_for_split(self, split_id):
        self.split = self.output.create_output_for_split(split_id)
        return self

    def collect(self, batch):
        fields = [
            field.with_type(pa.large_string()) if field.name == "text" else field
            for field in batch.schema
        ]
        self.split.collect(batch.cast(pa.schema(fields)))


class CutsElsewhere(LogReader):
    made = 0

    def __init__(self, source, context):
        super().__init__(source, context)
        CutsElsewhere.made += 1
        self.batch_lines = BATCH_LINES + CutsElsewhere.made % 2


class TakesSplitsOnce(LogReader):
    taken = False

    def add_splits(self, splits):
        if not self.taken:
            super().add_splits(splits)
        self.taken = True


class StopsAtNothing(LogReader):
    def poll_next(self, output):
        if any(not split.end for split in self.splits):
            return InputStatus.NOTHING_AVAILABLE
        return super().poll_next(output)


class NeverWaits(LogReader):
    def wait_available(self, timeout):
        return True


class SeesNothing(LogReader):
    def wait_available(self, timeout):
        return False


class LeavesAThread(LogReader):
    def start(self):
        threading.Thread(target=threading.Event().wait, args=(60,), daemon=True).start()


class LeavesAFile(LogReader):
    opened: ClassVar[list] = []

    def start(self):
        folder = Path(self.source.folder)
        self.opened.extend(path.open() for path in folder.glob("*.log"))


class LeavesATemporaryFile(LogReader):
    def start(self):
        with tempfile.NamedTemporaryFile(delete=False):
            pass


class ClosesOnce(RefusesASecondClose, LogReader):
    pass


class NeedsItsStart(ClosesItsClient, LogReader):
    pass


class ClosesSlowly(LogReader):
    def close(self):
        if self.splits and not self.splits[0].position and len(self.splits) == 3:
            threading.Event().wait(stretched(2.0))


class NamesNoPlace(LogReader):
    def bad(self, split, number, line, error):
        super().bad(replace(split, split_id=""), number, line, error)


class SkipsTheLineBehindABadOne(LogReader):
    def emit(self, split, lines, output):
        bad = [number for number, line in enumerate(lines) if line == POISON]
        behind = {n + 1 for n in bad if n + 1 < len(lines) and lines[n + 1] != POISON}
        kept = [
            b" " * (len(each) - 1) + b"\n" if n in behind else each for n, each in enumerate(lines)
        ]
        super().emit(split, kept, output)

    def bad(self, split, position, line, error):
        if line.strip():
            super().bad(split, position, line, error)


class ForgetsTheSizeOfABadLine(LogReader):
    def emit(self, split, lines, output):
        super().emit(split, lines, output)
        (at,) = (n for n, each in enumerate(self.splits) if each.split_id == split.split_id)
        if POISON in lines and lines[-1] != POISON and len(lines) == BATCH_LINES:
            self.splits[at] = replace(
                self.splits[at], position=self.splits[at].position - len(lines[-1])
            )


class MeetsABadRecordAgain(LogReader):
    """Resumes before a bad line at the end of a batch."""

    def snapshot_state(self):
        return [self.before(split) for split in super().snapshot_state()]

    def before(self, split):
        data = (Path(self.source.folder) / split.split_id).read_bytes()[: split.position]
        again = len(POISON) if data.endswith(b"\n" + POISON) else 0
        return replace(split, position=split.position - again)


class PlacesABadRecordAtItsBatch(LogReader):
    def bad(self, split, position, line, error):
        super().bad(split, split.position, line, error)


class PlacesABadRecordSinceItsStart(LogReader):
    def add_splits(self, splits):
        super().add_splits(splits)
        self.first = {split.split_id: split.position for split in splits}

    def bad(self, split, position, line, error):
        super().bad(split, position - self.first[split.split_id], line, error)


class PausesNothing(LogReader):
    def pause_or_resume_splits(self, splits_to_pause, splits_to_resume):
        pass


class ResumesNothing(LogReader):
    def pause_or_resume_splits(self, splits_to_pause, splits_to_resume):
        super().pause_or_resume_splits(splits_to_pause, [])


class DropsWhatIsPaused(LogReader):
    def pause_or_resume_splits(self, splits_to_pause, splits_to_resume):
        self.splits = [split for split in self.splits if split.split_id not in splits_to_pause]


class BeginsAPausedSplitAgain(LogReader):
    def pause_or_resume_splits(self, splits_to_pause, splits_to_resume):
        super().pause_or_resume_splits(splits_to_pause, splits_to_resume)
        self.splits = [
            replace(split, position=0) if split.split_id in splits_to_resume else split
            for split in self.splits
        ]


class ReadsOneAfterAnother(LogReader):
    @property
    def active(self):
        return [] if self.paused else super().active


class SaysThatNoSplitWaits(LogSource):
    reader = ReadsOneAfterAnother

    def split_traits(self):
        return replace(super().split_traits(), ordered=False)


class LosesRowsOfAProjection(LogReader):
    """Reads no line in which the only column of a projection has a null."""

    def parse(self, line):
        row = super().parse(line)
        if len(self.source.schema()) == 1 and row[self.source.schema().names[0]] in (None, 0):
            raise ValueError("no value")
        return row


class ProjectsNothing(LogSource):
    def apply_projection(self, fields):
        return self


class CannotBePickled(LogSource):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.lock = threading.Lock()


class KeepsItsReader(LogSource):
    def create_reader(self, context):
        self.last = super().create_reader(context)
        self.last.lock = threading.Lock()
        return self.last


class ShowsItsPassword(LogSource):
    def __repr__(self):
        return f"LogSource({self.token.reveal()})"


READERS = {
    LosesTheLastLine: "test_a_split_is_read_to_its_end",
    EndsBeforeItIsTold: ("test_a_reader_without_splits_waits_until_it_is_told_that_there_are_none"),
    EndsBehindItsSplits: "test_a_reader_that_read_its_splits_waits_for_more",
    EndsBeforeTheLastSplit: "test_the_end_comes_behind_the_last_row_and_stays",
    EndsOnce: "test_the_end_comes_behind_the_last_row_and_stays",
    StaysWhereItWas: "test_a_position_moves_forward_with_every_batch",
    GoesTooFar: "test_a_reader_made_anew_at_any_position_gives_the_rest",
    ForgetsItsLastBatch: "test_a_split_is_in_the_state_until_it_is_read",
    ForgetsWhatItFetched: "test_a_split_is_in_the_state_until_it_is_read",
    GivesTwoBatches: "test_a_poll_gives_one_batch_at_most",
    GivesAnotherSchema: "test_batches_have_the_schema_of_the_source",
    LosesRowsOfAProjection: "test_a_projection_gives_the_same_rows_with_fewer_columns",
    ProjectsNothing: "test_a_projection_gives_the_same_rows_with_fewer_columns",
    CutsElsewhere: "test_the_same_split_gives_the_same_rows_again",
    TakesSplitsOnce: "test_splits_added_while_others_are_read_are_read_too",
    StopsAtNothing: "test_a_split_without_rows_holds_nothing_up",
    NeverWaits: "test_waiting_in_vain_ends_in_time",
    SeesNothing: "test_waiting_ends_when_there_is_something",
    LeavesAThread: "test_closing_in_the_middle_leaves_nothing",
    LeavesAFile: "test_closing_in_the_middle_leaves_nothing",
    LeavesATemporaryFile: "test_closing_in_the_middle_leaves_nothing",
    ClosesOnce: "test_closing_twice_does_nothing",
    NeedsItsStart: "test_a_reader_that_never_started_can_be_closed",
    ClosesSlowly: "test_closing_in_the_middle_is_quick",
    SwallowsPoison: "test_a_bad_record_is_handed_over_with_its_place",
    RaisesPoison: "test_a_bad_record_is_handed_over_with_its_place",
    NamesNoPlace: "test_a_bad_record_is_handed_over_with_its_place",
    SkipsTheLineBehindABadOne: "test_bad_records_between_others_move_no_position",
    ForgetsTheSizeOfABadLine: "test_bad_records_between_others_move_no_position",
    MeetsABadRecordAgain: "test_bad_records_between_others_move_no_position",
    PlacesABadRecordInItsBatch: "test_a_bad_record_has_one_place_wherever_a_read_begins",
    PlacesABadRecordAtItsBatch: "test_a_bad_record_has_one_place_wherever_a_read_begins",
    PlacesABadRecordSinceItsStart: "test_a_bad_record_has_one_place_wherever_a_read_begins",
    PausesNothing: "test_a_paused_split_gives_nothing_until_it_is_resumed",
    ResumesNothing: "test_a_paused_split_gives_nothing_until_it_is_resumed",
    SaysThatNoSplitWaits: "test_a_paused_split_gives_nothing_until_it_is_resumed",
    DropsWhatIsPaused: "test_a_paused_split_gives_nothing_until_it_is_resumed",
    BeginsAPausedSplitAgain: "test_a_paused_split_gives_nothing_until_it_is_resumed",
    CannotBePickled: "test_a_pickled_source_is_the_same",
    KeepsItsReader: "test_a_source_that_made_a_reader_can_still_be_pickled",
    ShowsItsPassword: "test_no_secret_is_shown",  # pragma: allowlist secret
}
