# SPDX-License-Identifier: Apache-2.0
"""Tests that each paginator reads every record once."""

from __future__ import annotations

import math
from contextlib import closing
from typing import Any
from urllib.parse import unquote

import pytest
from http_api import answer, query_of, running
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.clients.http import (
    BodyLink,
    BodyToken,
    HttpClient,
    LinkHeader,
    Offset,
    PageNumber,
    Paginator,
    Request,
    SinglePage,
)
from connectors_core.errors import FatalError
from connectors_core.testing.servers import HttpAnswer, HttpRequest

# The server returns fewer records than a client requests.
MOST = 3


def pages_of(total: int, request: HttpRequest) -> HttpAnswer:
    """Serve the numbers below a total, in every style at once."""
    query = query_of(request)
    if "page" in query:
        start = (int(query["page"]) - 1) * MOST
    else:
        start = int(query.get("offset") or query.get("token") or 0)
    records, after = list(range(total))[start : start + MOST], start + MOST
    content = {"records": records, "total": total, "pages": math.ceil(total / MOST)}
    if after >= total:
        return answer(content)
    links = (
        f'</first>; rel=first, </records?token={after}>; title="a, b"; crossorigin; rel="last next"'
    )
    content |= {"meta": {"token": after}, "links": [{"next": f"?token={after}"}]}
    return answer(content, headers={"Link": links})


def read(url: str, paginator: Paginator, stream: Request) -> tuple[list[Any], int]:
    """Return the records and the number of requests."""
    found: list[Any] = []
    request: Request | None = paginator.first(stream)
    requests = 0
    with closing(HttpClient(url)) as client:
        while request is not None:
            response = client.get(request)
            requests += 1
            records = response.json["records"]
            found += records
            request = client.next_page(paginator, request, response, len(records))
    return found, requests


STREAMS = [Request("records"), Request.search("records", filter={"open": True})]


@pytest.mark.parametrize("total", [0, 1, 3, 7])
@pytest.mark.parametrize("stream", STREAMS, ids=["get", "post"])
@pytest.mark.parametrize(
    ("paginator", "empty"),
    [
        (LinkHeader(), 0),
        (BodyLink("links.0.next"), 0),
        (BodyToken("meta.token", "token"), 0),
        (Offset(limit=100), 1),
        (Offset(total="total"), 0),
        (PageNumber(size=100), 1),
        (PageNumber(last="pages"), 0),
    ],
)
def test_every_record_is_read_once(
    paginator: Paginator, empty: int, stream: Request, total: int
) -> None:
    with running(lambda request: pages_of(total, request)) as api:
        found, requests = read(api.url, paginator, stream)
    assert found == list(range(total))
    assert requests == max(1, math.ceil(total / MOST) + empty)
    assert all(query_of(each).get("filter") == stream.param("filter") for each in api.requests)


def test_a_field_of_any_type_continues_a_search() -> None:
    """As `search_after` of Elasticsearch, or `variables.after` of GraphQL."""

    def search(request: HttpRequest) -> HttpAnswer:
        variables = query_of(request)["variables"]
        after, _ = variables.get("after", (-1, ""))
        hits = [{"id": each, "sort": [each, "x"]} for each in range(after + 1, 7)][: variables["n"]]
        return answer({"records": hits})

    stream = Request.search("_search", variables={"n": MOST})
    with running(search) as api:
        found, _ = read(api.url, BodyToken("records.-1.sort", "variables.after"), stream)
    assert [each["id"] for each in found] == list(range(7))
    assert all(query_of(each)["variables"]["n"] == MOST for each in api.requests)


def test_a_flag_ends_a_stream_whose_last_page_has_a_cursor() -> None:
    def pages(request: HttpRequest) -> HttpAnswer:
        start = int(query_of(request).get("after", 0))
        records = list(range(7))[start : start + MOST]
        page = {"endCursor": min(start + MOST, 7), "hasNextPage": start + MOST < 7}
        return answer({"records": records, "page": page})

    with running(pages) as api:
        paginator = BodyToken("page.endCursor", "after", more="page.hasNextPage")
        assert read(api.url, paginator, Request("records")) == (list(range(7)), 3)


