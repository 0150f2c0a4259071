# SPDX-License-Identifier: Apache-2.0
"""Tests that sinks of Sink V1 run through the adapter with their guarantees."""

from __future__ import annotations

import itertools
import pickle
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_sink import ON_A_SURE_DISK, PLAIN, STAGES_FREELY, STATELESS
from toy_sink_v1 import (
    Folder,
    FolderCommitter,
    FolderSink,
    FolderWriter,
    ListingCommitter,
)

from connectors_core.annotations import ConnectorDeprecationWarning
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.engine.coordinator.plan_log import decisions_since
from connectors_core.engine.state import StateStore
from connectors_core.errors import (
    CommitError,
    ConfigurationError,
    FatalError,
    RetryableError,
    UnsupportedError,
)
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.sink import (
    CommitOutcome,
    CommitRequest,
    CommitterInitContext,
    DeliveryGuarantee,
    StatefulSink,
    SupportsPostCommitTopology,
    TwoPhaseCommittingSink,
)
from connectors_core.sink.v1 import Committer, Sink, SinkV1Adapter, adapter
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing import (
    Capabilities,
    Capability,
    CommitterTestSuite,
    SerializerTestSuite,
    SinkTestSuite,
)
from connectors_core.testing.directory_sink import DirectorySink, StagedFile
from connectors_core.testing.faults import Fault, FaultAction, FaultInjected, FaultPoint, injected
from connectors_core.testing.local_pipeline import LocalPipeline
from connectors_core.testing.merging_sink import MergingDirectorySink
from connectors_core.testing.sink_unit import writer_context
from connectors_core.testing.stateful_sink import Chain, NumberingDirectorySink

pytestmark = pytest.mark.filterwarnings("ignore::connectors_core.ConnectorDeprecationWarning")

ROWS = 60
SECONDS = 30
WRITERS = 2
CONTEXT = CommitterInitContext(pipeline_id="p", sink_uid="out")
COMBINATIONS = [
    pytest.param(
        dict(zip(("stateful", "committing", "listing"), flags, strict=True)),
        id="-".join(
            name if has else f"not {name}"
            for name, has in zip(("stateful", "committing", "global"), flags, strict=True)
        ),
    )
    for flags in itertools.product([False, True], repeat=3)
]
POINTS = [
    FaultPoint.AFTER_PREPARE,
    FaultPoint.AFTER_DECISION,
    FaultPoint.AFTER_COMMIT,
    *(
        pytest.param(point, marks=pytest.mark.slow)
        for point in (FaultPoint.WRITER_WROTE, FaultPoint.BEFORE_DECISION, FaultPoint.AFTER_DONE)
    ),
]


def wrapped(sink):
    return SinkV1Adapter.wrap(sink, parallelism=WRITERS)


class Run:
    """A pipeline into a folder."""

    def __init__(self, root, sink):
        self.root, self.sink = root, sink

    def run(self, *faults, **settings):
        location = str(self.root / "state")
        with injected(*faults), LocalPipeline("p", checkpoint_location=location, **settings) as to:
            source = NumberSequenceSource(0, ROWS - 1, split_rows=10, batch_rows=5)
            rows = to.from_source(source, uid="numbers", limits=ReadLimits(rows=20))
            to.sink_to(rows, wrapped(self.sink), uid="out")
            assert to.run(timeout=SECONDS)
        return to.status()

    def decisions(self):
        store = StateStore(str(self.root / "state")).child("query-0")
        return [each.sinks["out"] for each in decisions_since(store, 0).values()]

    def decided(self):
        serializer = JsonDataclassSerializer(StagedFile)
        stored = [each.committable for sink in self.decisions() for each in sink.committables]
        return [serializer.deserialize(each.version, each.data) for each in stored]

    def states(self):
        serializer = JsonDataclassSerializer(Chain)
        stored = [each for own in self.decisions()[-1].writer_states for each in own]
        return [serializer.deserialize(each.version, each.data) for each in stored]

    def values(self):
        return sorted(DirectorySink(self.sink.path).read()["value"].to_pylist())

    def assert_guaranteed(self):
        """Check the rows, the index, and the states as far as the sink guarantees them."""
        sink = self.sink
        if sink.committing or sink.listing:
            assert self.values() == list(range(ROWS))
        else:
            assert set(self.values()) == set(range(ROWS))
        if sink.listing:
            MergingDirectorySink(sink.path).assert_indexed(self.decided())
        if sink.stateful and (sink.committing or sink.listing):
            NumberingDirectorySink(sink.path).assert_numbered(self.states(), ROWS)
        elif sink.stateful:
            assert sum(chain.next_number for chain in self.states()) == ROWS


