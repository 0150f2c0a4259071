# SPDX-License-Identifier: Apache-2.0
"""Tests that each paginator reads every record once."""

from __future__ import annotations

import math
from contextlib import closing

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


def read(url: str, paginator: Paginator) -> tuple[list[int], int]:
    """Return the records and the number of requests."""
    found: list[int] = []
    request: Request | None = paginator.first(Request("records"))
    requests = 0
    with closing(HttpClient(url)) as client:
        while request is not None:
            response = client.get(request)
            requests += 1
            records = response.json["records"]
            found += records
            request = client.next_page(paginator, request, response, len(records))
    return found, requests


@pytest.mark.parametrize("total", [0, 1, 3, 7])
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
def test_every_record_is_read_once(paginator: Paginator, empty: int, total: int) -> None:
    with running(lambda request: pages_of(total, request)) as api:
        found, requests = read(api.url, paginator)
    assert found == list(range(total))
    assert requests == max(1, math.ceil(total / MOST) + empty)


def test_a_single_page_has_no_next_page() -> None:
    with running(lambda request: pages_of(7, request)) as api:
        assert read(api.url, SinglePage()) == ([0, 1, 2], 1)


@pytest.mark.parametrize("link", ["http://127.0.0.1:1/records", "//elsewhere/records"])
def test_a_link_to_another_server_is_not_followed(link: str) -> None:
    with (
        running(lambda _: answer({"records": [], "next": link})) as api,
        pytest.raises(FatalError, match="another server"),
    ):
        read(api.url, BodyLink())
    assert len(api.requests) == 1


def test_a_page_that_names_itself_as_the_next_is_no_endless_loop() -> None:
    with (
        running(lambda _: answer({"records": [1], "next_page_token": "same"})) as api,
        pytest.raises(FatalError, match="the same page"),
    ):
        read(api.url, BodyToken())
    assert len(api.requests) == 2


@settings(max_examples=30)
@given(st.dictionaries(st.text(), st.text()), st.text(), st.text())
def test_a_parameter_of_a_request_has_the_value_that_it_was_given(
    params: dict[str, str], name: str, value: str
) -> None:
    request = Request("records").with_params(params).with_params({name: value})
    expected = params | {name: value}
    assert {each: request.param(each) for each in expected} == expected
