# SPDX-License-Identifier: Apache-2.0
"""Tests that the HTTP client authenticates, renews tokens, and turns responses into errors."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import random
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from http_api import Api, answer, query_of, running

from connectors_core.clients.http import (
    ApiKey,
    Authenticator,
    BasicAuth,
    BearerToken,
    HttpClient,
    KeyLocation,
    LinkHeader,
    OAuth2,
    Request,
)
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    FatalError,
    InvalidOptionError,
    RetryableError,
)
from connectors_core.secrets import Secret
from connectors_core.testing.servers import HOST, Authority, HttpAnswer, HttpRequest, Identity

SECRET = "open sesame"  # pragma: allowlist secret
OAUTH = OAuth2(token_url="token", client_id="me", client_secret=Secret(SECRET))


class TokenServer:
    """Issues numbered tokens, and accepts the newest one."""

    def __init__(self, **more: object) -> None:
        self.issued = 0
        self.more = {"expires_in": 3600, **more}

    def __call__(self, request: HttpRequest) -> HttpAnswer:
        if request.path == "/token":
            self.issued += 1
            return answer({"access_token": f"t{self.issued}", **self.more})
        if request.headers.get("Authorization") != f"Bearer t{self.issued}":
            return answer({}, 401)
        return answer({"served": request.path})


@pytest.fixture
def api() -> Iterator[Api]:
    with running() as api:
        yield api


def get(api: Api, request: Request | None = None, **settings: object) -> object:
    with closing(HttpClient(api.url, **settings)) as client:  # type: ignore[arg-type]
        return client.get(request or Request("records")).json


def failure_of(api: Api, status: int, headers: dict[str, str] | None = None) -> ConnectorError:
    api.script.append(answer({"detail": SECRET}, status, headers))
    with pytest.raises(ConnectorError) as failure:
        get(api, authenticator=BearerToken(Secret(SECRET)))
    assert SECRET not in str(failure.value)
    return failure.value


# --- Requests ---


def test_a_path_is_relative_to_the_url_unless_it_starts_with_a_slash(api: Api) -> None:
    with closing(HttpClient(f"{api.url}/v1/")) as client:
        client.get(Request.of("a b", "c/d", since="x&y", left_out=None))
        client.get(Request("/v2", "page=2"))
    assert api.paths == ["/v1/a%20b/c%2Fd?since=x%26y", "/v2?page=2"]


def test_a_compressed_response_is_read(api: Api) -> None:
    body = gzip.compress(json.dumps([1]).encode())
    api.script.append(HttpAnswer(200, {"Content-Encoding": "gzip"}, body))
    assert get(api) == [1]


def test_a_compressed_response_of_several_members_is_read_whole(api: Api) -> None:
    body = gzip.compress(b"[1,") + gzip.compress(b"2]") + b"\0\0"
    api.script.append(HttpAnswer(200, {"Content-Encoding": "gzip"}, body))
    assert get(api) == [1, 2]


@pytest.mark.parametrize("status", [201, 203, 206])
def test_other_responses_with_content_are_read(api: Api, status: int) -> None:
    api.script.append(answer([1], status))
    assert get(api) == [1]


def test_a_response_without_content_is_read(api: Api) -> None:
    api.script.append(HttpAnswer(204, {}, b""))
    assert get(api) is None


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"])
def test_a_server_that_sends_slowly_does_not_defeat_the_timeout(head: bytes) -> None:
    ended = threading.Event()
    with socket.create_server((HOST, 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(head)
                while not ended.wait(0.02):
                    connection.sendall(b"H")

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://{HOST}:{server.getsockname()[1]}"
        started = time.monotonic()
        with closing(HttpClient(url, timeout=0.1)) as client, pytest.raises(RetryableError):
            client.get(Request("records"))
        assert time.monotonic() - started < 5
        ended.set()
        thread.join()


@contextmanager
def replying(reply: bytes) -> Iterator[str]:
    """A server that replies with these bytes, and ends the connection in order."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://{HOST}:{server.getsockname()[1]}"
        thread.join()


def replied(reply: bytes, **settings: object) -> object:
    with replying(reply) as url, closing(HttpClient(url, **settings)) as client:  # type: ignore[arg-type]
        return client.get(Request("records")).body


