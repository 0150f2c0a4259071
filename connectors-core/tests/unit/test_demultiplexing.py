# SPDX-License-Identifier: Apache-2.0
"""Tests that each row arrives once in the sink of its route, whatever stops the driver."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_sink import PLAIN, STAGES_FREELY, STATELESS
from two_sinks import SECONDS

from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.errors import (
    BadRecordError,
    ConfigurationError,
    DataLossError,
    FatalError,
    InvalidOptionError,
    RetryableError,
    UnsupportedError,
)
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.sink import (
    ColumnRouter,
    CommitRequest,
    CommitterInitContext,
    DeliveryGuarantee,
    DemultiplexingSink,
    DiscardingSink,
    SinkRouter,
    StatefulDemultiplexingSink,
    WriterInitContext,
)
from connectors_core.sink.demultiplexing.router import rows_by_route
from connectors_core.source import DataGeneratorSource, ReadLimits
from connectors_core.testing import ROWS as ROWS_OF_SUITES
from connectors_core.testing import (
    Capabilities,
    Capability,
    CommitterTestSuite,
    SinkExternalContext,
    SinkTestSuite,
)
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import (
    WRITING_POINTS,
    Fault,
    FaultAction,
    FaultInjected,
    injected,
)
from connectors_core.testing.leased_sink import LeasedDirectorySink
from connectors_core.testing.local_pipeline import LocalPipeline
from connectors_core.testing.merging_sink import SortingDirectorySink
from connectors_core.testing.stateful_sink import NumberingDirectorySink

ROWS = 120
SCHEMA = pa.schema([("number", pa.int64()), ("target", pa.string())])


def rows_of(targets, numbers):
    """Return rows whose targets take turns."""
    return pa.RecordBatch.from_arrays(
        [numbers, pa.array([targets[number % len(targets)] for number in numbers.to_pylist()])],
        schema=SCHEMA,
    )


def folder_of(root, kind, route):
    """Create the sink of a route; a route with a question mark has none."""
    return None if "?" in route else kind(root / f"route-{route}")


def unfixed(path):
    """Create a sink of numbered rows that leaves the number of writers to its pipeline."""
    return Numbering(path)


class Numbering(NumberingDirectorySink):
    def writer_parallelism(self):
        return None


class FixedDirectorySink(DirectorySink):
    def writer_parallelism(self):
        return 2


class Setup:
    def __init__(self, root):
        self.root = root

    def router(self, kind=DirectorySink, **settings):
        return ColumnRouter("target", partial(folder_of, self.root, kind), **settings)

    def run(self, sink, *faults, targets=("a", "b", "c"), **settings):
        source = DataGeneratorSource(
            partial(rows_of, targets), ROWS, SCHEMA, split_rows=30, batch_rows=7
        )
        pipeline = LocalPipeline(
            "p",
            checkpoint_location=str(self.root / "state"),
            parallelism=2,
            commit_retries=CommitRetries(attempts=2, initial_seconds=0.0, max_seconds=0.0),
        )
        rows = pipeline.from_source(source, uid="rows", limits=ReadLimits(rows=30))
        pipeline.sink_to(rows, sink, uid="out", **settings)
        with injected(*faults), pipeline:
            assert pipeline.run(timeout=SECONDS)
        return pipeline.status().sinks[0]

    def of(self, route):
        return DirectorySink(self.root / f"route-{route}")

    def assert_complete(self, targets=("a", "b", "c")):
        for at, target in enumerate(targets):
            found = self.of(target).read()["number"].to_pylist()
            assert Counter(found) == dict.fromkeys(range(at, ROWS, len(targets)), 1)
            assert not self.of(target).staged()


@pytest.fixture
def setup(tmp_path):
    return Setup(tmp_path)


def test_each_row_arrives_in_the_sink_of_its_route(setup):
    setup.run(DemultiplexingSink(setup.router()))
    setup.assert_complete()


def test_few_open_writers_complete_their_output_early(setup):
    setup.run(DemultiplexingSink(setup.router(), max_open_writers=1))
    setup.assert_complete()
    assert len(list(setup.of("a").path.glob("*.arrow"))) > 8


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("point", WRITING_POINTS)
def test_a_crash_at_any_step_loses_doubles_and_leaves_nothing(setup, point, nth):
    fault = Fault(point, action=FaultAction.RAISE, once=setup.root / "failed", nth=nth)
    sink = DemultiplexingSink(setup.router())
    with contextlib.suppress(FaultInjected):
        setup.run(sink, fault)
    assert fault.fired
    setup.run(sink)
    setup.assert_complete()


@pytest.mark.parametrize("route", ["x?", None])
def test_a_row_without_a_sink_follows_the_record_policy(setup, route):
    targets = ("a", "b", route)
    with pytest.raises(BadRecordError, match=r"null|unknown") as caught:
        setup.run(DemultiplexingSink(setup.router()), targets=targets)
    assert "x?" not in str(caught.value)
    shutil.rmtree(setup.root / "state")
    status = setup.run(
        DemultiplexingSink(setup.router()), targets=targets, record_policy=RecordPolicy.skip()
    )
    assert status.skipped == ROWS // 3
    assert Counter(setup.of("b").read()["number"].to_pylist()) == dict.fromkeys(
        range(1, ROWS, 3), 1
    )


@pytest.mark.parametrize("max_open_writers", [1, 10])
def test_each_route_continues_from_its_own_state(setup, max_open_writers):
    sink = StatefulDemultiplexingSink(
        setup.router(unfixed), max_open_writers=max_open_writers, parallelism=1
    )
    setup.run(sink)
    for target in "abc":
        rows = setup.of(target).read()
        assert len(set(rows["_chain"].to_pylist())) == 1
        assert sorted(rows["_number"].to_pylist()) == list(range(ROWS // 3))
    setup.assert_complete()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (SortingDirectorySink, "rearranges rows.*SupportsPreWriteTopology.*sink_to of their own"),
        (LeasedDirectorySink, "rewrites lost rows.*SupportsRewriting.*sink_to of their own"),
        (unfixed, "keeps state.*StatefulSink.*use StatefulDemultiplexingSink"),
        (FixedDirectorySink, "number of writers.*writer_parallelism.*set parallelism of the Demu"),
        (lambda path: DiscardingSink(), "is not exactly-once.*set delivery_guarantee"),
    ],
)
def test_a_sink_with_an_ability_that_a_route_cannot_have_is_refused(setup, kind, message):
    sink = DemultiplexingSink(setup.router(kind, known=["a"]))
    with pytest.raises(UnsupportedError, match="(?s)route 'a'.*" + message):
        setup.run(sink)
    assert not (setup.root / "route-a").exists()


def test_a_sink_without_commits_is_written_at_least_once(setup):
    sink = DemultiplexingSink(
        setup.router(lambda path: DiscardingSink()),
        delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
    )
    assert setup.run(sink).rows == ROWS


def test_rows_without_the_column_of_the_route_are_refused(setup):
    router = ColumnRouter("region", partial(folder_of, setup.root, DirectorySink))
    with pytest.raises(ConfigurationError, match="no column 'region'"):
        setup.run(DemultiplexingSink(router))
    with pytest.raises(ConfigurationError, match="cannot name routes"):
        router.validate(pa.schema([("region", pa.list_(pa.int8()))]))


def test_numbers_that_must_be_positive(setup):
    with pytest.raises(InvalidOptionError, match="max_open_writers"):
        DemultiplexingSink(setup.router(), max_open_writers=0)
    with pytest.raises(InvalidOptionError, match="parallelism"):
        DemultiplexingSink(setup.router(), parallelism=0)


def test_known_routes_name_the_datasets(setup):
    sink = DemultiplexingSink(setup.router(known=["a", "b"]))
    assert [each.name.rpartition("-")[2] for each in sink.lineage_datasets()] == ["a", "b"]
    assert sink.writer_keys() == ("target",)


# --- Writers and committers without a pipeline ----------------------------------------------------


def staged(sink, targets, epoch=3, **context):
    """Stage a row for each target, and return the committables."""
    writer = sink.create_writer(
        WriterInitContext(
            pipeline_id="p",
            sink_uid="out",
            checkpoint_id=epoch,
            subtask_id=0,
            attempt_number=0,
            nonce="n",
            schema=SCHEMA,
            record_errors=RecordErrorHandler(RecordPolicy.fail()),
            **context,
        )
    )
    writer.write(rows_of(targets, pa.array(range(len(targets)))))
    writer.flush()
    made = writer.prepare_commit()
    writer.close()
    serializer = sink.committable_serializer()
    return [serializer.deserialize(1, serializer.serialize(each)) for each in made]


def committer_of(sink):
    return sink.create_committer(CommitterInitContext(pipeline_id="p", sink_uid="out"))


def test_a_committer_sweeps_what_failed_before_it_knew_the_route(setup):
    sink = DemultiplexingSink(setup.router())
    staged(sink, "a", epoch=2)  # of an epoch that failed
    committer = committer_of(sink)
    committer.sweep(2)
    committer.recover(2)
    decided = staged(sink, "a")
    committer.commit([CommitRequest(each) for each in decided])
    committer.sweep(3)
    assert setup.of("a").read()["number"].to_pylist() == [0]
    assert setup.of("a").staged() == []


def test_known_routes_are_swept_before_any_commit(setup):
    sink = DemultiplexingSink(setup.router(known=["a"]))
    staged(sink, "a")
    committer_of(sink).sweep(3)
    assert setup.of("a").staged() == []


class Busy(DirectorySink):
    """A sink whose committer is unavailable once."""

    def create_committer(self, context):
        if (self.path / "busy").exists():
            (self.path / "busy").unlink()
            raise RetryableError("busy")
        return super().create_committer(context)


def test_a_route_that_is_unavailable_or_lost_does_not_affect_the_others(setup):
    sink = DemultiplexingSink(setup.router(Busy))
    requests = [CommitRequest(each) for each in staged(sink, "abc")]
    assert [each.committable.route for each in requests] == ["a", "b", "c"]
    (setup.of("a").path / "busy").touch()
    shutil.rmtree(setup.of("b").path / "_staging")
    committer = committer_of(sink)
    committer.commit(requests)
    assert [each.outcome.name for each in requests] == ["RETRY", "FAILED", "COMMITTED"]
    assert isinstance(requests[0].error, RetryableError)
    assert isinstance(requests[1].error, DataLossError)
    again = [requests[0].next_try(), replace_request(requests[2])]
    committer.commit(again)
    assert [each.outcome.name for each in again] == ["COMMITTED", "ALREADY_COMMITTED"]


class BusyRecovery(DirectorySink):
    """A sink whose committer cannot recover at once, and notes its calls."""

    calls: ClassVar[list[str]] = []

    def create_committer(self, context):
        committer, calls = super().create_committer(context), self.calls

        def recover(last_decided):
            calls.append("recover")
            if len(calls) == 1:
                raise RetryableError("busy")

        committer.recover = recover
        committer.close = lambda: calls.append("close")
        return committer


def test_a_route_commits_nothing_before_its_recovery(setup):
    sink = DemultiplexingSink(setup.router(BusyRecovery))
    (request,) = [CommitRequest(each) for each in staged(sink, "a")]
    committer = committer_of(sink)
    committer.recover(2)
    committer.commit([request])
    assert request.outcome.name == "RETRY"
    again = request.next_try()
    committer.commit([again])
    assert again.outcome.name == "COMMITTED"
    assert BusyRecovery.calls == ["recover", "close", "recover"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_router_must_return_a_route_for_each_row(count):
    batch = pa.RecordBatch.from_pydict({"at": [0, 1]})
    with pytest.raises(FatalError, match="a route for each row"):
        list(rows_by_route(batch, pa.array(["a"] * count, pa.string())))


def replace_request(request):
    return CommitRequest(request.committable, 1)


def test_a_route_that_no_longer_exists_fails_its_committables(setup):
    requests = [
        CommitRequest(replace(each, route="x?"))
        for each in staged(DemultiplexingSink(setup.router()), "a")
    ]
    committer_of(DemultiplexingSink(setup.router())).commit(requests)
    assert [each.outcome.name for each in requests] == ["FAILED"]


@given(st.lists(st.sampled_from(["a", "b", None, ""]), min_size=1, max_size=60))
def test_a_batch_is_divided_in_order(routes):
    batch = pa.RecordBatch.from_pydict({"at": list(range(len(routes)))})
    found = {
        name: (rows["at"].to_pylist(), positions.tolist())
        for name, rows, positions in rows_by_route(batch, pa.array(routes, pa.string()))
    }
    expected = {
        name: [at for at, each in enumerate(routes) if each == name]
        for name in dict.fromkeys(routes)
    }
    assert {name: rows for name, (rows, _) in found.items()} == expected
    assert all(rows == positions for rows, positions in found.values())


def test_values_of_other_types_are_routes_too():
    router = ColumnRouter("at", lambda route: None)
    batch = pa.RecordBatch.from_pydict(
        {"at": pc.dictionary_encode(pa.array([7, 8, 7], pa.int32()))}
    )
    assert router.routes(batch).to_pylist() == ["7", "8", "7"]


# --- The suites -----------------------------------------------------------------------------------


class ByRemainder(SinkRouter):
    """Routes rows by the remainder of their number."""

    def __init__(self, root):
        self.root = root

    def routes(self, batch):
        numbers = batch["seq"]
        thirds = pc.multiply(pc.divide(numbers, 3), 3)
        return pc.cast(pc.subtract(numbers, thirds), pa.string())

    def create_sink(self, route):
        return DirectorySink(self.root / route)


class Folders(SinkExternalContext):
    def __init__(self, folder):
        self.sinks = [DirectorySink(folder / route) for route in "012"]
        self.sink = DemultiplexingSink(KnownRemainders(folder), max_open_writers=2)

    def create_sink(self):
        return self.sink

    def read_back(self, schema=ROWS_OF_SUITES):
        parts = [part for part in (sink.read() for sink in self.sinks) if part.num_columns]
        if not parts:
            return schema.empty_table()
        return pa.concat_tables(parts, promote_options="default").select(schema.names).cast(schema)

    def leftovers(self):
        return [path.name for sink in self.sinks for path in sink.staged()]


CAN = Capabilities(
    can=frozenset({Capability.EXACTLY_ONCE, Capability.SCHEMA_CHANGE}),
    cannot={
        **STAGES_FREELY,
        **STATELESS,
        **PLAIN,
        Capability.COMMITTED_EPOCHS: "each route has epochs of its own",
        Capability.DATA_TYPES: "shown by the sink of the routes",
        Capability.OUTAGES: "a local folder is always there",
        Capability.SECRETS: "a local folder needs none",  # pragma: allowlist secret
    },
)


@pytest.mark.line("4.3")
class TestDemultiplexedSink(SinkTestSuite):
    capabilities = CAN

    def external_context(self, folder):
        return Folders(folder)


@pytest.mark.line("4.3")
class TestDemultiplexedCommitter(CommitterTestSuite):
    capabilities = CAN

    def external_context(self, folder):
        context = Folders(folder)
        context.sink = DemultiplexingSink(KnownRemainders(folder))
        return context


class KnownRemainders(ByRemainder):
    def known_routes(self):
        return "012"
