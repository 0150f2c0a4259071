# SPDX-License-Identifier: Apache-2.0
"""Reads GitHub's REST API: https://docs.github.com/en/rest."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from connector_release_tools.errors import ForgeError

__all__ = ["Client"]

_VERSION: Final = "2022-11-28"
_TIMEOUT_SECONDS: Final = 30
_PAGE: Final = 100


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because urllib would send the token to its target."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True)
class Client:
    """A client that only reads.

    Attributes:
        url: The address of the API, such as https://api.github.com.
        token: The access token; None reads only what is public. No message contains it.
    """

    url: str
    token: str | None = field(default=None, repr=False)

    def get(self, path: str) -> Any:
        """Return a resource.

        Args:
            path: Its path, such as repos/spark-connectors/connectors.

        Raises:
            ForgeError: The resource does not exist, the token may not read it, or the API is
                unavailable.
        """
        address = f"{self.url.rstrip('/')}/{path}"
        parts = urlsplit(address)
        if "@" in parts.netloc:
            raise ForgeError("the address of the API contains a login", hint="set GH_TOKEN instead")
        if parts.scheme != "https" and parts.hostname not in {"127.0.0.1", "localhost"}:
            raise ForgeError(f"{self.url} is not an https address", hint="the token needs https")
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": _VERSION}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        opener = urllib.request.build_opener(_NoRedirects)
        try:
            with opener.open(
                urllib.request.Request(address, headers=headers),  # noqa: S310 (https only)
                timeout=_TIMEOUT_SECONDS,
            ) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            error.close()
            raise ForgeError(f"GET {address}: {_said(error)}", hint=_hint(error.code)) from error
        except (OSError, http.client.HTTPException) as error:
            raise ForgeError(f"GET {address}: {error}") from error
        except ValueError as error:
            raise ForgeError(f"GET {address}: the response is not JSON") from error

    def pages(self, path: str) -> Iterator[Any]:
        """Return the elements of a list, whatever its number of pages.

        Raises:
            ForgeError: As for `get`, or the resource is not a list.
        """
        number = 1
        while True:
            found = self.get(f"{path}?per_page={_PAGE}&page={number}")
            if not isinstance(found, list):
                raise ForgeError(f"GET {path}: expected a list")
            yield from found
            if len(found) < _PAGE:
                return
            number += 1


def _said(error: urllib.error.HTTPError) -> str:
    if error.code == 403 and error.headers.get("x-ratelimit-remaining") == "0":
        return "the limit of requests is reached"
    return f"{error.code} {error.reason}"


def _hint(status: int) -> str:
    match status:
        case 401:
            return "set GH_TOKEN to a valid token, or unset it to read only what is public"
        case 403 | 404:
            return "check the name, and set GH_TOKEN to a token of an administrator"
        case 301 | 307 | 308:
            return "the repository has moved; pass its new name"
    return "try it again later"
