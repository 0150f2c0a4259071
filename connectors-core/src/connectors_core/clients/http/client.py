# SPDX-License-Identifier: Apache-2.0
"""A client of an HTTP API, on the standard library."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from typing import Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

import orjson
from cachetools import LRUCache

from connectors_core.annotations import experimental
from connectors_core.clients.http.authenticators import Authenticator, Credentials
from connectors_core.clients.http.messages import Request, Response
from connectors_core.clients.http.paginators import Paginator
from connectors_core.clients.http.pauses import is_limited, requested_pause
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    FatalError,
    InvalidOptionError,
    RetryableError,
)
from connectors_core.secrets import Secret, mask_url

__all__ = ["HttpClient"]

_FORM: Final = "application/x-www-form-urlencoded"
_JSON: Final = "application/json"
_PATH: Final = re.compile("[!-~]*")
_BUSY: Final = frozenset({408, 425, 429})
_SUCCESS: Final = frozenset({200, 201, 203, 204, 206})
_PIECE: Final = 1 << 20
# The head of a response follows the connection and the wait for the server.
_HEAD_TIMEOUTS: Final = 2
_WHOLE_TIMEOUTS: Final = 10
# RFC 6749, 5.2: only these codes are shown, because an endpoint may repeat the request in others.
_TOKEN_ERRORS: Final = frozenset(
    {
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "unauthorized_client",
        "unsupported_grant_type",
    }
)


@dataclass(frozen=True)
class _Obtained:
    credentials: Credentials
    renew_at: float


# Tasks of a worker process share tokens, so that an epoch does not request new ones.
_obtained: Final[MutableMapping[tuple[str, Authenticator], _Obtained]] = LRUCache(64)
_lock: Final = threading.Lock()


@experimental
class HttpClient:
    """A connection to an API, for one thread. The constructor does no I/O.

    It keeps the connection open, renews expired tokens, and follows no redirect. It does not retry:
    a `RetryableError` has the pause that the server requests.

    Args:
        url: The URL of the API, `http` or `https`.
        authenticator: Obtains credentials; None sends none.
        headers: Further headers of each request.
        timeout: Seconds to wait for the connection, and for each part of a response. The whole
            response may take ten times as long, however slowly a server sends it.
        max_bytes: The largest response.
        option: Key of the option with the URL.

    Raises:
        InvalidOptionError: The URL is not valid.
    """

    def __init__(
        self,
        url: str,
        *,
        authenticator: Authenticator | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        max_bytes: int = 64 << 20,
        option: str = "url",
    ) -> None:
        self._base = url.rstrip("/") + "/"
        self._option = option
        self._where = f"the API at {mask_url(url)}"
        self._authenticator = authenticator
        self._headers = {"Accept": _JSON, "Accept-Encoding": "gzip", **(headers or {})}
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._connections: dict[tuple[str, str], HTTPConnection] = {}
        self._origin(url)
        if "?" in url or "#" in url:
            raise self._invalid(url)

    def get(self, request: Request) -> Response:
        """Return the response to a request, which is sent with POST if it has a body.

        Raises:
            RetryableError: The API is temporarily unavailable, or a limit is exhausted.
            ConfigurationError: A person must change an option.
            FatalError: The API rejects the request, or the response is too large.
        """
        obtained = self._credentials()
        try:
            return self._get(request, obtained)
        except _RejectedError as rejected:
            if self._authenticator is None or not self._authenticator.can_renew:
                raise rejected.error from None
        try:
            return self._get(request, self._credentials(rejected=obtained))
        except _RejectedError as rejected:
            raise rejected.error from None

    def next_page(
        self, paginator: Paginator, request: Request, response: Response, records: int
    ) -> Request | None:
        """Return the request for the next page, without credentials, or None after the last.

        Args:
            paginator: Finds the next page.
            request: The request for this page.
            response: This page.
            records: The number of its records.

        Raises:
            FatalError: The next page is this page, or is on another server.
        """
        following = paginator.next(request, response, records)
        if following is None:
            return None
        if self._authenticator is not None and self._authenticator.query_names:
            following = following.with_params(dict.fromkeys(self._authenticator.query_names))
        if following == request:
            raise FatalError(
                "the API returns the same page as the next page",
                found=mask_url(response.url),
                hint="check the paginator of the connector",
            )
        return following

    def check(self) -> None:
        """Check that the API responds and issues credentials. See `SupportsConnectionCheck`.

        Raises:
            ConnectorError: It does not.
        """
        self._credentials()
        self._exchange("HEAD", self._base, self._headers)

    def close(self) -> None:
        """Close the connections. A later call reopens them."""
        for each in self._connections.values():
            each.close()

    # --- Credentials ---

    def _credentials(self, rejected: _Obtained | None = None) -> _Obtained:
        if self._authenticator is None:
            return _Obtained(Credentials(), 0.0)
        key = (self._base, self._authenticator)
        with _lock:
            known = _obtained.get(key)
        if known is not None and known is not rejected and time.monotonic() < known.renew_at:
            return known
        credentials = self._authenticator.obtain(self._post_form)
        obtained = _Obtained(credentials, time.monotonic() + credentials.lifetime)
        with _lock:
            _obtained[key] = obtained
        return obtained

    def _post_form(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, Secret]
    ) -> Mapping[str, Any]:
        option = self._authenticator.option if self._authenticator else None
        sent = {**self._headers, "Content-Type": _FORM}
        sent |= {name: value.reveal() for name, value in headers.items()}
        body = urlencode(form).encode()
        status, got, answer = self._exchange("POST", urljoin(self._base, url), sent, body)
        if status in _BUSY or status >= 500:
            raise self._busy(status, got)
        try:
            content = orjson.loads(answer)
        except ValueError:
            content = None
        if status in _SUCCESS and isinstance(content, dict):
            return content
        code = content.get("error") if isinstance(content, dict) else None
        raise ConfigurationError(
            f"{self._where} issues no token",
            found=f"{status} {code if code in _TOKEN_ERRORS else ''}".strip(),
            option=option,
            hint="check the client, its secret, and the token endpoint",
        )

    # --- Requests ---

    def _get(self, request: Request, obtained: _Obtained) -> Response:
        url, credentials = self._url(request), obtained.credentials
        params = {name: secret.reveal() for name, secret in credentials.params.items()}
        sent = self._url(request.with_params(params)) if params else url
        headers = self._headers | {
            name: secret.reveal() for name, secret in credentials.headers.items()
        }
        if request.body is None:
            status, got, body = self._exchange("GET", sent, headers)
        else:
            headers |= {"Content-Type": _JSON}
            status, got, body = self._exchange("POST", sent, headers, request.body.encode())
        if status not in _SUCCESS:
            raise self._failure(status, got, request)
        return Response(url, got, body, status)

    def _url(self, request: Request) -> str:
        """Return the URL of a request on this server, also if its path begins with two slashes."""
        if not request.path.startswith("/"):
            return self._base + request.target
        scheme, netloc = self._origin(self._base)
        return f"{scheme}://{netloc}{request.target}"

    def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[int, HTTPMessage, bytes]:
        parts = urlsplit(url)
        origin = self._origin(url)
        connection = self._connections.get(origin) or self._connection(*origin)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            started = time.monotonic()
            with _ending(connection, _HEAD_TIMEOUTS * self._timeout):
                connection.request(method, target, body, dict(headers))
                response = connection.getresponse()
            answer = self._body(response, started + _WHOLE_TIMEOUTS * self._timeout)
            # Unlike `read()`, `read(size)` raises nothing if the response ends early.
            if response.length and len(answer) <= self._max_bytes:
                raise IncompleteRead(answer, response.length)
        except ssl.SSLCertVerificationError as exc:
            connection.close()
            raise ConfigurationError(
                f"the certificate of {self._where} is not trusted",
                found=exc.verify_message,
                option=self._option,
                hint="set SSL_CERT_FILE to the certificate of its authority",
            ) from exc
        except (OSError, HTTPException) as exc:
            connection.close()  # the next call reconnects
            raise RetryableError(
                f"{self._where} does not respond",
                found=_reason(exc),
                option=self._option,
            ) from exc
        too_large = len(answer) > self._max_bytes
        if not too_large and answer and _is_gzip(response):
            answer = self._unzipped(answer)
            too_large = len(answer) > self._max_bytes
        if too_large:
            connection.close()
            raise FatalError(
                f"{self._where} returns a response that is too large",
                expected=f"at most {self._max_bytes} bytes",
                hint="request smaller pages",
            )
        return response.status, response.headers, answer

    def _body(self, response: HTTPResponse, deadline: float) -> bytes:
        """Read at most one byte too many, piece by piece."""
        found = bytearray()
        while len(found) <= self._max_bytes and not response.isclosed():
            if time.monotonic() > deadline:
                raise TimeoutError("the response takes too long")
            piece = response.read1(min(_PIECE, self._max_bytes + 1 - len(found)))
            found += piece
            if not piece:
                response.close()
        return bytes(found)

    def _unzipped(self, answer: bytes) -> bytes:
        """Decompress one or more members of gzip."""
        found = bytearray()
        try:
            while answer and len(found) <= self._max_bytes:
                decompressor = zlib.decompressobj(wbits=31)
                found += decompressor.decompress(answer, self._max_bytes + 1 - len(found))
                if not decompressor.eof and len(found) <= self._max_bytes:
                    raise zlib.error("the stream is not complete")
                answer = decompressor.unused_data.lstrip(b"\0")  # padding
        except zlib.error as exc:
            raise RetryableError(f"{self._where} returns a damaged response") from exc
        return bytes(found)

    def _connection(self, scheme: str, netloc: str) -> HTTPConnection:
        if scheme == "https":
            context = ssl.create_default_context()
            made: HTTPConnection = HTTPSConnection(netloc, timeout=self._timeout, context=context)
        else:
            made = HTTPConnection(netloc, timeout=self._timeout)
        self._connections[scheme, netloc] = made
        return made

    def _origin(self, url: str) -> tuple[str, str]:
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").encode("idna") if parts.port != 0 else b""
        except ValueError:
            raise self._invalid(url) from None
        known = parts.scheme in ("http", "https")
        if not (known and host and _PATH.fullmatch(parts.path)) or "@" in parts.netloc:
            raise self._invalid(url)
        return parts.scheme, parts.netloc

    def _invalid(self, url: str) -> InvalidOptionError:
        return InvalidOptionError(
            "the URL of the API is not valid",
            expected="http:// or https:// with a host, without a user and a query",
            found=mask_url(url),
            option=self._option,
        )

    # --- Failures ---

    def _failure(self, status: int, headers: HTTPMessage, request: Request) -> Exception:
        if status in _BUSY or status >= 500 or (status == 403 and is_limited(headers)):
            return self._busy(status, headers)
        option = self._authenticator.option if self._authenticator else None
        if status == 401:
            return _RejectedError(
                ConfigurationError(
                    f"{self._where} rejects the credentials", found=status, option=option
                )
            )
        if status == 403:
            return ConfigurationError(
                f"{self._where} denies access to {request.path}", found=status, option=option
            )
        if status in (404, 410) or 300 <= status < 400:
            return ConfigurationError(
                f"{self._where} has no {request.path}", found=status, option=self._option
            )
        return FatalError(f"{self._where} rejects the request for {request.path}", found=status)

    def _busy(self, status: int, headers: HTTPMessage) -> RetryableError:
        return RetryableError(
            f"{self._where} is busy",
            found=status,
            retry_after=requested_pause(headers, time.time()),
            option=self._option,
        )


@contextmanager
def _ending(connection: HTTPConnection, seconds: float) -> Iterator[None]:
    """End the connection after some seconds, because a socket's timeout is that of one read."""

    def end() -> None:
        sock: socket.socket | None = connection.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_gzip(response: HTTPResponse) -> bool:
    return response.headers.get("Content-Encoding", "").lower() in ("gzip", "x-gzip")


def _reason(error: OSError | HTTPException) -> str:
    """Return the reason of a failure. A peer that is no HTTP server may echo the request."""
    name = type(error).__name__
    return name if type(error) is BadStatusLine else f"{name}: {error}"


class _RejectedError(Exception):
    """The API rejects the credentials, which may have expired early."""

    def __init__(self, error: ConnectorError) -> None:
        super().__init__()
        self.error = error
