# SPDX-License-Identifier: Apache-2.0
"""Tests `AsyncSinkWriter` with a service that throttles, reorders, and fails."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_service import (
    POISON,
    SCHEMA,
    Behaviour,
    ColumnsWriter,
    Entry,
    Service,
    ServiceWriter,
    rows,
)

from connectors_core.clients.retries import RetryPolicy
from connectors_core.errors import (
    BadRecordError,
    FatalError,
    InvalidOptionError,
    RetryableError,
    UnsupportedError,
)
from connectors_core.metrics import SinkMetric
from connectors_core.records import RecordPolicy
from connectors_core.sink import (
    AsyncSink,
    AsyncSinkWriterConfiguration,
    FixedRateLimitingStrategy,
    RateLimiting,
    RateLimitingStrategy,
    RequestInfo,
    ResultInfo,
    TwoPhaseCommittingSink,
    capacity,
    request_sender,
)

SOON = timedelta(milliseconds=1)
LATE = timedelta(hours=1)
DEADLINE = 20.0


def configuration(**changes: Any) -> AsyncSinkWriterConfiguration:
    """Limits that are reached soon, without pauses between retries."""
    bounds: dict[str, Any] = {
        "max_batch_size": 5,
        "max_in_flight_requests": 3,
        "max_buffered_requests": 12,
        "max_batch_size_in_bytes": 100,
        "max_record_size_in_bytes": 50,
        "max_time_in_buffer": LATE,
        "initial_backoff": timedelta(microseconds=50),
        "max_backoff": timedelta(microseconds=100),
    }
    return AsyncSinkWriterConfiguration(**(bounds | changes))


class Open(RateLimitingStrategy):
    """Allows everything, so only the limits of the writer apply."""

    @property
    def max_batch_size(self) -> int:
        return 1_000

    def should_block(self, request: RequestInfo) -> bool:
        return False

    def register_in_flight_request(self, request: RequestInfo) -> None:
        pass

    def register_completed_request(self, result: ResultInfo) -> None:
        pass


BEHAVIOURS = st.lists(
    st.builds(
        Behaviour,
        turns=st.integers(0, 8),
        refused=st.lists(st.integers(0, 999), max_size=4).map(tuple),
        error=st.booleans(),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(
    behaviours=BEHAVIOURS,
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), max_size=40), max_size=4
    ),
    ordered=st.booleans(),
    strategy=st.sampled_from([None, Open]),
    kind=st.sampled_from([ServiceWriter, ColumnsWriter]),
    bounds=st.fixed_dictionaries(
        {
            "max_batch_size": st.integers(1, 8),
            "max_in_flight_requests": st.integers(1, 4),
            "max_buffered_requests": st.integers(8, 20),
            "max_batch_size_in_bytes": st.integers(50, 200),
        }
    ),
)
def test_no_entry_is_lost_or_duplicated_and_no_limit_is_exceeded(
    behaviours: list[Behaviour],
    batches: list[list[tuple[int, int]]],
    ordered: bool,
    strategy: type[Open] | None,
    kind: type[ServiceWriter],
    bounds: dict[str, int],
) -> None:
    service = Service(behaviours)
    limits = configuration(**bounds)
    numbers = iter(range(10_000))
    sent: list[dict[str, int]] = []
    held: list[int] = []
    own = strategy and strategy()
    with closing(kind(service, limits, ordered=ordered, strategy=own)) as writer:
        service.on_request = lambda: held.append(writer._sending._buffer.count)
        for batch in batches:
            found = [{"number": next(numbers), "key": key, "size": size} for key, size in batch]
            writer.write(pa.RecordBatch.from_pylist(found, schema=SCHEMA))
            sent += found
        writer.flush()
    assert sorted(entry.number for entry in service.accepted) == [row["number"] for row in sent]
    assert service.most_in_flight <= limits.max_in_flight_requests
    assert max(held, default=0) <= limits.max_buffered_requests
    for request in service.requests:
        assert 1 <= len(request) <= limits.max_batch_size
        assert sum(entry.size for entry in request) <= limits.max_batch_size_in_bytes
        keys = [entry.key for entry in request if entry.key]
        assert not ordered or len(set(keys)) == len(keys)
    if ordered:
        for key in range(1, 4):
            assert [entry.number for entry in service.accepted if entry.key == key] == [
                row["number"] for row in sent if row["key"] == key
            ]


@contextmanager
def writing(service: Service, **changes: Any) -> Iterator[ServiceWriter]:
    """Yield a writer and close it at the end, even after an error."""
    named = {
        name: changes.pop(name)
        for name in ("ordered", "policy", "strategy", "uid")
        if name in changes
    }
    with closing(ServiceWriter(service, configuration(**changes), **named)) as writer:
        yield writer


def test_entries_with_one_key_are_sent_in_order_despite_failures() -> None:
    service = Service([Behaviour(turns=5, refused=(0,)), Behaviour(error=True)])
    with writing(service, ordered=True) as writer:
        writer.write(rows(range(12), keys=3))
        writer.flush()
    for key in range(1, 4):
        accepted = [entry.number for entry in service.accepted if entry.key == key]
        assert accepted == sorted(accepted)


def test_a_full_request_is_sent_without_a_flush_and_a_partial_one_is_not() -> None:
    service = Service()
    sent = threading.Event()
    service.on_request = sent.set
    with writing(service) as writer:
        writer.write(rows(range(7)))
        assert sent.wait(DEADLINE)
        assert [len(request) for request in service.requests] == [5]
        writer.flush()
    assert [len(request) for request in service.requests] == [5, 2]


def test_an_entry_is_buffered_no_longer_than_the_configured_time() -> None:
    service = Service()
    sent = threading.Event()
    service.on_request = sent.set
    with writing(service, max_time_in_buffer=SOON) as writer:
        writer.write(rows(range(1)))
        assert sent.wait(DEADLINE)


def test_only_refused_entries_are_sent_again() -> None:
    service = Service([Behaviour(refused=(0, 400))])
    with writing(service) as writer:
        writer.write(rows(range(5)))
        writer.flush()
        counters = writer.context.metric_group.counters
    assert [[entry.number for entry in request] for request in service.requests] == [
        [0, 1, 2, 3, 4],
        [0, 2],
    ]
    assert counters[SinkMetric.NUM_REQUESTS] == 2
    assert counters[SinkMetric.NUM_RETRIES] == 2


def test_a_retry_contains_no_new_entries() -> None:
    """Otherwise a service that always accepts the same part could refuse these entries forever."""
    service = Service([Behaviour(refused=(0, 400))])
    with writing(service, max_in_flight_requests=1, max_batch_size=5) as writer:
        writer.write(rows(range(15)))
        writer.flush()
    requests = [[entry.number for entry in request] for request in service.requests]
    assert sorted(requests) == [[0, 1, 2, 3, 4], [0, 2], [5, 6, 7, 8, 9], [10, 11, 12, 13, 14]]


def test_pauses_grow_only_while_the_service_accepts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts: list[int] = []

    def pause(_: RetryPolicy, tries: int, *__: object) -> float:
        attempts.append(tries)
        return 0.0

    monkeypatch.setattr(RetryPolicy, "pause", pause)
    half, nothing = Behaviour(refused=tuple(range(500, 1000, 10))), Behaviour(error=True)
    service = Service([half] * 4 + [nothing] * 2)
    with writing(service, max_batch_size=60, max_buffered_requests=60) as writer:
        writer.write(rows(range(60)))
        writer.flush()
    assert attempts == [1, 1, 1, 1, 2, 3]


def test_one_object_submitted_twice_is_two_entries() -> None:
    class Same(ServiceWriter):
        async def submit_request_entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
            taken = await self.service.request(entries)
            return [entries[0]] if len(self.service.requests) == 1 else taken

    service = Service()
    entry = Entry(1, 1, 1)
    with closing(Same(service, configuration())) as writer:
        writer._converter = _Always([entry, entry, entry])
        writer.write(rows([1]))
        writer.flush()
    assert [len(request) for request in service.requests] == [3, 1]


class _Always:
    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries

    def apply(self, _batch: object, _context: object) -> list[Entry]:
        return self.entries


def test_a_poisoned_entry_goes_to_the_record_policy_and_is_not_sent_again() -> None:
    service = Service()
    with writing(service, policy=RecordPolicy.skip()) as writer:
        writer.write(rows([1, POISON, 2]))
        writer.flush()
        assert writer.errors.summary()["skipped"] == 1
    assert len(service.requests) == 1


def test_a_poisoned_entry_ends_the_attempt_if_the_policy_is_fail() -> None:
    with writing(Service()) as writer:
        writer.write(rows([POISON]))
        with pytest.raises(BadRecordError, match="poison"):
            writer.flush()


def test_an_entry_above_the_size_limit_is_a_bad_record_and_is_never_sent() -> None:
    service = Service()
    with writing(service, policy=RecordPolicy.skip()) as writer:
        writer.write(rows([1], size=51))
        writer.write(rows([2], size=50))
        writer.flush()
        assert writer.errors.summary()["skipped"] == 1
    assert [entry.number for entry in service.accepted] == [2]


class _Failing(ServiceWriter):
    def __init__(self, error: BaseException, **changes: Any) -> None:
        super().__init__(Service(), configuration(**changes))
        self.error = error
        self.requests = 0

    async def submit_request_entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        self.requests += 1
        raise self.error


def test_an_error_that_the_connector_marks_as_fatal_ends_the_attempt_at_once() -> None:
    with closing(_Failing(FatalError("no such index"))) as writer:
        writer.write(rows([1]))
        with pytest.raises(FatalError, match="no such index"):
            writer.flush()
        assert writer.requests == 1
        with pytest.raises(FatalError, match="no such index"):
            writer.write(rows([2]))


def test_an_unknown_exception_is_reported_as_a_bug_of_the_connector_with_its_cause() -> None:
    with closing(_Failing(KeyError("items"))) as writer:
        writer.write(rows([1]))
        with pytest.raises(FatalError, match="unexpected error") as caught:
            writer.flush()
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_service_that_stays_busy_ends_the_attempt_after_the_retry_timeout() -> None:
    busy = RetryableError("busy", retry_after=0.001)
    with closing(_Failing(busy, retry_timeout=timedelta(milliseconds=20))) as writer:
        writer.write(rows([1]))
        with pytest.raises(RetryableError, match="did not accept 1 entries") as caught:
            writer.flush()
        assert writer.requests > 1
    assert caught.value.__cause__ is busy


class _Refusing(ServiceWriter):
    """Returns every entry and gives a reason."""

    async def submit_request_entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        self.explain_retry("the disk is full")
        return entries


SHORT = timedelta(milliseconds=20)
FULL = RetryableError("busy", found="the disk is full")


@pytest.mark.parametrize(
    "make",
    [
        lambda: _Refusing(Service(), configuration(retry_timeout=SHORT)),
        lambda: _Failing(FULL, retry_timeout=SHORT),
    ],
    ids=["some entries", "whole requests"],
)
def test_the_error_for_a_service_that_stays_busy_gives_the_reason(
    make: Callable[[], ServiceWriter],
) -> None:
    with closing(make()) as writer:
        writer.write(rows([1]))
        with pytest.raises(RetryableError) as caught:
            writer.flush()
    assert "the disk is full" in (caught.value.found or "")


def test_a_requested_pause_beyond_the_timeout_leads_to_a_last_attempt_at_the_deadline() -> None:
    for_an_hour = RetryableError("busy", retry_after=3600.0)
    with closing(_Failing(for_an_hour, retry_timeout=SHORT)) as writer:
        writer.write(rows([1]))
        with pytest.raises(RetryableError, match="did not accept 1 entries"):
            writer.flush()
        assert writer.requests == 2


def test_entries_of_a_request_that_its_client_cancels_are_sent_again() -> None:
    class GivingUp(ServiceWriter):
        async def submit_request_entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
            if not self.service.requests:
                self.service.requests.append(list(entries))
                raise asyncio.CancelledError
            return await self.service.request(entries)

    with closing(GivingUp(Service(), configuration())) as writer:
        writer.write(rows(range(5)))
        writer.flush()
        assert sorted(entry.number for entry in writer.service.accepted) == list(range(5))


def test_a_request_that_ignores_its_cancellation_is_abandoned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stubborn(ServiceWriter):
        async def submit_request_entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
            first = not self.service.requests
            self.service.requests.append(list(entries))
            while first and not self.closed:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)
            return []

    monkeypatch.setattr(request_sender, "_CANCEL_SECONDS", 0.01)
    with closing(Stubborn(Service(), configuration(request_timeout=SHORT))) as writer:
        writer.write(rows(range(5)))
        writer.flush()
        assert len(writer.service.requests) == 2


def test_a_request_without_a_response_is_sent_again() -> None:
    class Forgetful(ServiceWriter):
        async def submit_request_entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
            if not self.service.requests:
                self.service.requests.append(list(entries))
                await asyncio.Event().wait()
            return await self.service.request(entries)

    service = Service()
    with closing(Forgetful(service, configuration(request_timeout=SOON))) as writer:
        writer.write(rows([1]))
        writer.flush()
    assert [entry.number for entry in service.accepted] == [1]


def test_an_unknown_entry_in_a_response_is_reported_as_a_bug_of_the_connector() -> None:
    class Confused(ServiceWriter):
        async def submit_request_entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
            return [Entry(7, 7, 7)]

    with closing(Confused(Service(), configuration())) as writer:
        writer.write(rows([1]))
        with pytest.raises(FatalError, match="did not receive"):
            writer.flush()


def test_close_abandons_requests_in_flight_and_closes_the_client() -> None:
    class Hanging(ServiceWriter):
        given_up = False

        async def submit_request_entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up = True
            raise AssertionError("no answer ever comes")

    started = threading.Event()
    writer = Hanging(Service(), configuration())
    writer.write(rows(range(5)))
    assert started.wait(DEADLINE)
    writer.close()
    assert writer.given_up
    assert writer.closed
    assert capacity.seen("pipeline", writer.context.sink_uid) == 15  # no entry was refused


def test_a_custom_strategy_that_blocks_is_asked_again() -> None:
    class Doors(RateLimitingStrategy):
        asked = 0

        @property
        def max_batch_size(self) -> int:
            return 2

        def should_block(self, request: RequestInfo) -> bool:
            self.asked += 1
            return self.asked % 3 != 0

        def register_in_flight_request(self, request: RequestInfo) -> None:
            sizes.append(request.batch_size)

        def register_completed_request(self, result: ResultInfo) -> None:
            answers.append(result)

    sizes: list[int] = []
    answers: list[ResultInfo] = []
    service = Service([Behaviour(refused=(0,))])
    with writing(service, strategy=Doors()) as writer:
        writer.write(rows(range(4)))
        writer.flush()
    assert sorted(entry.number for entry in service.accepted) == [0, 1, 2, 3]
    assert max(sizes) <= 2
    assert answers[0] == ResultInfo(failed_messages=1, batch_size=2)
    assert len(answers) == len(sizes)


class Faulty(Open):
    """Fails the second time it is asked."""

    asked = 0

    def should_block(self, request: RequestInfo) -> bool:
        self.asked += 1
        if self.asked > 1:
            raise ZeroDivisionError
        return False


class AnswersToAFlush(ServiceWriter):
    """Responds to its request while a flush waits, and returns one entry for a retry."""

    async def submit_request_entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        while not self._sending._draining:
            await asyncio.sleep(0)
        return entries[:1]


def test_a_strategy_that_fails_ends_the_attempt_wherever_it_is_called() -> None:
    """Here the retry timer calls it while the writer is otherwise idle."""
    with closing(AnswersToAFlush(Service(), configuration(), strategy=Faulty())) as writer:
        writer.write(rows(range(5)))
        with pytest.raises(FatalError, match="the rate limiting strategy of sink") as caught:
            writer.flush()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


class FaultyAnswers(Open):
    def register_completed_request(self, result: ResultInfo) -> None:
        raise ZeroDivisionError


def test_a_strategy_that_fails_on_a_response_ends_the_attempt() -> None:
    with writing(Service(), strategy=FaultyAnswers()) as writer:
        writer.write(rows(range(5)))
        with pytest.raises(FatalError, match="unexpected error"):
            writer.flush()


class FlushedAnswers(Open):
    """Fails on a response just after a flush began to wait for it."""

    def __init__(self) -> None:
        self.writer: ServiceWriter | None = None
        self.flushed: Future[None] = Future()

    def register_completed_request(self, result: ResultInfo) -> None:
        self.flush = asyncio.get_running_loop().create_task(self._flush())
        raise ZeroDivisionError

    async def _flush(self) -> None:
        assert self.writer is not None
        try:
            self.flushed.set_result(await self.writer._sending.drain())
        except FatalError as error:
            self.flushed.set_exception(error)


def test_a_flush_waits_for_the_end_of_a_request_whose_entries_are_accepted() -> None:
    strategy = FlushedAnswers()
    with writing(Service(), strategy=strategy) as writer:
        strategy.writer = writer
        writer.write(rows(range(5)))
        with pytest.raises(FatalError, match="unexpected error"):
            strategy.flushed.result(60)


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt()])
def test_a_client_that_ends_its_process_ends_only_the_attempt(raised: BaseException) -> None:
    class Leaving(ServiceWriter):
        async def submit_request_entries(self, entries: Sequence[Any]) -> Sequence[Any]:
            raise raised

    with closing(Leaving(Service(), configuration())) as writer:
        writer.write(rows(range(5)))
        with pytest.raises(FatalError, match="unexpected error"):
            writer.flush()
    service = Service()
    with writing(service) as writer:  # on the same event loop
        writer.write(rows(range(5)))
        writer.flush()


def test_a_timeout_of_the_client_that_closes_is_raised() -> None:
    class Stuck(ServiceWriter):
        async def close_client(self) -> None:
            raise TimeoutError("of the client")

    with pytest.raises(TimeoutError, match="of the client"):
        Stuck(Service(), configuration()).close()


# --- Remembered limits of a service --------------------------------------------------------------


def sizes_of_an_epoch(uid: str, behaviours: Sequence[Behaviour] = ()) -> list[int]:
    """Return the sizes of the requests for fifteen rows."""
    service = Service(behaviours)
    with writing(service, uid=uid) as writer:
        writer.write(rows(range(15)))
        writer.flush()
    return [len(request) for request in service.requests]


def test_the_next_writer_of_a_sink_starts_with_the_limit_that_the_service_accepted() -> None:
    busy = [Behaviour(error=True)] * 3
    assert sizes_of_an_epoch("busy", busy)[0] == 5
    assert sizes_of_an_epoch("other")[0] == 5
    learnt = capacity.seen("pipeline", "busy")
    assert learnt is not None
    capacity.remember("pipeline", "busy", 2)
    assert sizes_of_an_epoch("busy")[0] == 2
    assert sizes_of_an_epoch("busy")[0] == 5  # ten more with every success


def test_a_failed_writer_passes_on_the_limit_that_it_observed() -> None:
    class AlwaysBusy(ServiceWriter):
        async def submit_request_entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
            raise RetryableError("busy")

    limits = configuration(retry_timeout=timedelta(milliseconds=200))
    with closing(AlwaysBusy(Service(), limits, uid="always busy")) as writer:
        writer.write(rows(range(5)))
        with pytest.raises(RetryableError):
            writer.flush()
    learnt = capacity.seen("pipeline", "always busy")
    assert learnt is not None
    assert learnt < 15


def test_a_custom_strategy_is_not_remembered() -> None:
    with writing(Service(), strategy=Open(), uid="own") as writer:
        writer.write(rows(range(5)))
        writer.flush()
    assert capacity.seen("pipeline", "own") is None


def test_the_number_of_remembered_limits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "_seen", OrderedDict())
    for number in range(1_000):
        capacity.remember("pipeline", str(number), number)
        capacity.remember("pipeline", "always", 1)
    assert len(capacity._seen) == capacity._MOST
    assert capacity.seen("pipeline", "always") == 1
    assert capacity.seen("pipeline", "999") == 999


def test_a_fixed_strategy_never_exceeds_its_number_of_requests_in_flight() -> None:
    service = Service([Behaviour(turns=20)] * 10)
    strategy = FixedRateLimitingStrategy(max_in_flight_requests=1, max_batch_size=2)
    with writing(service, strategy=strategy) as writer:
        writer.write(rows(range(10)))
        writer.flush()
    assert service.most_in_flight == 1
    assert {len(request) for request in service.requests} == {2}


def test_a_configuration_names_the_strategy() -> None:
    busy = [Behaviour(refused=(0,))] * 20
    for kind in RateLimiting:
        with writing(Service(busy), uid=kind.value, rate_limiting=kind) as writer:
            writer.write(rows(range(15)))
            writer.flush()
        learns = capacity.seen("pipeline", kind.value) is not None
        assert learns is (kind is RateLimiting.CONGESTION_CONTROL)


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"max_batch_size": 0}, "max_batch_size"),
        ({"max_in_flight_requests": -1}, "max_in_flight_requests"),
        ({"max_buffered_requests": 4}, "max_buffered_requests"),
        ({"max_batch_size_in_bytes": 49}, "max_batch_size_in_bytes"),
        ({"initial_backoff": timedelta(0)}, "initial_backoff"),
        ({"initial_backoff": LATE}, "max_backoff"),
        ({"request_timeout": timedelta(0)}, "request_timeout"),
    ],
)
def test_inconsistent_limits_are_refused(changes: dict[str, Any], option: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        configuration(**changes)
    assert caught.value.keyword == option


@pytest.mark.parametrize(
    ("make", "smaller", "larger"),
    [
        (
            lambda: configuration(max_batch_size=8, max_buffered_requests=4),
            "max_buffered_requests",
            "max_batch_size",
        ),
        (
            lambda: AsyncSinkWriterConfiguration.from_options(
                {"sink.requests.max-buffered": "4", "sink.batch.max-size": "8"}
            ),
            "sink.requests.max-buffered",
            "sink.batch.max-size",
        ),
    ],
)
def test_contradicting_limits_are_both_named_as_the_caller_does(
    make: Callable[[], object], smaller: str, larger: str
) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        make()
    text = str(caught.value)
    assert f"{smaller!r} is less than {larger!r}" in text
    assert f"increase {smaller!r} or decrease {larger!r}" in text
    assert ("." in text.partition("hint: ")[2]) is ("." in smaller), "one spelling"


def test_a_sink_cannot_be_both_asynchronous_and_two_phase() -> None:
    with pytest.raises(UnsupportedError, match="Both is both an AsyncSink"):

        class Both(AsyncSink[Entry], TwoPhaseCommittingSink[Any]):
            pass
