# SPDX-License-Identifier: Apache-2.0
"""Tests the sink suite: each broken sink fails the one case that must detect it."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from broken_connectors import failed_cases
from broken_names import WritesFoldedNames, WritesStrippedNames, WritesUnescapedNames
from broken_outages import is_late
from toy_disk import Disk, access, available
from toy_sink import (
    ON_A_SURE_DISK,
    PLAIN,
    STAGES_FREELY,
    STATELESS,
    CompactingTokenSink,
    Directory,
    DiskWriter,
    HoldingTokenSink,
    LeasedTokenSink,
    MergingTokenSink,
    NumberingTokenSink,
    TokenSink,
)

from connectors_core.errors import CommitError, RetryableError
from connectors_core.lineage import LineageDataset
from connectors_core.options import RecordedOption
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.sink import (
    CommitOutcome,
    Committer,
    CommittingSinkWriter,
    SupportsCommittedEpoch,
    SupportsLeases,
    committables_of,
)
from connectors_core.testing import Capabilities, Capability, SinkTestSuite
from connectors_core.testing.compacting_sink import InGroups
from connectors_core.testing.directory_sink import DirectoryWriter, StagedFile

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.line("4.3")  # without Spark

CAN = Capabilities(
    can=frozenset(
        {
            Capability.EXACTLY_ONCE,
            Capability.COMMITTED_EPOCHS,
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
            Capability.OUTAGES,
        }
    ),
    cannot=STAGES_FREELY | STATELESS | PLAIN,
)


class DirectorySuite(SinkTestSuite):
    system = Disk()
    sink = TokenSink
    capabilities = CAN
    __test__ = False

    def external_context(self, folder):
        return Directory(folder, self.sink)


class TestCorrectSink(DirectorySuite):
    __test__ = True


STEP = Decimal("1e-18")


def special(ability):
    """Return the capabilities of a sink that also has one of the abilities, without outages."""
    others = STAGES_FREELY | STATELESS | PLAIN | ON_A_SURE_DISK
    return Capabilities(
        can=CAN.can - ON_A_SURE_DISK.keys() | ability.keys(),
        cannot={name: why for name, why in others.items() if name not in ability},
    )


class LeasedSuite(DirectorySuite):
    sink = LeasedTokenSink
    capabilities = special(STAGES_FREELY)


class TestCorrectLeasedSink(LeasedSuite):
    __test__ = True


class NumberingSuite(DirectorySuite):
    sink = NumberingTokenSink
    capabilities = special(STATELESS)


class TestCorrectNumberingSink(NumberingSuite):
    __test__ = True


class MergingSuite(DirectorySuite):
    sink = MergingTokenSink
    capabilities = special(PLAIN)


class TestCorrectMergingSink(MergingSuite):
    __test__ = True


class HoldingSuite(DirectorySuite):
    sink = HoldingTokenSink
    capabilities = special(PLAIN)


class TestCorrectHoldingSink(HoldingSuite):
    __test__ = True


class CompactingSuite(DirectorySuite):
    sink = CompactingTokenSink
    capabilities = special({})


@pytest.mark.slow  # the sink of the page about compaction runs always
class TestCorrectCompactingSink(CompactingSuite):
    __test__ = True


# --- Broken writers ----------------------------------------------------------------------------


class Writer(CommittingSinkWriter):
    """A correct writer, from which the broken ones derive."""

    def __init__(self, sink, context):
        self.sink, self.inner = sink, TokenSink.create_writer(sink, context)

    def write(self, batch):
        self.inner.write(batch)

    def flush(self):
        self.inner.flush()

    def prepare_commit(self):
        return self.inner.prepare_commit()

    def close(self):
        self.inner.close()


class LosesTheLastBatch(Writer):
    waiting = None

    def write(self, batch):
        if self.waiting is not None:
            super().write(self.waiting)
        self.waiting = batch


class WritesNoNulls(Writer):
    def write(self, batch):
        if "text" in batch.schema.names:
            place = batch.schema.get_field_index("text")
            filled = pc.fill_null(batch["text"], "")
            batch = batch.set_column(place, batch.schema.field(place), filled)
        super().write(batch)


class WritesTextsInCapitals(Writer):
    """Affects only one column name and type, which a simple test would not use."""

    def write(self, batch):
        if batch.schema.names == ["id", "value"] and batch["value"].type == pa.string():
            batch = batch.set_column(1, batch.schema.field(1), pc.utf8_upper(batch["value"]))
        super().write(batch)


class ChangesValues(Writer):
    """Converts columns of one type through another type."""

    type = None

    def write(self, batch):
        if batch.schema.names == ["id", "value"] and batch["value"].type == self.type:
            changed = self.change(batch["value"]).cast(self.type)
            batch = batch.set_column(1, batch.schema.field(1), changed)
        super().write(batch)


class WritesDecimalsAsFloats(ChangesValues):
    type = pa.decimal128(38, 18)

    def change(self, values):
        with localcontext(prec=60):
            floats = [each and Decimal(float(each)).quantize(STEP) for each in values.to_pylist()]
        return pa.array(floats, self.type)


class WritesNoNegativeZero(ChangesValues):
    type = pa.float64()

    def change(self, values):
        return pc.add(values, 0.0)


class WritesNormalizedTexts(ChangesValues):
    type = pa.string()

    def change(self, values):
        return pc.utf8_normalize(values, "NFC")


class DropsFurtherColumns(Writer):
    def write(self, batch):
        if "extra" in batch.schema.names:
            nothing = pa.nulls(batch.num_rows, pa.string())
            batch = batch.set_column(4, batch.schema.field(4), nothing)
        super().write(batch)


class PublishesAtOnce(Writer):
    """Publishes its rows before any decision."""

    def prepare_commit(self):
        (file,) = super().prepare_commit()
        shutil.move(file.staged, self.sink.path / file.name)
        return [file]


class SharesItsRows(Writer):
    """All sinks of a task write to the first one."""

    first = threading.local()

    def __init__(self, sink, context):
        super().__init__(sink, context)
        task = (context.checkpoint_id, context.subtask_id, context.attempt_number)
        if getattr(self.first, "task", None) != task:
            self.first.task, self.first.writer = task, self.inner

    def write(self, batch):
        self.first.writer.write(batch)


class LeavesAThread(Writer):
    def close(self):
        super().close()
        threading.Thread(target=threading.Event().wait, args=(30,), daemon=True).start()


class LeavesAFileOpen(Writer):
    def prepare_commit(self):
        (file,) = super().prepare_commit()
        os.open(file.staged, os.O_RDONLY)
        return [file]


class LeavesATemporaryFile(Writer):
    def close(self):
        super().close()
        tempfile.mkstemp()


class WritesItsToken(Writer):
    """Puts its token into a committable, and therefore into decisions."""

    def prepare_commit(self):
        (file,) = super().prepare_commit()
        folder = Path(file.staged).parent / self.sink.token.reveal()
        folder.mkdir(exist_ok=True)
        return [replace(file, staged=str(folder / ".." / Path(file.staged).name))]


class LogsItsToken(Writer):
    def close(self):
        super().close()
        logging.getLogger("toy").debug("closed with %s", self.sink.token.reveal())


class DropsWhatIsWrittenAgainAndAgain(Writer):
    """Counts data as bad after four attempts without a commit."""

    written: ClassVar[Counter] = Counter()

    def write(self, batch):
        key = str(self.sink.path), str(batch.slice(0, 1).to_pylist())
        if self.written[key] < 4:
            super().write(batch)
            self.written[key] += 1


class LosesWhatItCannotWrite(Writer):
    def write(self, batch):
        with contextlib.suppress(RetryableError):
            super().write(batch)

    def flush(self):
        DirectoryWriter.flush(self.inner)  # bypasses the disk check


class LeavesAFileOpenWhereItCannotWrite(Writer):
    def write(self, batch):
        file = os.open(self.sink.path, os.O_RDONLY)
        super().write(batch)
        os.close(file)


class DropsWhatIsLate(Writer):
    def write(self, batch):
        if not is_late():
            super().write(batch)


class WritesWhatIsLateTwice(Writer):
    """Repeats a request that took effect late."""

    def write(self, batch):
        for _ in range(2 if is_late() else 1):
            super().write(batch)


class TellsItsTokenInANote(Writer):
    def write(self, batch):
        try:
            super().write(batch)
        except RetryableError as error:
            error.add_note(f"not with {self.sink.token.reveal()}")
            raise


class TellsItsTokenInTheCause(Writer):
    def write(self, batch):
        try:
            super().write(batch)
        except RetryableError:
            cause = OSError(f"PUT /?token={self.sink.token.reveal()}")
            raise RetryableError("the disk does not answer") from cause


# --- Broken committers -------------------------------------------------------------------------


class Commit(Committer, SupportsCommittedEpoch):
    """A correct committer, from which the broken ones derive."""

    def __init__(self, sink, context):
        self.sink, self.inner = sink, TokenSink.create_committer(sink, context)

    def commit(self, requests):
        self.inner.commit(requests)

    def sweep(self, checkpoint_id):
        self.inner.sweep(checkpoint_id)

    def recover(self, last_decided):
        self.inner.recover(last_decided)

    def newest_committed_epoch(self):
        return self.inner.newest_committed_epoch()


class KnowsItsStateOnly(Commit):
    def recover(self, last_decided):
        self.newest = last_decided
        super().recover(last_decided)

    def newest_committed_epoch(self):
        return self.newest


class RemembersWhatItCommitted(Commit):
    newest = None

    def commit(self, requests):
        super().commit(requests)
        self.newest = self.inner.newest_committed_epoch()

    def newest_committed_epoch(self):
        return self.newest


class CountsStagedEpochs(Commit):
    """A restart then calls its own state older."""

    def newest_committed_epoch(self):
        found = super().newest_committed_epoch()
        return None if found is None else found + 1


class RefusesOlderState(Commit):
    def recover(self, last_decided):
        super().recover(last_decided)
        self.last = last_decided

    def newest_committed_epoch(self):
        newest = super().newest_committed_epoch()
        # A restored pipeline has a fence far above its epochs.
        if newest is not None and self.last > newest + 1000:
            raise CommitError("the state is older than the output")
        return newest


class CommitsAgain(Commit):
    """Does not detect an earlier commit."""

    def commit(self, requests):
        for request in requests:
            file = request.committable
            name = self.sink.path / file.name
            if name.exists():
                shutil.copy(name, name.with_suffix(".again.arrow"))
        super().commit(requests)


class CommitsAllOrNothing(Commit):
    """Counts all committables as committed if the first one is."""

    def commit(self, requests):
        first = self.sink.path / requests[0].committable.name if requests else None
        if first is None or not first.exists():
            super().commit(requests)


class NumbersItsFiles(Commit):
    """Numbers its files from zero again after a restart."""

    number = 0

    def commit(self, requests):
        for request in requests:
            file = request.committable
            if Path(file.staged).exists():
                Path(file.staged).rename(self.sink.path / f"{self.number:010d}-.arrow")
                self.number += 1


class TakesALateConnectionForAnEmptyCommit(Commit):
    def commit(self, requests):
        with ThreadPoolExecutor(1) as pool:  # each commit has a connection of its own
            if not pool.submit(is_late).result():
                super().commit(requests)


class SweepsNothing(Commit):
    def sweep(self, checkpoint_id):
        pass


class SweepsLaterEpochs(Commit):
    """Also removes staged data of a driver that took over."""

    def sweep(self, checkpoint_id):
        for later in range(checkpoint_id, checkpoint_id + 8):
            self.inner.sweep(later)


class TakesLostForCommitted(Committer, SupportsLeases):
    """Never reports a loss."""

    def __init__(self, sink, context):
        self.inner = LeasedTokenSink.create_committer(sink, context)
        self.sweep, self.recover = self.inner.sweep, self.inner.recover

    def lease(self, checkpoint_id, number_of_writers):
        return self.inner.lease(checkpoint_id, number_of_writers)

    def commit(self, requests):
        there = [each for each in requests if Path(each.committable.staged).exists()]
        self.inner.commit(there)


# --- Broken states -----------------------------------------------------------------------------


class ForgetsItsState(NumberingTokenSink):
    def restore_writer(self, context, states):
        return self.create_writer(context)


class KeepsOneState(NumberingTokenSink):
    """Drops states when fewer writers resume."""

    def restore_writer(self, context, states):
        return super().restore_writer(context, states[:1])


class KeepsStateBeside(NumberingTokenSink):
    """Stores its state in files, which do not wait for a decision."""

    def create_writer(self, context):
        return self.restore_writer(context, [])

    def restore_writer(self, context, states):
        writer = super().create_writer(context)
        file = self.path / f"{context.subtask_id}.state"
        if file.exists():
            name, number = file.read_text().split()
            writer.chain = replace(writer.chain, name=name, next_number=int(number))
        elif states:
            writer.chain, *writer.others = states
        inner = writer.snapshot_state

        def snapshot_state(checkpoint_id):
            file.write_text(f"{writer.chain.name} {writer.chain.next_number}")
            return inner(checkpoint_id)

        writer.snapshot_state = snapshot_state
        return writer


# --- Broken topologies -------------------------------------------------------------------------


class ForgetsWhatIsMerged(MergingTokenSink):
    """Its serializer changes the committables, so they differ after the decision."""

    def add_pre_commit_topology(self, messages):
        merged = super().add_pre_commit_topology(messages)
        return [Merged(each.staged, each.name, files=2) for each in merged]

    def committable_serializer(self):
        return ForgettingSerializer(StagedFile)


class LeavesWhatItMerged(MergingTokenSink):
    """Merges into a folder that no rollback sweeps."""

    def add_pre_commit_topology(self, messages):
        merged = []
        for each in super().add_pre_commit_topology(messages):
            aside = self.path / "_staging" / "merged" / "all" / each.name
            aside.parent.mkdir(parents=True, exist_ok=True)
            merged.append(replace(each, staged=str(Path(each.staged).rename(aside))))
        return merged


class ForgetsWhatIsCombined(HoldingTokenSink):
    """Its serializer changes the combined committables."""

    def combined(self, group, checkpoint_id):
        made = super().combined(group, checkpoint_id)
        return Merged(made.staged, made.name, files=2)

    def committable_serializer(self):
        return ForgettingSerializer(StagedFile)


class CombinesWhatItRemembers(HoldingTokenSink):
    """Combines only what it has seen since its driver started."""

    def add_pre_commit_topology_over_epochs(self, held, checkpoint_id, *, everything):
        seen = self.__dict__.setdefault("seen", set())
        seen |= {each for each in held if each.checkpoint_id == checkpoint_id}
        known = [each for each in held if each in seen]
        return super().add_pre_commit_topology_over_epochs(
            known, checkpoint_id, everything=everything
        )


class SweepsWhatIsHeld(HoldingTokenSink):
    def create_committer(self, context):
        committer = super().create_committer(context)
        committer.sweep_others = lambda checkpoint_id, held: committer.sweep(checkpoint_id)
        return committer


class IndexesTheFirst(MergingTokenSink):
    """Indexes the first committables only. With a merge, these are all committables of an epoch."""

    def add_pre_commit_topology(self, messages):
        return committables_of(messages)

    def add_post_commit_topology(self, messages):
        self.enter(each.name for each in committables_of(messages)[:1])


class CommitsWhenItSweeps(MergingTokenSink):
    """Commits during the sweep, and so after the post-commit topology."""

    def create_committer(self, context):
        return LateCommit(self, context)


class IndexesAgain(MergingTokenSink):
    """Does not detect entries that already exist."""

    def add_post_commit_topology(self, messages):
        self.enter(each.name for each in committables_of(messages))


class IndexesWhatItHasCommitted(MergingTokenSink):
    """Indexes only its own commits, and not those of the previous driver."""

    def create_committer(self, context):
        return NotingCommit(self, context)

    def add_post_commit_topology(self, messages):
        self.enter(self.committed)
        self.committed = []


class MergesNothing(CompactingTokenSink):
    """Asks for each file alone."""

    def create_compaction(self):
        return replace(super().create_compaction(), coordinator=InGroups(1))


@dataclass(frozen=True)
class Merged(StagedFile):
    files: int


class ForgettingSerializer(JsonDataclassSerializer):
    def serialize(self, obj):
        return super().serialize(StagedFile(obj.staged, obj.name))


class LateCommit(Commit):
    requests = ()

    def commit(self, requests):
        self.requests = requests

    def sweep(self, checkpoint_id):
        self.inner.commit(self.requests)
        self.requests = ()
        super().sweep(checkpoint_id)


class NotingCommit(Commit):
    def commit(self, requests):
        super().commit(requests)
        new = [each for each in requests if each.outcome is CommitOutcome.COMMITTED]
        self.sink.committed = [each.committable.name for each in new]


# --- Broken by a clock -------------------------------------------------------------------------


class StampsItsFiles(Writer):
    def prepare_commit(self):
        (file,) = super().prepare_commit()
        stamped = Path(file.staged).rename(f"{file.staged}@{time.time()}")
        return [replace(file, staged=str(stamped))]


class GivesUpWhatIsOld(TokenSink):
    """Removes old files, as a sink does that cleans up after drivers that it presumes dead."""

    def create_writer(self, context):
        return StampsItsFiles(self, context)

    def create_committer(self, context):
        return CommitOfWhatIsYoung(self, context)


class CommitOfWhatIsYoung(Commit):
    def commit(self, requests):
        for request in requests:
            if time.time() - float(request.committable.staged.rpartition("@")[2]) > 1800:
                request.signal_already_committed()
            else:
                super().commit([request])


# --- Broken sinks ------------------------------------------------------------------------------


class FindsItsDiskAnyway(TokenSink):
    def check_connection(self, timeout):
        with contextlib.suppress(RetryableError):
            available()


class LooksForItsDiskAgainAndAgain(TokenSink):
    """Ignores the timeout, as a client with its own timeout does."""

    def check_connection(self, timeout):
        ends = time.monotonic() + 2 * timeout
        while time.monotonic() < ends:
            with contextlib.suppress(RetryableError):
                return available()
        available()


class TellsWhatItsClientSays(TokenSink):
    def check_connection(self, timeout):
        access()


class ShowsItsToken(TokenSink):
    def __repr__(self):
        return f"TokenSink({self.token.reveal()!r})"


class NamesItsToken(TokenSink):
    def lineage_datasets(self):
        return (LineageDataset(namespace="file", name=f"{self.path}/{self.token.reveal()}"),)


class NamesADatasetWithoutAName(TokenSink):
    def lineage_datasets(self):
        return (LineageDataset(namespace="file", name=""),)


class WritesElsewhereAfterAChange(TokenSink):
    def create_writer(self, context):
        return DiskWriter(self.path / "other" if self.changed else self.path, context)


class BeginsAgainAfterAChange(TokenSink):
    def create_committer(self, context):
        if self.changed:
            for file in self.path.glob("*.arrow"):
                file.unlink()
        return super().create_committer(context)


class RefusesAChangeWithoutARemedy(TokenSink):
    def recorded_options(self, schema):
        return [RecordedOption(name="changed", value=str(self.changed), hint="")]


def local_class():
    class CannotBeImported(TokenSink):
        pass

    return CannotBeImported


NAMED = "test_a_column_of_any_name_arrives"
OLDER = "test_state_that_is_older_than_the_output_is_named_before_rows_are_written_again"
LATE = "test_first_responses_that_are_late_in_every_life_lose_nothing"
CHANGED = "test_a_restart_with_one_changed_option_is_exact_or_refused"
BROKEN = {
    LosesTheLastBatch: "test_all_rows_arrive_as_they_were",
    WritesNoNulls: "test_nulls_arrive_as_nulls",
    WritesTextsInCapitals: "test_values_of_every_type_arrive_as_they_were",
    WritesDecimalsAsFloats: "test_values_that_are_hard_to_keep_arrive_as_they_were",
    WritesNoNegativeZero: "test_values_that_are_hard_to_keep_arrive_as_they_were",
    WritesNormalizedTexts: "test_values_that_are_hard_to_keep_arrive_as_they_were",
    DropsFurtherColumns: "test_rows_with_a_further_column_from_a_restart_on",
    PublishesAtOnce: "test_nothing_is_visible_before_its_epoch_is_decided",
    SharesItsRows: "test_two_sinks_of_one_kind_do_not_touch_each_other",
    LeavesAThread: "test_no_thread_handle_or_temporary_file_is_left",
    LeavesAFileOpen: "test_no_thread_handle_or_temporary_file_is_left",
    LeavesATemporaryFile: "test_no_thread_handle_or_temporary_file_is_left",
    WritesItsToken: "test_a_secret_is_seen_nowhere",
    LogsItsToken: "test_a_secret_is_seen_nowhere",
    DropsWhatIsWrittenAgainAndAgain: "test_full_storage_loses_and_doubles_nothing",
    GivesUpWhatIsOld: "test_a_driver_with_another_clock_takes_over",
    LosesWhatItCannotWrite: "test_an_outage_while_rows_are_written_loses_nothing",
    LeavesAFileOpenWhereItCannotWrite: "test_a_write_that_fails_leaves_nothing",
    TellsItsTokenInANote: "test_no_secret_is_shown_by_a_failure",
    TellsItsTokenInTheCause: "test_no_secret_is_shown_by_a_failure",
    CommitsAgain: "test_a_driver_that_fails_is_restarted",
    CommitsAllOrNothing: "test_a_commit_that_fails_in_its_middle_is_finished",
    NumbersItsFiles: "test_a_restart_goes_on_with_as_many_more_or_fewer_writers",
    KnowsItsStateOnly: OLDER,
    RemembersWhatItCommitted: OLDER,
    CountsStagedEpochs: OLDER,
    RefusesOlderState: OLDER,
    DropsWhatIsLate: LATE,
    WritesWhatIsLateTwice: LATE,
    TakesALateConnectionForAnEmptyCommit: LATE,
    WritesElsewhereAfterAChange: CHANGED,
    BeginsAgainAfterAChange: CHANGED,
    RefusesAChangeWithoutARemedy: CHANGED,
    SweepsLaterEpochs: "test_a_driver_that_was_frozen_resumes_beside_its_successor",
    SweepsNothing: "test_nothing_is_visible_before_its_epoch_is_decided",
    ShowsItsToken: "test_a_secret_is_seen_nowhere",
    NamesItsToken: "test_datasets_are_named_for_lineage",
    NamesADatasetWithoutAName: "test_datasets_are_named_for_lineage",
    TakesLostForCommitted: "test_what_is_lost_in_an_epoch_is_written_again",
    ForgetsItsState: "test_writers_go_on_from_their_states",
    KeepsOneState: "test_states_are_dealt_out_to_more_or_fewer_writers",
    KeepsStateBeside: "test_the_state_of_what_is_written_again_is_never_seen",
    ForgetsWhatIsMerged: "test_what_the_pre_commit_topology_gives_is_decided_on",
    IndexesTheFirst: "test_what_is_committed_passes_the_post_commit_topology",
    ForgetsWhatIsCombined: "test_what_a_topology_holds_over_epochs_is_decided_on_once",
    CombinesWhatItRemembers: "test_a_driver_that_fails_at_a_topology_is_restarted",
    SweepsWhatIsHeld: "test_all_rows_arrive_as_they_were",
    CommitsWhenItSweeps: "test_what_is_committed_passes_the_post_commit_topology",
    LeavesWhatItMerged: "test_a_driver_that_fails_at_a_topology_is_restarted",
    IndexesAgain: "test_a_driver_that_fails_at_a_topology_is_restarted",
    IndexesWhatItHasCommitted: "test_a_driver_that_fails_at_a_topology_is_restarted",
    MergesNothing: "test_committables_are_merged_before_their_commit",
    FindsItsDiskAnyway: "test_a_system_that_is_not_there_is_named_in_time",
    LooksForItsDiskAgainAndAgain: "test_a_system_that_is_not_there_is_named_in_time",
    TellsWhatItsClientSays: "test_a_system_that_is_not_there_is_named_in_time",
    local_class(): "test_a_sink_survives_pickling",
}
# Only the case that must detect these runs.
BROKEN_FOR_ONE_CASE = {
    WritesFoldedNames: NAMED,
    WritesUnescapedNames: NAMED,
    WritesStrippedNames: NAMED,
}
BY_NAME = {
    broken.__name__: (broken, seen_by) for broken, seen_by in (BROKEN | BROKEN_FOR_ONE_CASE).items()
}


class SinkOfBrokenParts(TokenSink):
    """Create a sink with this writer or committer."""

    writer, committer = Writer, Commit

    def create_writer(self, context):
        return self.writer(self, context)

    def create_committer(self, context):
        return self.committer(self, context)


def broken_sink(name):
    """Return a sink that is broken, or that has this broken writer or committer."""
    broken, _ = BY_NAME[name]
    if issubclass(
        broken,
        TokenSink | NumberingTokenSink | MergingTokenSink | HoldingTokenSink | CompactingTokenSink,
    ):
        return broken
    if broken is TakesLostForCommitted:
        return type(
            name,
            (LeasedTokenSink,),
            {"create_committer": lambda self, context: broken(self, context)},
        )
    part = "writer" if issubclass(broken, Writer) else "committer"
    return type(name, (SinkOfBrokenParts,), {part: broken})


RUN = """
from test_suites_see_broken_sinks import (
    CompactingSuite, DirectorySuite, HoldingSuite, LeasedSuite, MergingSuite, NumberingSuite,
    broken_sink
)
from toy_sink import (
    CompactingTokenSink, HoldingTokenSink, LeasedTokenSink, MergingTokenSink, NumberingTokenSink
)

