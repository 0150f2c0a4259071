# SPDX-License-Identifier: Apache-2.0
"""Tests that a source of pages reads every record of a stream in one window."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from http_api import Api, answer, query_of, running

from connectors_core.clients.http import (
    BodyLink,
    BodyToken,
    HttpClient,
    Offset,
    PageNumber,
    Request,
)
from connectors_core.errors import ConfigurationError, FatalError, RetryableError
from connectors_core.records import BadRecordError, RecordErrorHandler, RecordPolicy
from connectors_core.source import Boundedness
from connectors_core.source.base import SplitsAddition
from connectors_core.source.pages import HttpSource, Page, PageEnumeratorState, PageSplit
from connectors_core.source.pages.enumerator import PageEnumerator
from connectors_core.source.pages.reader import Pages, _PageRows, _PageSplitReader
from connectors_core.source.pages.split import PageSplitState
from connectors_core.testing import ManualEnumeratorContext
from connectors_core.testing.servers import HttpAnswer, HttpRequest

OPEN = threading.Event()
START = datetime(2026, 1, 1, tzinfo=UTC)


def moment(second: int) -> datetime:
    return START + timedelta(seconds=second)


class ListSource(HttpSource, scope="list"):
    """Reads a list without a cursor."""

    records_path = "records"
    paginator = Offset()

    def schema(self) -> pa.Schema:
        return pa.schema({"stream": pa.string(), "id": pa.int64()})

    def request(self, stream: str, since: datetime | None) -> Request:
        return Request.of(stream, since=since and since.isoformat())

    def row(self, stream: str, record: Any) -> Mapping[str, Any]:
        return {"stream": stream, "id": record["id"]}


class CursorSource(ListSource):
    cursor = "at"
    ascending = True

    def streams(self, client: HttpClient) -> Sequence[str]:
        return client.get(Request("streams")).json


class Records:
    """Streams of records with a cursor; `since` is inclusive; two records in a page."""

    def __init__(self) -> None:
        self.streams: dict[str, list[dict[str, Any]]] = {"a": []}
        self.now = moment(0)

    def add(self, stream: str, *seconds: int) -> None:
        found = self.streams.setdefault(stream, [])
        found += [
            {"id": number, "at": moment(each).isoformat()}
            for number, each in enumerate(seconds, len(found))
        ]

    def __call__(self, request: Any) -> Any:
        headers = {"Date": format_datetime(self.now, usegmt=True)}
        path, query = urlsplit(request.path).path[1:], query_of(request)
        if path == "streams":
            return answer(sorted(self.streams), headers=headers)
        start, since = int(query["offset"]), query.get("since", "")
        found = [each for each in self.streams.get(path, ()) if not since or each["at"] >= since]
        return answer({"records": found[start : start + 2]}, headers=headers)


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def api(records: Records) -> Iterator[Api]:
    with running(records) as api:
        yield api


def ids(source: HttpSource, split: PageSplit) -> list[int]:
    """Read a split, and store and load its position after each page."""
    found = []
    serializer = source.split_serializer()
    while True:
        page = source.page(source.client(), split)
        found += [each["id"] for each in page.records]
        if page.next is None:
            return found
        state = PageSplitState(split)
        state.move_to(page.next, page.digest)
        split = serializer.deserialize(serializer.version, serializer.serialize(state.to_split()))


def test_windows_read_each_record_once_although_the_api_repeats_the_boundary(
    api: Api, records: Records
) -> None:
    source = CursorSource(api.url, settle="10 s", discovery_interval="1 min")
    found, ends = [], {}
    for now, new in [(20, (1, 5, 10, 10)), (30, (10, 20, 20)), (31, ()), (60, (40, 40))]:
        records.add("a", *new)
        records.now = moment(now)
        for split in source._discover(ends, OPEN):
            found += ids(source, split)
            ends[split.stream] = split.until
    assert found == list(range(len(records.streams["a"])))


@pytest.mark.parametrize(
    ("unit", "form"),
    [
        ("s", lambda at: int(at.timestamp())),
        ("s", lambda at: str(at.timestamp())),
        ("ms", lambda at: int(at.timestamp()) * 1000),
        ("us", lambda at: int(at.timestamp()) * 10**6),
        ("ns", lambda at: int(at.timestamp()) * 10**9),
    ],
)
def test_windows_of_a_cursor_in_a_unit_read_each_record_once(
    api: Api, records: Records, unit: str, form: Callable[[datetime], Any]
) -> None:
    class EpochSource(CursorSource):
        cursor_unit = unit

        def request(self, stream: str, since: datetime | None) -> Request:
            return Request.of(stream)

    source = EpochSource(api.url, settle="0 s")
    records.streams["a"] = [{"id": at, "at": form(moment(at * 10))} for at in range(6)]
    windows = [PageSplit.of("a", None, moment(20)), PageSplit.of("a", moment(20), moment(60))]
    for each in records.streams["a"]:
        assert source.cursor_of(each) == moment(each["id"] * 10)
    assert [ids(source, split) for split in windows] == [[0, 1], [2, 3, 4, 5]]


class OddSource(CursorSource):
    def request(self, stream: str, since: datetime | None) -> Request:
        return Request.of(stream)


@pytest.mark.parametrize(
    ("unit", "cursor"),
    [
        (None, 1_767_225_600),
        (None, None),
        (None, "2026-01-01 00:00:00 UTC"),
        ("s", None),
        ("s", True),
        ("s", "soon"),
        ("s", 1e300),
        ("ms", "NaN"),
        ("ms", [1]),
    ],
)
def test_a_record_whose_cursor_cannot_be_read_is_bad_and_in_no_window(
    api: Api, records: Records, unit: Any, cursor: object
) -> None:
    class Odd(OddSource):
        cursor_unit = unit

    good = moment(1).isoformat() if unit is None else (moment(1) - moment(0)).seconds
    records.streams["a"] = [{"id": 0, "at": good}, {"id": 1, "at": cursor}]
    source = Odd(api.url)
    page = source.page(source.client(), PageSplit.of("a", None, None))
    rows: list[pa.RecordBatch] = []
    output = SimpleNamespace(collect=rows.append)
    state = PageSplitState(PageSplit.of("a", None, None))
    context = SimpleNamespace(record_errors=RecordErrorHandler(RecordPolicy.skip()))
    _PageRows(context, source).emit_record(page, output, state)  # type: ignore[arg-type]
    assert [row["id"] for row in rows[0].to_pylist()] == [0]
    context.record_errors = RecordErrorHandler(RecordPolicy.fail())
    with pytest.raises(BadRecordError, match="cursor of the record cannot be read"):
        _PageRows(context, source).emit_record(page, output, state)  # type: ignore[arg-type]


def test_a_cursor_in_another_form_is_read_by_the_source(api: Api, records: Records) -> None:
    class Words(OddSource):
        def cursor_of(self, record: Any) -> datetime:
            return datetime.strptime(record["at"], "%Y-%m-%d %H:%M:%S UTC")

    records.streams["a"] = [{"id": 0, "at": "2026-01-01 00:00:03 UTC"}]
    source = Words(api.url)
    assert ids(source, PageSplit.of("a", None, moment(3))) == []
    assert ids(source, PageSplit.of("a", moment(3), None)) == [0]


class SearchSource(CursorSource):
    def request(self, stream: str, since: datetime | None) -> Request:
        return Request.search(stream, since=since and since.isoformat())


def test_a_source_of_searches_reads_each_record_once(api: Api, records: Records) -> None:
    source = SearchSource(api.url, settle="10 s")
    records.add("a", *range(1, 8))
    records.now = moment(30)
    (split,) = source._discover({}, OPEN)
    assert ids(source, split) == list(range(7))
    asked = [(each.method, query_of(each)) for each in api.requests if each.path == "/a"]
    assert asked[-1] == ("POST", {"offset": 7})


def test_a_position_of_an_earlier_release_is_read() -> None:
    serializer = ListSource("http://127.0.0.1:1").split_serializer()
    stored = b'{"page":{"path":"a","query":"offset=2"},"since":null,"split_id":"a/","stream":"a"}'
    found = serializer.deserialize(1, stored)
    assert found.page == Request("a", "offset=2")


def test_a_record_that_can_still_get_company_waits(api: Api, records: Records) -> None:
    source = CursorSource(api.url, settle="10 s")
    records.add("a", 1, 11)
    records.now = moment(20)
    (split,) = source._discover({}, OPEN)
    assert split == PageSplit.of("a", None, moment(10))
    assert ids(source, split) == [0]


def test_a_window_without_records_is_no_split(api: Api, records: Records) -> None:
    source = CursorSource(api.url, settle="0 s")
    records.add("a", 1)
    records.now = moment(100)
    assert source._discover({"a": moment(2)}, OPEN) == []
    assert [each.stream for each in source._discover({"a": moment(1)}, OPEN)] == ["a"]


def test_new_records_are_found_although_the_api_does_not_filter(api: Api, records: Records) -> None:
    class Unfiltered(CursorSource):
        def request(self, stream: str, since: datetime | None) -> Request:
            return Request.of(stream)

    records.add("a", 1, 2, 3, 4, 5)
    records.now = moment(100)
    source = Unfiltered(api.url, settle="0 s")
    (split,) = source._discover({"a": moment(4)}, OPEN)
    assert ids(source, split) == [3, 4]


def test_pages_after_a_window_of_a_sorted_stream_are_not_requested(
    api: Api, records: Records
) -> None:
    records.add("a", *range(100))
    split = PageSplit.of("a", None, moment(3))
    assert ids(CursorSource(api.url), split) == [0, 1, 2]
    assert len(api.requests) == 2


def test_a_stream_that_is_not_sorted_is_read_to_its_end(api: Api, records: Records) -> None:
    class Unsorted(CursorSource):
        ascending = False

    records.add("a", 9, 1, 8, 2, 7, 3)
    assert ids(Unsorted(api.url), PageSplit.of("a", moment(2), moment(8))) == [3, 4, 5]


def test_a_list_without_a_cursor_is_one_split(api: Api, records: Records) -> None:
    records.add("records", 3, 1, 2)
    source = ListSource(api.url)
    (split,) = source._discover({}, OPEN)
    assert ids(source, split) == [0, 1, 2]
    assert source._discover({split.stream: split.until}, OPEN) == []
    assert source.boundedness() is Boundedness.BOUNDED


class NumberSource(ListSource):
    paginator = PageNumber()


@pytest.mark.parametrize("kind", [ListSource, NumberSource])
def test_a_server_that_repeats_its_last_page_ends_the_stream(kind: type[ListSource]) -> None:
    def respond(request: HttpRequest) -> HttpAnswer:
        query = query_of(request)
        number = min(int(query.get("page", 0)) or int(query["offset"]) + 1, 3)
        return answer({"records": [{"id": number}], "asked": request.path})

    with running(respond) as api:
        assert ids(kind(api.url), PageSplit.of("a", None, None)) == [1, 2, 3]


class LinkSource(ListSource):
    paginator = BodyLink()


@pytest.mark.parametrize(("before", "cycle"), [(0, 2), (5, 3), (1, 7)])
def test_a_cycle_of_pages_is_an_error(before: int, cycle: int) -> None:
    def respond(request: HttpRequest) -> HttpAnswer:
        page = int(query_of(request).get("page", 0))
        following = page + 1 if page + 1 < before + cycle else before
        return answer({"records": [{"id": page}], "next": f"/a?page={following}"})

    with running(respond) as api, pytest.raises(FatalError, match="cycle"):
        ids(LinkSource(api.url), PageSplit.of("a", None, None))
    assert len(api.requests) < 4 * (before + cycle)


class TokenSource(ListSource):
    paginator = BodyToken()


def test_a_token_that_is_a_list_is_not_sent_as_text() -> None:
    content = {"records": [{"id": 1}], "next_page_token": [1, "a"]}
    with running(lambda _: answer(content)) as api, pytest.raises(FatalError, match="token"):
        ids(TokenSource(api.url), PageSplit.of("a", None, None))


def test_a_response_without_content_has_no_records() -> None:
    with running(lambda _: HttpAnswer(204, {}, b"")) as api:
        for kind in (ListSource, LinkSource, TokenSource):
            assert ids(kind(api.url), PageSplit.of("a", None, None)) == []


def test_new_records_of_a_list_without_a_cursor_cannot_be_discovered() -> None:
    with pytest.raises(ConfigurationError) as failure:
        ListSource("http://127.0.0.1:1", discovery_interval="1 s")
    assert failure.value.option == "source.discovery-interval"


def test_records_at_another_path_are_an_error(api: Api) -> None:
    api.script.append(answer({"items": []}))
    with pytest.raises(FatalError, match="no list of records"):
        ids(ListSource(api.url), PageSplit.of("a", None, None))


def test_a_wrong_clock_of_the_driver_does_not_move_a_window(api: Api, records: Records) -> None:
    records.add("a", 1)
    records.now = datetime.now(UTC) + timedelta(hours=1)
    (split,) = CursorSource(api.url, settle="0 s")._discover({}, OPEN)
    assert split.until == records.now.replace(microsecond=0)


# --- The enumerator ---


def test_a_discovery_starts_from_the_ends_of_the_one_before() -> None:
    context = ManualEnumeratorContext(1)
    asked: list[Mapping[str, datetime | None]] = []

    def discover(
        ends: Mapping[str, datetime | None], closed: threading.Event
    ) -> Sequence[PageSplit]:
        asked.append(ends)
        return [PageSplit.of("a", ends.get("a"), moment(len(asked)))]

    enumerator = PageEnumerator(
        context,
        discover=discover,
        interval=timedelta(seconds=1),
        state=PageEnumeratorState(ends={"a": moment(0)}),
    )
    enumerator.start()
    context.work()
    context.let_time_pass()
    assert asked == [{"a": moment(0)}, {"a": moment(1)}]
    assert enumerator.snapshot_state(1).ends == {"a": moment(2)}


def test_a_discovery_that_waits_for_the_api_ends_with_the_enumerator() -> None:
    context = ManualEnumeratorContext(1)
    with running(lambda _: answer({}, 429, {"Retry-After": "500"})) as api:
        enumerator = CursorSource(api.url).create_enumerator(context)
        enumerator.start()
        enumerator.close()
        with pytest.raises(RetryableError, match="busy"):
            context.work()
    assert len(api.requests) == 1


# --- The reader ---


class BusyApi(Pages):
    """An API that requests a pause before its only page."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def schema(self) -> pa.Schema:
        return pa.schema({"id": pa.int64()})

    def row(self, stream: str, record: Any) -> Mapping[str, Any]:
        return {"id": record["id"]}

    def page(self, client: HttpClient, split: PageSplit) -> Page:
        self.failures -= 1
        if self.failures >= 0:
            raise RetryableError("busy", retry_after=500)
        return Page([], None, 0)


