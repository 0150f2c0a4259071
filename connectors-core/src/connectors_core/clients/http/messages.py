# SPDX-License-Identifier: Apache-2.0
"""Requests for pages, and their responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from http.client import HTTPMessage
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import orjson

from connectors_core.annotations import experimental
from connectors_core.errors import FatalError

__all__ = ["Request", "Response", "value_at"]

# Every printable character except the space, because a query is encoded. A link may lack that.
_IN_QUERY: Final = "".join(map(chr, range(0x21, 0x7F)))


@experimental
@dataclass(frozen=True)
class Request:
    """A request that reads, without credentials. It is a position: plans and reports store it.

    Attributes:
        path: The path. Without a first slash, it is relative to the URL of the client.
        query: The encoded query.
        body: The JSON object of a POST request, encoded. None for a GET request.
    """

    path: str
    query: str = ""
    body: str | None = None

    @classmethod
    def of(cls, *segments: str, **params: object) -> Request:
        """Return a request for a path relative to the URL of the client.

        Args:
            *segments: The parts of the path, which are quoted.
            **params: The query. None leaves a parameter out.
        """
        return cls(_path(segments)).with_params(params)

    @classmethod
    def search(cls, *segments: str, **fields: object) -> Request:
        """Return a POST request with a JSON object. The API must only read.

        Args:
            *segments: The parts of the path, which are quoted.
            **fields: The fields of the object. None leaves a field out.
        """
        return cls(_path(segments), body="{}").with_fields(fields)

    def with_params(self, params: Mapping[str, object]) -> Request:
        """Return the request with other values of some parameters. None removes a parameter."""
        kept = [pair for pair in self._pairs() if pair[0] not in params]
        added = [(name, str(value)) for name, value in params.items() if value is not None]
        return replace(self, query=urlencode([*kept, *added]))

    def with_fields(self, fields: Mapping[str, object]) -> Request:
        """Return the request with other fields of its JSON object. None removes a field.

        Args:
            fields: The values by path, such as `variables.after`.

        Raises:
            FatalError: A part of a path is no object.
        """
        content = self._content()
        for path, value in fields.items():
            *parents, name = path.split(".")
            place = content
            for key in parents:
                if place.get(key) is None:
                    place[key] = {}
                place = place[key]
                if not isinstance(place, dict):
                    raise FatalError(
                        "a field of a request cannot be set",
                        expected=f"an object at {key!r} of {path!r}",
                        found=type(place).__name__,
                    )
            if value is None:
                place.pop(name, None)
            else:
                place[name] = value
        return replace(self, body=orjson.dumps(content).decode())

    def with_page(self, params: Mapping[str, object]) -> Request:
        """Return the request with other parameters, or for a POST request, with other fields."""
        return self.with_params(params) if self.body is None else self.with_fields(params)

    def param(self, name: str) -> Any:
        """Return the value of a parameter of a GET request or field of a POST request, or None."""
        if self.body is not None:
            return value_at(self._content(), name)
        return next((value for key, value in self._pairs() if key == name), None)

    @property
    def target(self) -> str:
        """The path with the query."""
        path = quote(self.path, safe="/%:@!$&'()*+,;=~")
        return f"{path}?{quote(self.query, safe=_IN_QUERY)}" if self.query else path

    def __str__(self) -> str:
        return self.target if self.body is None else f"{self.target} with {self.body}"

    def _pairs(self) -> list[tuple[str, str]]:
        return parse_qsl(self.query, keep_blank_values=True)

    def _content(self) -> dict[str, Any]:
        return dict(orjson.loads(self.body or "{}"))


@experimental
@dataclass(frozen=True)
class Response:
    """A successful response.

    Attributes:
        url: The URL of the request, without credentials.
        headers: The headers.
        body: The body. Never shown, because it may contain personal data.
        status: The status, such as 200. A response with 204 has no content.
    """

    url: str
    headers: HTTPMessage = field(repr=False)
    body: bytes = field(repr=False)
    status: int = 200

    @cached_property
    def json(self) -> Any:
        """The content of the body, or None without content.

        Raises:
            FatalError: The body is not JSON.
        """
        if self.status == HTTPStatus.NO_CONTENT:
            return None
        try:
            return orjson.loads(self.body)
        except ValueError:
            raise FatalError(
                "the response is not JSON",
                found=f"{len(self.body)} bytes of {self.headers.get_content_type()}",
                hint="check the URL of the API",
            ) from None


def value_at(content: Any, path: str) -> Any:
    """Return the value at a path of keys and list indexes, such as `meta.next`, or None.

    The index -1 is the last element.
    """
    for key in path.split(".") if path else ():
        match content:
            case dict():
                content = content.get(key)
            case [*_, last] if key == "-1":
                content = last
            case list() if key.isdigit() and int(key) < len(content):
                content = content[int(key)]
            case _:
                return None
    return content


def _path(segments: Sequence[str]) -> str:
    return "/".join(quote(segment, safe="") for segment in segments)
