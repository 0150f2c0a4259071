# SPDX-License-Identifier: Apache-2.0
"""Paginators: immutable values that find the next page. The kinds are those of `singer_sdk`.

A paginator has no state: the request for a page is the position of a split. The parameter of a page
is in the query. For a POST request, it is the path of a field in the JSON object.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final
from urllib.parse import urljoin, urlsplit

from connectors_core.annotations import experimental
from connectors_core.clients.http.messages import Request, Response, value_at
from connectors_core.errors import FatalError
from connectors_core.secrets import mask_url

__all__ = [
    "BodyLink",
    "BodyToken",
    "LinkHeader",
    "Offset",
    "PageNumber",
    "Paginator",
    "SinglePage",
]

_LINK: Final = re.compile(r"<([^<>]*)>((?:\s*;\s*[^\s=;,]+(?:\s*=\s*(?:\"[^\"]*\"|[^\s;,]+))?)*)")
_REL: Final = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,]+))", re.IGNORECASE)


@experimental
class Paginator(ABC):
    """Finds the next page of a stream.

    Attributes:
        counts: Whether the paginator counts pages instead of following the server. Some servers
            repeat their last page then, so a page with the records of the page before is the end.
    """

    counts: ClassVar[bool] = False

    def first(self, request: Request) -> Request:
        """Return the request for the first page.

        Args:
            request: The request for the stream.
        """
        return request

    @abstractmethod
    def next(self, request: Request, response: Response, records: int) -> Request | None:
        """Return the request for the next page, or None after the last page.

        Args:
            request: The request for this page.
            response: This page.
            records: The number of its records.
        """


@experimental
@dataclass(frozen=True)
class SinglePage(Paginator):
    """The stream has one page."""

    def next(self, request: Request, response: Response, records: int) -> Request | None:
        """See `Paginator`."""
        return None


@experimental
@dataclass(frozen=True)
class LinkHeader(Paginator):
    """The next page is the link `next` of the header `Link` (RFC 8288), as in GitHub."""

    def next(self, request: Request, response: Response, records: int) -> Request | None:
        """See `Paginator`."""
        for header in response.headers.get_all("Link", []):
            for link, parameters in _LINK.findall(header):
                rel = _REL.search(parameters)
                if rel and "next" in (rel[1] or rel[2] or "").lower().split():
                    return _following(link, request, response)
        return None


@experimental
@dataclass(frozen=True)
class BodyLink(Paginator):
    """The next page is a URL in the body.

    Attributes:
        path: The path of the URL, such as `links.next`.
    """

    path: str = "next"

    def next(self, request: Request, response: Response, records: int) -> Request | None:
        """See `Paginator`."""
        link = value_at(response.json, self.path)
        return _following(str(link), request, response) if link else None


@experimental
@dataclass(frozen=True)
class BodyToken(Paginator):
    """The body has a token, which is a parameter of the next page.

    Attributes:
        path: The path of the token, such as `meta.next_page_token`.
        param: The parameter.
        more: The path of a flag that is false in the last page, such as `pageInfo.hasNextPage`.
            By default, the last page has no token.
    """

    path: str = "next_page_token"
    param: str = "page_token"
    more: str | None = None

    def next(self, request: Request, response: Response, records: int) -> Request | None:
        """See `Paginator`."""
        token = value_at(response.json, self.path)
        if token is None or token is False or token in ("", []):
            return None
        if self.more is not None and value_at(response.json, self.more) is False:
            return None
        if request.body is None and isinstance(token, list | dict):
            raise FatalError(
                "the token of the next page cannot be sent in a query",
                expected=f"a text or a number at {self.path!r}",
                found=type(token).__name__,
                hint="choose a path of a text, or send the request with POST: Request.search",
            )
        return request.with_page({self.param: token})


@experimental
@dataclass(frozen=True)
class Offset(Paginator):
    """A parameter is the number of records before the page. An empty or repeated page ends it.

    A page with fewer records than its limit is not the last: servers may lower the limit.

    Attributes:
        param: The parameter.
        limit: The requested number of records of a page, or None.
        limit_param: The parameter of the limit.
        total: The path of the number of records in the body, which saves the empty page.
    """

    counts: ClassVar[bool] = True
    param: str = "offset"
    limit: int | None = None
    limit_param: str = "limit"
    total: str | None = None

    def first(self, request: Request) -> Request:
        """See `Paginator`."""
        return request.with_page({self.param: 0} | _limit(self.limit_param, self.limit))

    def next(self, request: Request, response: Response, records: int) -> Request | None:
        """See `Paginator`."""
        after = int(request.param(self.param) or 0) + records
        if records == 0 or after == _number(response, self.total):
            return None
        return request.with_page({self.param: after})


@experimental
@dataclass(frozen=True)
class PageNumber(Paginator):
    """A parameter is the number of the page. An empty or repeated page ends the stream.

    Attributes:
        param: The parameter.
        start: The number of the first page.
        size: The requested number of records of a page, or None.
        size_param: The parameter of the size.
        last: The path of the number of the last page in the body, which saves the empty page.
    """

    counts: ClassVar[bool] = True
    param: str = "page"
    start: int = 1
    size: int | None = None
    size_param: str = "per_page"
    last: str | None = None

    def first(self, request: Request) -> Request:
        """See `Paginator`."""
        return request.with_page({self.param: self.start} | _limit(self.size_param, self.size))

    def next(self, request: Request, response: Response, records: int) -> Request | None:
        """See `Paginator`."""
        page = int(request.param(self.param) or self.start)
        if records == 0 or page == _number(response, self.last):
            return None
        return request.with_page({self.param: page + 1})


def _limit(param: str, limit: int | None) -> dict[str, int]:
    return {} if limit is None else {param: limit}


def _number(response: Response, path: str | None) -> Any:
    return None if path is None else value_at(response.json, path)


def _following(link: str, request: Request, response: Response) -> Request:
    """Return the request for a link. Credentials go to no other server."""
    own = urlsplit(response.url)
    try:
        url = urlsplit(urljoin(response.url, link))
    except ValueError as exc:
        raise FatalError("the link to the next page is not valid", found=mask_url(link)) from exc
    if (url.scheme, url.netloc) != (own.scheme, own.netloc):
        raise FatalError(
            "the API links to a page of another server",
            expected=f"{own.scheme}://{own.netloc}",
            found=mask_url(f"{url.scheme}://{url.netloc}"),
        )
    return replace(request, path=url.path or "/", query=url.query)
