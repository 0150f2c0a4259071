# SPDX-License-Identifier: Apache-2.0
"""Broken parts of connectors, each with the case that must detect it."""

from __future__ import annotations

import base64
import json
import pickle
import random
import shutil
import tempfile
import threading
import types
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from broken_async_sinks import ASYNC_SINKS, async_sink_suite
from broken_log import (
    DoesNotFreeze,
    DropsWhatComesBack,
    FindsMoreBehindTheEnd,
    ForgetsWhatWaits,
    NeverSaysNoMore,
    PlacesABadRecordInItsBatch,
    RaisesPoison,
    SwallowsPoison,
)
from broken_outages import OUTAGE_COMMITTERS, OUTAGE_ENUMERATORS, OUTAGE_READERS
from toy_connector import (
    ABILITIES,
    BATCH_LINES,
    LogEnumerator,
    LogFolder,
    LogReader,
    LogSource,
    LogState,
)
from toy_disk import Disk
from toy_sink import ON_A_SURE_DISK as NO_OUTAGES
from toy_sink import STAGES_FREELY, Directory, LeasedTokenSink, TokenSink

from connectors_core.errors import InvalidOptionError, StateCorruptedError, StateVersionError
from connectors_core.errors import UnknownOptionError as Unknown
from connectors_core.options import Option, OptionSet
from connectors_core.secrets import Secret
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.sink import CommitOutcome
from connectors_core.source import InputStatus
from connectors_core.testing import (
    Capabilities,
    Capability,
    CommitterTestSuite,
    OptionsTestSuite,
    SerializerTestSuite,
    SourceReaderTestSuite,
    SplitEnumeratorTestSuite,
)
from connectors_core.testing.directory_sink import DirectoryWriter as _Writer
from connectors_core.testing.directory_sink import StagedFile, _Committer
from connectors_core.testing.leased_sink import LeasedWriter
from connectors_core.testing.leased_sink import _Committer as _LeasedCommitter
from connectors_core.testing.pace import stretched

# Only outage cases test parts that are broken during an outage.
ON_A_SURE_DISK = {"capabilities": Capabilities(can=ABILITIES, cannot=NO_OUTAGES)}
ON_A_DISK = {"capabilities": Capabilities(can=ABILITIES | NO_OUTAGES.keys()), "system": Disk()}
TICK = timedelta(seconds=1)
POISON = b"{\n"

# --- Readers and enumerators ---------------------------------------------------------------------


class RefusesASecondClose:
    closed = False

    def close(self):
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class ClosesItsClient:
    def start(self):
        self.client = object()
        super().start()

    def close(self):
        self.client = self.client


# --- Readers ------------------------------------------------------------------------------------


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
        at = batch.schema.get_field_index("text")
        schema = batch.schema.set(at, pa.field("text", pa.large_string()))
        self.split.collect(batch.cast(schema))


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
    GivesTwoBatches: "test_a_poll_gives_one_batch_at_most",
    GivesAnotherSchema: "test_batches_have_the_schema_of_the_source",
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
    DropsWhatIsPaused: "test_a_paused_split_gives_nothing_until_it_is_resumed",
    BeginsAPausedSplitAgain: "test_a_paused_split_gives_nothing_until_it_is_resumed",
    CannotBePickled: "test_a_pickled_source_is_the_same",
    KeepsItsReader: "test_a_source_that_made_a_reader_can_still_be_pickled",
    ShowsItsPassword: "test_no_secret_is_shown",  # pragma: allowlist secret
}

# --- Enumerators --------------------------------------------------------------------------------


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

# --- Serializers --------------------------------------------------------------------------------


class LosesAField(JsonDataclassSerializer):
    def deserialize(self, version, data):
        found = super().deserialize(version, data)
        return replace(found, name="") if isinstance(found, StagedFile) else found


class GivesOtherBytes(JsonDataclassSerializer):
    def serialize(self, obj):
        return super().serialize(obj).replace(b"{", b"{" + b" " * random.randrange(1, 1000))


class StaysAtHome(JsonDataclassSerializer):
    def __reduce__(self):
        raise TypeError("it stays here")