@pytest.fixture
def new(tmp_path):
    """Return a function that creates a pipeline into a sink of these parts."""
    (tmp_path / "out").mkdir()
    return lambda kind=FolderSink, **parts: Run(tmp_path, kind(tmp_path / "out", **parts))


# --- Every combination ----------------------------------------------------------------------------


@pytest.mark.parametrize("parts", COMBINATIONS)
def test_an_adapter_has_exactly_the_abilities_of_its_sink(tmp_path, parts):
    sink = wrapped(FolderSink(tmp_path, **parts))
    commits = parts["committing"] or parts["listing"]
    assert isinstance(sink, StatefulSink) == parts["stateful"]
    assert isinstance(sink, TwoPhaseCommittingSink) == commits
    assert isinstance(sink, SupportsPostCommitTopology) == parts["listing"]
    again = pickle.loads(pickle.dumps(sink))
    assert type(again) is type(sink)
    assert repr(again) == repr(sink) == f"SinkV1Adapter({FolderSink(tmp_path, **parts)})"
    assert sink.lineage_datasets() == FolderSink(tmp_path).lineage_datasets()


@pytest.mark.parametrize("parts", COMBINATIONS)
def test_all_rows_arrive_once(new, parts):
    run = new(**parts)
    (status,) = run.run().sinks
    run.assert_guaranteed()
    assert run.values() == list(range(ROWS))
    guarantee = DeliveryGuarantee.AT_LEAST_ONCE
    if parts["committing"] or parts["listing"]:
        guarantee = DeliveryGuarantee.EXACTLY_ONCE
    assert status.guarantee == guarantee


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("parts", COMBINATIONS)
def test_a_failure_at_any_point_keeps_the_guarantee(new, parts, point):
    run = new(**parts)
    fault = Fault(point, action=FaultAction.RAISE, nth=2, once=run.root / "failed")
    try:
        run.run(fault)
    except FaultInjected:  # the driver has failed; a failed task is repeated
        run.run()
    assert fault.fired
    run.assert_guaranteed()


# --- Writers --------------------------------------------------------------------------------------


class CountingWriter(FolderWriter):
    def __init__(self, sink, states, context):
        super().__init__(sink, states)
        self.context = context

    def write(self, element, context):
        super().write(element, context)
        self.context.metric_group.inc("batches")


class CountingSink(FolderSink):
    def create_writer(self, context, states):
        assert 0 <= context.subtask_id < WRITERS
        return CountingWriter(self, states, context)


def test_a_writer_has_the_metrics_and_the_number_of_its_context(new):
    (status,) = new(CountingSink).run().sinks
    assert status.counters["batches"] == ROWS // 5


class ReturnsCommittables(FolderWriter):
    def prepare_commit(self, flush):
        super().prepare_commit(flush)
        return [self.file]


class CommitsNothing(FolderSink):
    def create_writer(self, context, states):
        return ReturnsCommittables(self, states)


def test_committables_of_a_sink_without_a_committer_end_the_pipeline(new):
    with pytest.raises(FatalError, match="no one commits them"):
        new(CommitsNothing).run()


@pytest.mark.parametrize("method", ["timestamp", "current_watermark"])
def test_what_only_a_single_record_has_is_refused(new, method):
    class AsksWriter(FolderWriter):
        def write(self, element, context):
            getattr(context, method)()

    class Asks(FolderSink):
        def create_writer(self, context, states):
            return AsksWriter(self, states)

    with pytest.raises(UnsupportedError) as refused:
        new(Asks).run()
    assert "column" in refused.value.hint


# --- Committers -----------------------------------------------------------------------------------