@pytest.mark.parametrize("token", [None, "", False, []])
def test_a_page_without_a_token_is_the_last(token: object) -> None:
    with running(lambda _: answer({"records": [1], "next_page_token": token})) as api:
        assert read(api.url, BodyToken(), Request("records")) == ([1], 1)


@pytest.mark.parametrize("link", ["/records?q=ä", "/records?q=a b", "/ä/records"])
def test_a_link_is_quoted_as_far_as_it_is_not_valid(link: str) -> None:
    pages = [answer({"records": [1], "next": link}), answer({"records": [2]})]
    with running(lambda _: pages.pop(0)) as api:
        assert read(api.url, BodyLink(), Request("records")) == ([1, 2], 2)
    assert unquote(api.paths[1]) == link


def test_a_link_that_is_no_url_is_fatal() -> None:
    with (
        running(lambda _: answer({"records": [1], "next": "http://[::1"})) as api,
        pytest.raises(FatalError, match="not valid"),
    ):
        read(api.url, BodyLink(), Request("records"))


@pytest.mark.parametrize("header", ['<x>; rel=""', "<" * 60_000])
def test_a_header_without_a_next_link_ends_the_stream(header: str) -> None:
    with running(lambda _: answer({"records": [1]}, headers={"Link": header})) as api:
        assert read(api.url, LinkHeader(), Request("records")) == ([1], 1)


@pytest.mark.parametrize("stream", [Request.of("r", limit=9), Request.search("r", limit=9)])
def test_a_paginator_without_a_limit_keeps_that_of_the_request(stream: Request) -> None:
    assert int(Offset().first(stream).param("limit")) == 9
    assert int(PageNumber(size_param="limit").first(stream).param("limit")) == 9


def test_a_field_can_replace_null_but_is_in_no_text() -> None:
    request = Request.search("r", variables={"page": None, "name": "x"})
    assert request.with_fields({"variables.page.after": 1}).param("variables.page.after") == 1
    with pytest.raises(FatalError, match=r"variables\.name\.first"):
        request.with_fields({"variables.name.first": 1})


def test_a_single_page_has_no_next_page() -> None:
    with running(lambda request: pages_of(7, request)) as api:
        assert read(api.url, SinglePage(), Request("records")) == ([0, 1, 2], 1)


@pytest.mark.parametrize("link", ["http://127.0.0.1:1/records", "//elsewhere/records"])
def test_a_link_to_another_server_is_not_followed(link: str) -> None:
    with (
        running(lambda _: answer({"records": [], "next": link})) as api,
        pytest.raises(FatalError, match="another server"),
    ):
        read(api.url, BodyLink(), Request("records"))
    assert len(api.requests) == 1


def test_a_page_that_names_itself_as_the_next_is_no_endless_loop() -> None:
    with (
        running(lambda _: answer({"records": [1], "next_page_token": "same"})) as api,
        pytest.raises(FatalError, match="the same page"),
    ):
        read(api.url, BodyToken(), Request("records"))
    assert len(api.requests) == 2


@settings(max_examples=30)
@given(st.dictionaries(st.text(), st.text()), st.text(), st.text())
def test_a_parameter_of_a_request_has_the_value_that_it_was_given(
    params: dict[str, str], name: str, value: str
) -> None:
    request = Request("records").with_params(params).with_params({name: value})
    expected = params | {name: value}
    assert {each: request.param(each) for each in expected} == expected


names = st.text(st.characters(exclude_characters=".", codec="utf-8"), min_size=1)
numbers = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=30)
@given(st.dictionaries(names, numbers), names, names, numbers | st.text())
def test_a_field_of_a_search_has_the_value_that_it_was_given(
    fields: dict[str, int], outer: str, inner: str, value: object
) -> None:
    request = Request.search("records").with_fields(fields).with_fields({outer: None})
    changed = request.with_fields({f"{outer}.{inner}": value})
    assert changed.param(f"{outer}.{inner}") == value
    assert {each: changed.param(each) for each in fields if each != outer} == {
        each: number for each, number in fields.items() if each != outer
    }
    assert changed.with_fields({outer: None}) == request