Broken = broken_sink({name!r})
if {name!r} != "CannotBeImported":
    Broken.__module__, Broken.__qualname__ = __name__, "Broken"

Suite = DirectorySuite
if issubclass(Broken, LeasedTokenSink):
    Suite = LeasedSuite
if issubclass(Broken, NumberingTokenSink):
    Suite = NumberingSuite
if issubclass(Broken, MergingTokenSink):
    Suite = MergingSuite
if issubclass(Broken, HoldingTokenSink):
    Suite = HoldingSuite
if issubclass(Broken, CompactingTokenSink):
    Suite = CompactingSuite

class TestBroken(Suite):
    __test__ = True
    sink = Broken
"""


@pytest.mark.slow
@pytest.mark.line("4.3", only=True)
@pytest.mark.parametrize("name", sorted(each.__name__ for each in BROKEN))
def test_a_broken_sink_fails_the_intended_case(name, pytester):
    assert failed_cases(pytester, RUN.format(name=name)) == {BY_NAME[name][1]}


@pytest.mark.slow
@pytest.mark.line("4.3", only=True)
@pytest.mark.parametrize("name", sorted(each.__name__ for each in BROKEN_FOR_ONE_CASE))
def test_a_broken_sink_fails_its_case(name, pytester):
    seen_by = BY_NAME[name][1]
    assert failed_cases(pytester, RUN.format(name=name), only=seen_by) == {seen_by}