class Pickles(VersionedSerializer):
    version = 1

    def __init__(self, cls):
        self.cls = cls

    def serialize(self, obj):
        return json.dumps({"p": base64.b64encode(pickle.dumps(obj)).decode()}).encode()

    def deserialize(self, version, data):
        if version > self.version:
            raise StateVersionError("newer", expected=str(self.version), found=str(version))
        try:
            found = pickle.loads(base64.b64decode(json.loads(data)["p"], validate=True))
        except Exception as error:
            raise StateCorruptedError("garbled", found=str(error)) from error
        if not isinstance(found, self.cls):
            raise StateCorruptedError("something else")
        return found


class ReadsNewerOnes(JsonDataclassSerializer):
    def deserialize(self, version, data):
        return super().deserialize(min(version, self.version), data)


class NamesNoVersion(JsonDataclassSerializer):
    def deserialize(self, version, data):
        if version > self.version:
            raise StateVersionError("stored by a newer release")
        return super().deserialize(version, data)


class RaisesWhatItLikes(JsonDataclassSerializer):
    def deserialize(self, version, data):
        try:
            return super().deserialize(version, data)
        except StateCorruptedError as error:
            raise KeyError("staged") from error


class TakesWhatFollows(JsonDataclassSerializer):
    def deserialize(self, version, data):
        return super().deserialize(version, data.rstrip(b"\0"))


class CountsFromZero(JsonDataclassSerializer):
    def __init__(self, cls):
        super().__init__(cls, version=0)


class ForgotItsPast(JsonDataclassSerializer):
    def __init__(self, cls):
        super().__init__(cls, version=2)


class HasNoFile(JsonDataclassSerializer):
    pass


SERIALIZERS = {
    LosesAField: "test_objects_come_back_as_they_were",
    GivesOtherBytes: "test_the_same_object_gives_the_same_bytes",
    StaysAtHome: "test_a_serializer_survives_pickling",
    Pickles: "test_nothing_stored_is_a_pickle",
    ReadsNewerOnes: "test_a_newer_version_is_refused",
    NamesNoVersion: "test_a_newer_version_is_refused",
    RaisesWhatItLikes: "test_bytes_that_were_cut_off_are_refused",
    TakesWhatFollows: "test_bytes_of_something_else_are_refused",
    CountsFromZero: "test_the_version_is_stored_with_the_object",
    ForgotItsPast: "test_what_earlier_releases_stored_is_read",
    HasNoFile: "test_the_present_version_has_a_file",
}

# --- Committers ---------------------------------------------------------------------------------


class ReusesAName(TokenSink):
    """Uses the same staged file for all attempts of a task."""

    def create_writer(self, context):
        return super().create_writer(replace(context, attempt_number=0, nonce="0"))


class CommitsNothing(_Committer):
    def commit(self, requests):
        pass


class LosesTheSecondCommit(_Committer):
    def commit(self, requests):
        for request in requests:
            if not Path(request.committable.staged).exists():
                request.signal_failed(StateCorruptedError("it is gone"))
            else:
                super().commit([request])


class KnowsOnlyItsOwnLife(_Committer):
    def __init__(self, path, uid):
        super().__init__(path, uid)
        self.done = set()

    def commit(self, requests):
        for request in requests:
            if request.committable in self.done:
                continue
            self.done.add(request.committable)
            if not Path(request.committable.staged).exists():
                request.signal_failed(StateCorruptedError("it is gone"))
            else:
                super().commit([request])


class CommitsInOrderOnly(_Committer):
    last = 0

    def commit(self, requests):
        for request in requests:
            epoch = int(request.committable.name[:10])
            if epoch < self.last:
                request.signal_failed(StateCorruptedError("too late"))
            else:
                self.last = epoch
                super().commit([request])


class NeedsRequests(_Committer):
    def commit(self, requests):
        assert requests
        super().commit(requests)


class SweepsNothing(_Committer):
    def sweep(self, checkpoint_id):
        pass


class SweepsWhatWasCommitted(_Committer):
    def sweep(self, checkpoint_id):
        super().sweep(checkpoint_id)
        for path in self._path.glob(f"{checkpoint_id:010d}-*"):
            path.unlink()


class SweepsOtherEpochs(_Committer):
    def sweep(self, checkpoint_id):
        shutil.rmtree(self._staging, ignore_errors=True)


class SweepsByPrefix(_Committer):
    def sweep(self, checkpoint_id):
        for folder in self._staging.glob("*"):
            if str(int(folder.name)).startswith(str(checkpoint_id)):
                shutil.rmtree(folder)