class Scripted(Committer):
    def __init__(self, answer):
        self.answer = answer
        self.closed = False

    def commit(self, committables):
        return self.answer(committables)

    def close(self):
        self.closed = True


class Answering(Sink):
    """A sink whose committer gives one answer."""

    def __init__(self, answer):
        self.committers = []
        self.answer = answer

    def create_writer(self, context, states):
        raise NotImplementedError

    def create_committer(self):
        self.committers.append(Scripted(self.answer))
        return self.committers[-1]

    def committable_serializer(self):
        return JsonDataclassSerializer(StagedFile)


def committed(answer, committables):
    """Commit with a committer that gives this answer, and return the requests."""
    requests = [CommitRequest(each) for each in committables]
    wrapped(Answering(answer)).create_committer(CONTEXT).commit(requests)
    return requests


def files(*names):
    return [StagedFile(f"/staged/{name}", name) for name in names]


@given(again=st.lists(st.booleans(), max_size=6), twins=st.booleans())
def test_exactly_the_returned_committables_are_retried(again, twins):
    """Equal committables that are different objects are told apart."""
    given_to = files(*["same" if twins else str(n) for n in range(len(again))])
    requests = committed(
        lambda all_: [c for c, bad in zip(all_, again, strict=True) if bad], given_to
    )
    wanted = [CommitOutcome.RETRY if bad else CommitOutcome.COMMITTED for bad in again]
    assert [each.outcome for each in requests] == wanted


def test_one_object_in_two_requests_is_retried_in_both():
    (file,) = files("a")
    requests = committed(lambda given_to: given_to[:1], [file, file])
    assert [each.outcome for each in requests] == [CommitOutcome.RETRY] * 2


def test_an_exception_fails_all_committables():
    error = PermissionError("no")

    def fail(_):
        raise error

    for request in committed(fail, files("a", "b")):
        assert (request.outcome, request.error) == (CommitOutcome.FAILED, error)


def test_an_error_that_may_pass_is_left_to_the_core():
    def fail(_):
        raise RetryableError("busy")

    with pytest.raises(RetryableError, match="busy"):
        committed(fail, files("a"))


def test_a_copy_of_a_committable_is_not_taken_for_a_success():
    (request,) = committed(lambda given_to: pickle.loads(pickle.dumps(given_to)), files("a"))
    assert request.outcome is CommitOutcome.FAILED
    assert "did not get" in str(request.error)


def test_a_committer_may_empty_the_list_that_it_gets():
    def all_again(committables):
        again = list(committables)
        committables.clear()
        return again

    (request,) = committed(all_again, files("a"))
    assert request.outcome is CommitOutcome.RETRY


def test_a_committer_that_is_missing_at_the_start_is_refused():
    sink = Answering(lambda _: [])
    adapted = wrapped(sink)
    sink.create_committer = lambda: None
    with pytest.raises(FatalError, match="lacks a part"):
        adapted.create_committer(CONTEXT)


def test_a_committer_is_closed_with_its_adapter_and_after_wrapping():
    sink = Answering(lambda _: [])
    adapted = wrapped(sink)
    assert [each.closed for each in sink.committers] == [True]
    adapted.create_committer(CONTEXT).close()
    assert [each.closed for each in sink.committers] == [True, True]


class Busy(FolderCommitter):
    """Commits one file at a time."""

    def commit(self, committables):
        super().commit(committables[:1])
        return committables[1:]


class BusySink(FolderSink):
    def create_committer(self):
        return Busy(self.path)


def test_returned_committables_are_committed_later(new):
    run = new(BusySink, committing=True)
    quick = CommitRetries(initial_seconds=0.0, max_seconds=0.0)
    (status,) = run.run(commit_retries=quick).sinks
    run.assert_guaranteed()
    assert status.failed == 0


# --- Global committers ----------------------------------------------------------------------------


class Moody(ListingCommitter):
    """Fails after the first commit, and asks to retry the second one."""

    def commit(self, global_committables):
        listed = len(self.index.index())
        marker = self.index.path / f"_asked-{listed}"
        if listed and not marker.exists():
            marker.touch()
            return global_committables
        super().commit(global_committables)
        if not listed:
            raise OSError("the driver fails after its global commit")
        return []