def test_a_response_that_ends_early_is_retryable() -> None:
    assert replied(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n[1, 2]") == b"[1, 2]"
    with pytest.raises(RetryableError, match="IncompleteRead"):
        replied(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n[1, 2]")


def test_a_compressed_response_that_ends_early_is_retryable(api: Api) -> None:
    body = gzip.compress(random.Random(1).randbytes(5000))[:3000]
    api.script.append(HttpAnswer(200, {"Content-Encoding": "gzip"}, body))
    with pytest.raises(RetryableError, match="damaged"):
        get(api)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_response_that_is_too_large_is_not_kept(api: Api, compressed: bool) -> None:
    body = b" " * 1001
    headers = {"Content-Encoding": "gzip"} if compressed else {}
    api.script.append(HttpAnswer(200, headers, gzip.compress(body) if compressed else body))
    with pytest.raises(FatalError, match="too large"):
        get(api, max_bytes=1000)


def test_a_response_that_is_too_large_before_it_is_decompressed_is_not_kept(api: Api) -> None:
    body = gzip.compress(random.Random(1).randbytes(5000))
    api.script.append(HttpAnswer(200, {"Content-Encoding": "gzip"}, body))
    with pytest.raises(FatalError, match="too large"):
        get(api, max_bytes=1000)


def test_a_peer_that_echoes_the_request_shows_no_key() -> None:
    key = ApiKey(Secret(SECRET), "key", KeyLocation.QUERY)
    with pytest.raises(RetryableError, match="BadStatusLine") as failure:
        replied(b"GET /records?key=open+sesame HTTP/1.1\r\n\r\n", authenticator=key)
    assert "sesame" not in str(failure.value)


@pytest.mark.parametrize("path", ["//{}/steal", "http://{}/steal"])
def test_credentials_go_to_no_other_server(api: Api, path: str) -> None:
    with running() as other:
        place = other.url.removeprefix("http://")
        get(api, Request(path.format(place)), authenticator=BearerToken(Secret(SECRET)))
    assert len(api.requests) == 1
    assert not other.requests


def test_a_response_that_is_not_json_is_not_shown(api: Api) -> None:
    api.script.append(HttpAnswer(200, {"Content-Type": "text/html"}, b"<p>Anna</p>"))
    with pytest.raises(FatalError, match="11 bytes of text/html") as failure:
        get(api)
    assert "Anna" not in str(failure.value)


def test_a_connection_serves_many_requests_and_is_reopened() -> None:
    with running() as api, closing(HttpClient(api.url)) as client:
        client.get(Request("a"))
        client.close()
        client.get(Request("b"))
        assert api.paths == ["/a", "/b"]


def test_a_silent_server_is_retryable_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            closing(HttpClient(url, timeout=0.05)) as client,
            pytest.raises(RetryableError, match="does not respond") as failure,
        ):
            client.check()
    assert failure.value.option == "url"


class Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def serving_tls(identity: Identity, folder: Path) -> Iterator[str]:
    pem = folder / "server.pem"
    pem.write_text(identity.certificate + identity.key.reveal())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with ThreadingHTTPServer((HOST, 0), Empty) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"https://{HOST}:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("trusted", [True, False])
def test_the_certificate_of_the_server_must_be_trusted(
    trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.create()
    trust = tmp_path / "trust.pem"
    trust.write_text((authority if trusted else Authority.create()).certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(trust))
    refused = pytest.raises(ConfigurationError, match="not trusted")
    with (
        serving_tls(authority.issue("server"), tmp_path) as url,
        closing(HttpClient(url)) as client,
        nullcontext() if trusted else refused,
    ):
        assert client.get(Request("")).json == []


@pytest.mark.parametrize(
    "url",
    [
        "localhost:80",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://host/?token=pw",
        "http://host/a b",
        "http://host/ä",
        "http://a..b",
        "http://[::1",
        "http://u:pw@host",  # pragma: allowlist secret
    ],
)
def test_a_url_that_is_not_valid_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="not valid") as failure:
        HttpClient(url, option="api.url")
    assert failure.value.option == "api.url"
    assert "pw" not in str(failure.value)


# --- Failures ---


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_a_busy_api_is_retryable(api: Api, status: int) -> None:
    assert isinstance(failure_of(api, status), RetryableError)


@pytest.mark.parametrize(
    ("status", "option"), [(401, "token"), (403, "token"), (302, "url"), (404, "url")]
)
def test_a_person_must_change_the_option(api: Api, status: int, option: str) -> None:
    error = failure_of(api, status)
    assert isinstance(error, ConfigurationError)
    assert error.option == option


def test_another_rejection_is_fatal(api: Api) -> None:
    assert isinstance(failure_of(api, 400), FatalError)


@pytest.mark.parametrize(
    ("status", "headers", "pause"),
    [
        (429, {"Retry-After": "7"}, 7),
        (503, {"Retry-After": "in a while"}, None),
        (429, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9"}, 9),
        (403, {"RateLimit-Remaining": "0", "RateLimit-Reset": "3.5"}, 3.5),
        (429, {"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "9"}, None),
        (429, {"Retry-After": "nan"}, None),
        (429, {"Retry-After": "Mon, 01 Jan 2026 00:00:00 +99999999999999999999"}, None),
    ],
)
def test_the_server_says_how_long_to_wait(
    api: Api, status: int, headers: dict[str, str], pause: float | None
) -> None:
    error = failure_of(api, status, headers)
    assert isinstance(error, RetryableError)
    assert error.retry_after == pause


@pytest.mark.parametrize("form", ["date", "seconds", "milliseconds"])
def test_the_server_says_until_when_to_wait(api: Api, form: str) -> None:
    until = datetime.now(UTC) + timedelta(hours=1)
    headers = {"Retry-After": format_datetime(until, usegmt=True)}
    if form != "date":
        moment = until.timestamp() * (1000 if form == "milliseconds" else 1)
        headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{moment:.0f}"}
    error = failure_of(api, 429, headers)
    assert isinstance(error, RetryableError)
    assert error.retry_after == pytest.approx(3600, abs=60)


# --- Authentication ---


@pytest.mark.parametrize(
    ("authenticator", "header", "value"),
    [
        (BearerToken(Secret("abc")), "Authorization", "Bearer abc"),
        (
            BasicAuth("me", Secret("pä:ss")),
            "Authorization",
            f"Basic {base64.b64encode('me:pä:ss'.encode()).decode()}",
        ),
        (ApiKey(Secret("abc")), "X-API-Key", "abc"),
    ],
)
def test_credentials_are_a_header(
    api: Api, authenticator: Authenticator, header: str, value: str
) -> None:
    get(api, authenticator=pickle.loads(pickle.dumps(authenticator)))
    assert api.requests[0].headers[header] == value


def test_a_key_in_the_query_is_in_no_stored_request(api: Api) -> None:
    key = ApiKey(Secret("abc"), name="api_key", location=KeyLocation.QUERY)
    link = {"Link": f'<{api.url}/records?api_key=abc&page=2>; rel="next"'}
    api.script.append(answer({}, headers=link))
    with closing(HttpClient(api.url, authenticator=key)) as client:
        first = Request("records", "size=5")
        response = client.get(first)
        following = client.next_page(LinkHeader(), first, response, 5)
    assert api.paths == ["/records?size=5&api_key=abc"]
    assert "abc" not in repr(response)
    assert following == Request("/records", "page=2")


@pytest.mark.parametrize("secret", ["abc\r\nX-Evil: 1", "schlüssel"])
def test_a_secret_that_no_header_can_carry_is_not_shown(api: Api, secret: str) -> None:
    with pytest.raises(InvalidOptionError) as failure:
        get(api, authenticator=BearerToken(Secret(secret)))
    assert failure.value.option == "token"
    assert secret not in str(failure.value)
    assert failure.value.__context__ is None


def test_a_token_is_requested_once_for_all_clients_of_a_process() -> None:
    server = TokenServer()
    with running(server) as api:
        assert get(api, authenticator=OAUTH) == {"served": "/records"}
        get(api, authenticator=OAUTH)
        assert api.paths == ["/token", "/records", "/records"]
        form = dict(parse_qsl(api.requests[0].body.decode()))
    assert form == {
        "grant_type": "client_credentials",
        "client_id": "me",
        "client_secret": SECRET,
    }


def test_an_expired_token_is_renewed_before_the_next_request() -> None:
    server = TokenServer(expires_in=0)
    with running(server) as api:
        get(api, authenticator=OAUTH)
        get(api, authenticator=OAUTH)
    assert api.paths == ["/token", "/records"] * 2


def test_a_rejected_token_is_renewed_once() -> None:
    server = TokenServer()
    with running(server) as api:
        get(api, authenticator=OAUTH)
        api.script.append(answer({}, 401))
        assert get(api, authenticator=OAUTH) == {"served": "/records"}
        assert server.issued == 2
        api.script.extend([answer({}, 401), answer({"access_token": "t9"}), answer({}, 401)])
        with pytest.raises(ConfigurationError) as failure:
            get(api, authenticator=OAUTH)
    assert failure.value.option == "client.secret"


def test_a_supplied_token_is_asked_for_again_after_a_refusal() -> None:
    tokens = iter(["t0", "t1"])
    server = TokenServer()
    with running(server) as api:
        bearer = BearerToken(Secret(lambda: next(tokens)))
        get(api, authenticator=bearer)
        server.issued = 1
        assert get(api, authenticator=bearer) == {"served": "/records"}
        sent = [each.headers["Authorization"] for each in api.requests]
    assert sent == ["Bearer t0", "Bearer t0", "Bearer t1"]


def test_an_authenticator_accepts_a_secret_as_text() -> None:
    oauth = OAuth2(token_url="token", client_id="me", client_secret=SECRET)  # type: ignore[arg-type]
    assert oauth == OAUTH
    assert SECRET not in repr(oauth)


def test_an_authenticator_refuses_a_secret_that_is_no_text() -> None:
    with pytest.raises(InvalidOptionError, match="token of BearerToken") as refused:
        BearerToken(SECRET.encode())  # type: ignore[arg-type]
    assert SECRET not in str(refused.value)


def test_a_client_can_authenticate_in_a_header_with_scopes_and_parameters() -> None:
    oauth = OAuth2(
        token_url="/token",
        client_id="m:e",
        client_secret=Secret("a b"),
        scopes=("read", "list"),
        params=(("audience", "records"),),
        basic=True,
    )
    with running(TokenServer()) as api:
        get(api, authenticator=oauth)
        assert dict(parse_qsl(api.requests[0].body.decode())) == {
            "grant_type": "client_credentials",
            "scope": "read list",
            "audience": "records",
        }
        assert api.requests[0].headers["Authorization"] == (
            f"Basic {base64.b64encode(b'm%3Ae:a%20b').decode()}"
        )


def refreshing() -> OAuth2:
    return OAuth2(
        token_url="token",
        client_id="me",
        client_secret=Secret(SECRET),
        refresh_token=Secret("again"),
    )


def test_a_refresh_token_is_exchanged_for_access_tokens() -> None:
    with running(TokenServer(refresh_token="again")) as api:
        get(api, authenticator=refreshing())
        form = dict(parse_qsl(api.requests[0].body.decode()))
    assert (form["grant_type"], form["refresh_token"]) == ("refresh_token", "again")


def test_a_refresh_token_that_works_once_is_refused() -> None:
    with (
        running(TokenServer(refresh_token="another")) as api,
        pytest.raises(ConfigurationError, match="replaces the refresh token"),
    ):
        get(api, authenticator=refreshing())


@pytest.mark.parametrize(
    ("response", "shown"),
    [
        (answer({"error": "invalid_client", "error_description": SECRET}, 401), "invalid_client"),
        (answer({"error": SECRET}, 400), "400"),
        (answer({"token": SECRET}), "no access token"),
        (HttpAnswer(200, {}, b"<html>"), "issues no token"),
    ],
)
def test_a_refused_client_is_named_without_its_secret(
    api: Api, response: HttpAnswer, shown: str
) -> None:
    api.script.append(response)
    with pytest.raises(ConfigurationError, match=shown) as failure:
        get(api, authenticator=OAUTH)
    assert failure.value.option == "client.secret"
    assert SECRET not in str(failure.value)


def test_a_busy_token_endpoint_is_retryable(api: Api) -> None:
    api.script.append(answer({}, 429, {"Retry-After": "2"}))
    with pytest.raises(RetryableError) as failure:
        get(api, authenticator=OAUTH)
    assert failure.value.retry_after == 2


@pytest.mark.parametrize(
    "make",
    [
        BearerToken,
        ApiKey,
        lambda secret: BasicAuth("me", secret),
        lambda secret: OAuth2(token_url="t", client_id="me", client_secret=secret),
        lambda secret: OAuth2(
            token_url="t", client_id="me", client_secret=Secret(SECRET), refresh_token=secret
        ),
    ],
)
def test_a_secret_may_be_a_text_and_nothing_else(make: Any) -> None:
    assert make(SECRET) == make(Secret(SECRET))
    assert SECRET not in repr(make(SECRET))
    with pytest.raises(InvalidOptionError, match="no secret"):
        make(SECRET.encode())


def test_no_secret_is_in_a_repr() -> None:
    assert SECRET not in repr(OAUTH)
    assert "again" not in repr(refreshing())


def test_a_query_keeps_repeated_parameters(api: Api) -> None:
    request = Request("a", "tag=x&tag=y&page=1").with_params({"page": 2})
    assert request == Request("a", "tag=x&tag=y&page=2")
    get(api, request)
    assert query_of(api.requests[0])["page"] == "2"