class SweepsOtherSinks(_Committer):
    def sweep(self, checkpoint_id):
        for folder in self._path.glob(f"_staging/*/{checkpoint_id:010d}"):
            shutil.rmtree(folder)


class SweepsOnce(_Committer):
    def sweep(self, checkpoint_id):
        shutil.rmtree(self._staging / f"{checkpoint_id:010d}")


class RaisesForWhatIsGone(_Committer):
    def commit(self, requests):
        super().commit(requests)
        for request in requests:
            if request.error is not None:
                raise request.error


class FailsWithAForeignError(_Committer):
    def commit(self, requests):
        super().commit(requests)
        for request in requests:
            if request.error is not None:
                request.signal_failed(FileNotFoundError(request.committable.staged))


class RecoversByStagingMore(_Committer):
    def recover(self, last_decided):
        if self._staging.exists():
            (self._staging / f"{last_decided:010d}").mkdir(exist_ok=True)
            (self._staging / f"{last_decided:010d}" / "recovered").touch()


class RecoversWhatIsLater(_Committer):
    def recover(self, last_decided):
        for folder in self._staging.glob("*"):
            if int(folder.name) > last_decided:
                shutil.rmtree(folder)


class RecoversWhatWasDecided(_Committer):
    def recover(self, last_decided):
        for folder in self._staging.glob("*"):
            if int(folder.name) <= last_decided:
                shutil.rmtree(folder)


class TidiesUpWhereAnotherWasFaster(_Committer):
    def commit(self, requests):
        super().commit(requests)
        if requests and all(r.outcome is CommitOutcome.ALREADY_COMMITTED for r in requests):
            shutil.rmtree(self._staging, ignore_errors=True)


class TidiesUpAtItsEnd(_Committer):
    committed = False

    def commit(self, requests):
        super().commit(requests)
        self.committed = True

    def close(self):
        if self.committed:
            shutil.rmtree(self._staging, ignore_errors=True)


class RecoversWithAFolderOnly(_Committer):
    def recover(self, last_decided):
        for folder in self._staging.iterdir():
            folder.stat()


class TakesCommittedRowsAway(_Committer):
    def close(self):
        for path in self._path.glob("*.arrow"):
            path.unlink()


class TakesStagedRowsAway(_Committer):
    def close(self):
        shutil.rmtree(self._staging, ignore_errors=True)


class EndsOnceOnly(_Committer):
    closed = False

    def close(self):
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class ShowsRowsAtOnce(TokenSink):
    def create_writer(self, context):
        return _HastyWriter(self.path, context)


class _HastyWriter(_Writer):
    def flush(self):
        super().flush()
        staged = Path(self._file.staged)
        staged.rename(staged.parents[3] / staged.name)


class StoresAnotherName(TokenSink):
    def committable_serializer(self):
        return _Renaming(StagedFile)


class _Renaming(JsonDataclassSerializer):
    def deserialize(self, version, data):
        found = super().deserialize(version, data)
        return replace(found, staged=found.staged + ".moved")


class SlotOfItsNumber(LeasedTokenSink):
    """Stages into a slot that is derived from the task and the attempt number."""

    def create_writer(self, context):
        return WriterInASlotOfItsNumber(self.path, context)


class WriterInASlotOfItsNumber(LeasedWriter):
    def slot(self, context):
        return f"slot-{context.subtask_id}-{context.attempt_number}"


class OneGeneration(LeasedTokenSink):
    """Lets a late attempt replace the file of another one."""

    def create_writer(self, context):
        lease = replace(context.lease, generation="first")
        return LateWriter(self.path, replace(context, lease=lease))


class LateWriter(LeasedWriter):
    """Publishes a complete file directly in its final place."""

    def __init__(self, path, context):
        super().__init__(path, context)
        self.place = Path(self._file.staged)
        self.made = self.place.with_name(context.nonce)
        self.place.rename(self.made)

    def flush(self):
        super().flush()
        self.place.parent.mkdir(parents=True, exist_ok=True)
        if self.made.exists():
            self.made.rename(self.place)
        else:
            with pa.OSFile(str(self.place), "wb") as file:
                pa.ipc.new_stream(file, pa.schema([])).close()