def test_a_pause_ends_when_the_reader_is_woken_and_the_next_attempt_waits_for_its_time() -> None:
    now = [0.0]
    reader = _PageSplitReader(BusyApi(1), HttpClient("http://127.0.0.1:1"), lambda: now[0])
    reader.handle_splits_changes(SplitsAddition((PageSplit.of("a", None, None),)))
    assert not reader.fetch().records
    reader.wake_up()
    assert not reader.fetch().records
    now[0] = 500.0
    assert reader.fetch().finished_splits == {"a/"}


def test_an_api_that_stays_busy_fails_the_task() -> None:
    now = [0.0]
    reader = _PageSplitReader(BusyApi(10), HttpClient("http://127.0.0.1:1"), lambda: now[0])
    reader.handle_splits_changes(SplitsAddition((PageSplit.of("a", None, None),)))
    reader.fetch()
    now[0] = 600.0
    with pytest.raises(RetryableError, match="busy"):
        reader.fetch()


def test_a_quota_may_outlast_the_timeout_of_failures() -> None:
    now = [0.0]
    reader = _PageSplitReader(QuotaApi(2), HttpClient("http://127.0.0.1:1"), lambda: now[0])
    reader.handle_splits_changes(SplitsAddition((PageSplit.of("a", None, None),)))
    for _ in range(2):
        reader.fetch()
        now[0] += 3599.0
        reader.wake_up()
        assert not reader.fetch().records, "it waits for the whole hour"
        now[0] += 1.0
    assert reader.fetch().finished_splits


class QuotaApi(BusyApi):
    def page(self, client: HttpClient, split: PageSplit) -> Page:
        try:
            return super().page(client, split)
        except RetryableError as error:
            error.retry_after = 3600.0
            raise


@pytest.mark.parametrize("bad", [{}, {"id": "not a number"}, {"id": 1.5}, [], None])
def test_a_bad_record_does_not_affect_the_others(bad: object) -> None:
    page = Page([{"id": 1}, bad, {"id": 2}], None, 10)
    state = PageSplitState(PageSplit.of("a", None, None))
    rows: list[pa.RecordBatch] = []
    output = SimpleNamespace(collect=rows.append)
    context = SimpleNamespace(record_errors=RecordErrorHandler(RecordPolicy.skip()))
    _PageRows(context, BusyApi(0)).emit_record(page, output, state)  # type: ignore[arg-type]
    assert rows[0].to_pylist() == [{"id": 1}, {"id": 2}]
    context.record_errors = RecordErrorHandler(RecordPolicy.fail())
    with pytest.raises(BadRecordError, match="record 1 of the first page"):
        _PageRows(context, BusyApi(0)).emit_record(page, output, state)  # type: ignore[arg-type]