class MoodySink(FolderSink):
    def create_global_committer(self):
        return Moody(self.path)


@pytest.mark.parametrize("committing", [True, False])
def test_a_global_commit_is_retried_and_never_repeated(new, committing):
    run = new(MoodySink, committing=committing, listing=True)
    with pytest.raises(FatalError, match="OSError") as failure:
        run.run()
    assert isinstance(failure.value.__cause__, OSError)
    quick = CommitRetries(initial_seconds=0.0, max_seconds=0.0)
    run.run(commit_retries=quick)
    run.assert_guaranteed()
    assert list(run.sink.path.glob("_asked-*"))


class NeverDone(ListingCommitter):
    def commit(self, global_committables):
        return global_committables


class NeverDoneSink(FolderSink):
    def create_global_committer(self):
        return NeverDone(self.path)


def test_a_global_commit_that_never_succeeds_ends_the_pipeline(new):
    quick = CommitRetries(attempts=3, initial_seconds=0.0, max_seconds=0.0)
    with pytest.raises(CommitError, match="could not finish the step after the commits") as failure:
        new(NeverDoneSink, listing=True).run(commit_retries=quick)
    assert failure.value.found == "3 attempts"
    assert "NeverDone asks to retry" in str(failure.value.__cause__)


def test_an_epoch_without_committables_creates_no_global_committer(tmp_path):
    created = []

    class Counting(FolderSink):
        def create_global_committer(self):
            created.append(self)
            return super().create_global_committer()

    sink = wrapped(Counting(tmp_path, listing=True))
    sink.add_post_commit_topology([])
    assert len(created) == 1  # at `wrap`


# --- Refused sinks --------------------------------------------------------------------------------


def test_a_committer_without_a_serializer_of_committables_is_refused(tmp_path):
    class Unstorable(FolderSink):
        def committable_serializer(self):
            return None

    for part in ("committing", "listing"):
        with pytest.raises(ConfigurationError, match="cannot be stored") as refused:
            wrapped(Unstorable(tmp_path, **{part: True}))
        assert refused.value.option == "committable_serializer"


def test_a_sink_of_v2_and_a_wrong_number_of_writers_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="DirectorySink is not a sink of Sink V1"):
        SinkV1Adapter.wrap(DirectorySink(tmp_path))
    with pytest.raises(ConfigurationError, match=r"sink\.parallelism"):
        SinkV1Adapter.wrap(FolderSink(tmp_path), parallelism=0)


def test_methods_that_nothing_would_call_are_refused(new):
    class Named(FolderSink):
        def compatible_state_names(self):
            return ["former"]

    class Ending(ListingCommitter):
        closed = 0

        def end_of_input(self):
            pass

        def close(self):
            Ending.closed += 1

    class EndingSink(FolderSink):
        def create_global_committer(self):
            return Ending(self.path)

    class Marked(FolderWriter):
        def write_watermark(self, watermark):
            pass

    class MarkedSink(FolderSink):
        def create_writer(self, context, states):
            return Marked(self, states)

    with pytest.raises(UnsupportedError, match=r"Named.compatible_state_names would never be"):
        new(Named).run()
    with pytest.raises(UnsupportedError, match=r"Ending.end_of_input .* the end of the input"):
        new(EndingSink, listing=True).run()
    assert Ending.closed == 1
    with pytest.raises(UnsupportedError, match=r"Marked.write_watermark .* no watermark"):
        new(MarkedSink).run()


def test_a_refused_writer_is_closed(tmp_path):
    closed = []

    class Marked(FolderWriter):
        def write_watermark(self, watermark):
            pass

        def close(self):
            closed.append(self)

    class MarkedSink(FolderSink):
        def create_writer(self, context, states):
            return Marked(self, states)

    with pytest.raises(UnsupportedError):
        wrapped(MarkedSink(tmp_path)).create_writer(writer_context())
    assert len(closed) == 1