class KnowsCommitsOfItsLease(_LeasedCommitter):
    """Counts a committable as lost if it is missing and was not committed under this lease."""

    def lease(self, checkpoint_id, number_of_writers):
        (self._path / "leased").write_text("again")
        return super().lease(checkpoint_id, number_of_writers)

    def commit(self, requests):
        leases = self._path / "leased"
        for request in requests:
            if leases.exists() and leases.read_text() == "again" and self.is_there(request):
                request.signal_lost()
            else:
                super().commit([request])
                leases.write_text("committed")

    def is_there(self, request):
        return (self._path / request.committable.name).exists()


class FailsForWhatIsLost(_LeasedCommitter):
    def commit(self, requests):
        super().commit(requests)
        for request in requests:
            if request.outcome is CommitOutcome.LOST:
                request.signal_failed(StateCorruptedError("it is gone"))


class ForgetsWhatItLost(_LeasedCommitter):
    """Reports a loss only once. After that, the loss counts as committed."""

    def commit(self, requests):
        super().commit(requests)
        for request in requests:
            note = self._path / "lost.txt"
            if request.outcome is CommitOutcome.LOST:
                if note.exists() and note.read_text() == request.committable.name:
                    request.signal_already_committed()
                note.write_text(request.committable.name)


LEASED = {
    SlotOfItsNumber: "test_attempts_of_one_number_have_leases_of_their_own",
    OneGeneration: "test_an_attempt_of_the_driver_before_changes_nothing",
    KnowsCommitsOfItsLease: "test_a_commit_is_known_after_another_lease",
    FailsForWhatIsLost: "test_what_is_lost_is_known_and_written_again",
    ForgetsWhatItLost: "test_what_is_lost_is_lost_in_every_life",
}

COMMITTERS = {
    ShowsRowsAtOnce: "test_nothing_is_visible_before_the_commit",
    CommitsNothing: "test_a_commit_makes_rows_visible",
    TakesCommittedRowsAway: "test_rows_stay_when_the_committer_is_closed",
    LosesTheSecondCommit: "test_a_second_commit_changes_nothing",
    ReusesAName: "test_an_attempt_that_lost_changes_nothing",
    KnowsOnlyItsOwnLife: "test_another_life_commits_the_rest",
    CommitsInOrderOnly: "test_epochs_are_committed_in_any_order",
    StoresAnotherName: "test_committables_are_committed_as_they_were_stored",
    NeedsRequests: "test_an_epoch_without_rows_is_committed",
    SweepsNothing: "test_a_sweep_removes_what_nobody_decided_on",
    SweepsWhatWasCommitted: "test_a_sweep_leaves_committed_rows",
    SweepsOtherEpochs: "test_a_sweep_leaves_other_epochs",
    SweepsByPrefix: "test_a_sweep_leaves_other_epochs",
    SweepsOtherSinks: "test_other_sinks_are_left_alone",
    SweepsOnce: "test_a_sweep_can_be_repeated",
    RaisesForWhatIsGone: "test_what_was_swept_fails_alone",
    FailsWithAForeignError: "test_what_was_swept_fails_alone",
    RecoversByStagingMore: "test_recovery_removes_what_was_not_decided",
    RecoversWhatIsLater: "test_recovery_leaves_what_a_later_driver_staged",
    TidiesUpWhereAnotherWasFaster: (
        "test_a_committer_that_resumes_leaves_what_its_successor_prepared"
    ),
    TidiesUpAtItsEnd: "test_a_committer_that_resumes_leaves_what_its_successor_prepared",
    RecoversWhatWasDecided: "test_recovery_leaves_what_was_decided",
    RecoversWithAFolderOnly: "test_recovery_where_there_was_never_anything",
    EndsOnceOnly: "test_closing_twice_does_nothing",
    TakesStagedRowsAway: "test_closing_one_committer_leaves_the_others",
}

# --- Options ------------------------------------------------------------------------------------

PATH = Option("path", str, required=True, doc="Where.")
SIZE = Option("batch-size", int, default=10, doc="How many.")
PASSWORD = Option("password", Secret, doc="With what.")


@dataclass(frozen=True)
class Configured:
    path: str
    size: int
    password: Secret | None

    options = OptionSet(PATH, SIZE, PASSWORD, scope="toy source")

    @classmethod
    def from_options(cls, mapping):
        return cls.of(cls.options.parse(mapping))

    @classmethod
    def of(cls, options):
        return cls(options[PATH], options[SIZE], options.get(PASSWORD))


