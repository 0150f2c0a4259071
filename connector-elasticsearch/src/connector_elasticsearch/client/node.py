# SPDX-License-Identifier: Apache-2.0
"""The asynchronous client's HTTP node, imported as late as the client library.

By default, aiohttp follows redirects to any host, with the body and all headers.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import aiohttp
from elastic_transport import AiohttpHttpNode

__all__ = ["DirectNode", "RedirectRefused", "origin_of"]


class RedirectRefused(aiohttp.ClientError):
    """A server redirected the request to another address.

    Attributes:
        status: The status of the response.
        origin: See `origin_of`.
    """

    def __init__(self, status: int, origin: str) -> None:
        super().__init__(f"a redirect, {status} to {origin}, was not followed")
        self.status = status
        self.origin = origin


class DirectNode(AiohttpHttpNode):
    """Sends requests only to its own address, and refuses redirects."""

    def _create_aiohttp_session(self) -> None:
        super()._create_aiohttp_session()
        assert self.session is not None  # the call above created it
        refusing = aiohttp.TraceConfig()
        refusing.on_request_redirect.append(_refuse)
        refusing.freeze()
        self.session.trace_configs.append(refusing)


async def _refuse(_session: Any, _context: Any, redirect: Any) -> None:
    """Raise before a redirect is followed, which ends the request."""
    redirect.response.close()
    location = redirect.response.headers.get("location", "")
    raise RedirectRefused(redirect.response.status, origin_of(location))


def origin_of(location: str) -> str:
    """Return the origin of an address, without a login, path, or query."""
    try:
        parts = urlsplit(location)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "an unreadable address"
    return f"{parts.scheme}://{parts.hostname}{port}" if parts.hostname else "another path"