def test_a_stateful_sink_without_a_number_of_writers_is_refused(tmp_path):
    sink = SinkV1Adapter.wrap(FolderSink(tmp_path, stateful=True))
    pipeline = LocalPipeline("p", checkpoint_location=str(tmp_path / "state"))
    rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
    with pytest.raises(ConfigurationError, match="not fixed"):
        pipeline.sink_to(rows, sink, uid="out")
    pipeline.sink_to(rows, sink, uid="out", parallelism=2)


# --- Other abilities ------------------------------------------------------------------------------


def test_an_adapter_checks_the_connection_of_its_sink(tmp_path):
    class Away(FolderSink, SupportsConnectionCheck):
        def check_connection(self, timeout):
            raise RetryableError(f"no answer within {timeout}")

    with pytest.raises(RetryableError, match="within 3"):
        wrapped(Away(tmp_path)).check_connection(3)
    wrapped(FolderSink(tmp_path)).check_connection(3)


def test_a_sink_without_datasets_has_none(tmp_path):
    class Plain(Sink):
        def create_writer(self, context, states):
            raise NotImplementedError

    assert wrapped(Plain()).lineage_datasets() == ()


# --- Deprecation ----------------------------------------------------------------------------------


def test_wrapping_warns_of_the_removal_once_where_it_is_called(tmp_path, monkeypatch):
    fresh = adapter.deprecated(since="1.1.0", removal="2.0.0")(SinkV1Adapter.wrap.__wrapped__)
    monkeypatch.setattr(SinkV1Adapter, "wrap", staticmethod(fresh))
    with pytest.warns(ConnectorDeprecationWarning, match=r"since 1\.1\.0 .* in 2\.0\.0") as seen:
        _ = [SinkV1Adapter.wrap(FolderSink(tmp_path)) for _ in range(2)]
    assert [(each.filename, each.message.removal) for each in seen] == [(__file__, "2.0.0")]


# --- The suites -----------------------------------------------------------------------------------


CANNOT = {
    **STAGES_FREELY,
    **ON_A_SURE_DISK,
    Capability.SECRETS: "a local folder needs none",  # pragma: allowlist secret
    Capability.DATA_TYPES: "an adapter does not touch the rows",
}
ONE_SCHEMA = {Capability.SCHEMA_CHANGE: "the committing sink shows it"}


def folder_of(**parts):
    return partial(Folder, create=lambda path: wrapped(FolderSink(path, **parts)))


@pytest.mark.line("4.3")  # without Spark
class TestCommittingSink(SinkTestSuite):
    capabilities = Capabilities(
        can=frozenset({Capability.EXACTLY_ONCE, Capability.SCHEMA_CHANGE}),
        cannot=CANNOT | STATELESS | PLAIN,
    )

    def external_context(self, folder):
        return folder_of(committing=True)(folder)


class TestFullSink(SinkTestSuite):
    capabilities = Capabilities(
        can=frozenset({Capability.EXACTLY_ONCE, Capability.WRITER_STATE, Capability.TOPOLOGIES}),
        cannot=CANNOT | ONE_SCHEMA,
    )

    def external_context(self, folder):
        return folder_of(stateful=True, committing=True, listing=True)(folder)


@pytest.mark.line("4.3")  # without Spark
class TestPlainSink(SinkTestSuite):
    capabilities = Capabilities(
        cannot=CANNOT
        | ONE_SCHEMA
        | STATELESS
        | PLAIN
        | {Capability.EXACTLY_ONCE: "it has no committer"}
    )

    def external_context(self, folder):
        return folder_of()(folder)


class TestCommitter(CommitterTestSuite):
    capabilities = Capabilities(can=frozenset({Capability.EXACTLY_ONCE}), cannot=CANNOT)
    # Sink V1 sweeps nothing, and an exception of its committer fails all committables.
    test_what_was_swept_fails_alone = None

    def external_context(self, folder):
        return folder_of(committing=True)(folder)


class TestSerializers(SerializerTestSuite):
    state_folder = Path(__file__).parent / "state"

    def external_context(self, folder):
        return folder_of(stateful=True, committing=True)(folder)

    def examples(self):
        return {
            "committable": [StagedFile("/data/_staging/1/a.arrow", "a.arrow")],
            "writer-state": [Chain("0-00000-0-1a2b", 20)],
        }