class RefusesAll(Configured):
    @classmethod
    def from_options(cls, mapping):
        raise InvalidOptionError("no", expected="nothing", option="path")


class WantsSmallLetters(Configured):
    @classmethod
    def from_options(cls, mapping):
        cls.options.parse(mapping)
        unknown = [
            key for key in mapping if key.lower() in cls.options and key not in cls.options.keys
        ]
        if unknown:
            raise Unknown(unknown[0], scope="toy source")
        return super().from_options(mapping)


class HoldsALock(Configured):
    def __init__(self, *values):
        super().__init__(*values)
        object.__setattr__(self, "lock", threading.Lock())


class SaysNothing(Configured):
    options = OptionSet(PATH, replace(SIZE, doc=" "), PASSWORD, scope="toy source")


class SaysNotWhere(Configured):
    options = OptionSet(PATH, SIZE, PASSWORD)


class TakesAnything(Configured):
    @classmethod
    def from_options(cls, mapping):
        return super().from_options({k: v for k, v in mapping.items() if k.lower() in cls.options})


class SuggestsNothing(Configured):
    @classmethod
    def from_options(cls, mapping):
        try:
            return super().from_options(mapping)
        except Unknown as error:
            raise Unknown(error.option or "", scope="toy source") from None


class MissesNothing(Configured):
    @classmethod
    def from_options(cls, mapping):
        return super().from_options({"path": "/tmp"} | {k.lower(): v for k, v in mapping.items()})


class TakesAnyValue(Configured):
    options = OptionSet(PATH, replace(SIZE, type=bool, default=None), PASSWORD, scope="toy source")

    @classmethod
    def from_options(cls, mapping):
        values = {k.lower(): v for k, v in mapping.items()}
        values.pop("batch-size", None)
        return cls(*[cls.options.parse(values).get(each) for each in (PATH, SIZE, PASSWORD)])


class ShowsThePassword(Configured):
    def __repr__(self):
        return f"Configured({self.password.reveal() if self.password else None})"


class ShowsThePasswordInErrors(Configured):
    @classmethod
    def from_options(cls, mapping):
        try:
            return super().from_options(mapping)
        except Unknown as error:
            error.add_note(f"given: {dict(mapping)}")
            raise


OPTIONS = {
    RefusesAll: {"test_valid_options_are_taken", "test_an_unknown_option_is_named_with_its_place"},
    WantsSmallLetters: "test_keys_are_taken_in_any_case",
    HoldsALock: "test_what_options_make_survives_pickling",
    SaysNothing: "test_every_option_is_documented",
    SaysNotWhere: "test_an_unknown_option_is_named_with_its_place",
    TakesAnything: "test_an_unknown_option_is_named_with_its_place",
    SuggestsNothing: "test_a_mistyped_option_is_recognised",
    MissesNothing: "test_a_missing_option_is_named",
    TakesAnyValue: "test_a_value_of_the_wrong_type_is_refused",
    ShowsThePassword: "test_no_secret_is_shown",  # pragma: allowlist secret
    ShowsThePasswordInErrors: "test_no_secret_is_shown",  # pragma: allowlist secret
}

_TABLES = (
    READERS,
    ENUMERATORS,
    SERIALIZERS,
    COMMITTERS,
    LEASED,
    ASYNC_SINKS,
    OPTIONS,
    OUTAGE_READERS,
    OUTAGE_ENUMERATORS,
    OUTAGE_COMMITTERS,
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

    sink = broken if issubclass(broken, TokenSink) else Sink

    def external_context(self, path):
        return Directory(path, sink)

    can = {Capability.EXACTLY_ONCE}
    # pragma: allowlist nextline secret
    cannot = {**STAGES_FREELY, **NO_OUTAGES, Capability.SECRETS: "it is judged in an outage"}
    if broken in OUTAGE_COMMITTERS:
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
    if broken in READERS | OUTAGE_READERS:
        return source_suite(SourceReaderTestSuite, broken)
    if broken in ENUMERATORS | OUTAGE_ENUMERATORS:
        return source_suite(SplitEnumeratorTestSuite, broken)
    if broken in SERIALIZERS:
        return serializer_suite(broken)
    if broken in COMMITTERS | OUTAGE_COMMITTERS:
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
