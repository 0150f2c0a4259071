# SPDX-License-Identifier: Apache-2.0
"""Tests a registry over HTTP: each schema is requested once, and passwords stay hidden."""

from __future__ import annotations

import base64
import json
import pickle
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from connectors_core.errors import ConfigurationError, RetryableError
from connectors_core.formats import (
    HttpSchemaRegistry,
    RegisteredSchema,
    StaticSchemaRegistry,
    UnknownSchemaError,
)
from connectors_core.secrets import Secret

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": []})
ANSWERS: dict[str, tuple[int, Any]] = {
    "/base/schemas/ids/1": (200, {"schema": SCHEMA}),
    "/base/schemas/ids/2": (200, {"schema": "{}", "schemaType": "PROTOBUF"}),
    "/base/schemas/ids/3": (200, {"schema": SCHEMA, "references": [{"name": "x"}]}),
    "/base/schemas/ids/5": (503, {}),
    "/base/schemas/ids/6": (200, "no object"),
    "/base/schemas/ids/7": (200, {}),
    "/base/subjects/empty/versions": (200, {}),
    "/base/subjects/a%2Fb-value/versions": (200, {"id": 9}),
    "/base/subjects/a%2Fb-value/versions/latest": (200, {"id": 9, "schema": SCHEMA}),
    "/base/subjects/json/versions/latest": (200, {"schema": "{}", "schemaType": "JSON"}),
    "/base/subjects/refused/versions": (409, {}),
}


class Registry(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/base/"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server.requests.append((self.path, json.loads(body) if body else None))
        status, answer = ANSWERS.get(self.path, (404, {}))
        if self.headers["Authorization"] != "Basic " + base64.b64encode(b"me:s3cret").decode():
            status, answer = 401, {}
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def registry_at(url: str, password: str = "s3cret") -> HttpSchemaRegistry:
    return HttpSchemaRegistry(url=url, user_info=Secret(f"me:{password}"), timeout="20 s")


def test_a_schema_is_requested_once(server: Registry) -> None:
    registry = registry_at(server.url)
    assert [registry.schema_of(1), registry.schema_of(1)] == [SCHEMA, SCHEMA]
    assert [registry.register("a/b-value", SCHEMA), registry.register("a/b-value", SCHEMA)] == [
        9,
        9,
    ]
    assert server.requests == [
        ("/base/schemas/ids/1", None),
        ("/base/subjects/a%2Fb-value/versions", {"schema": SCHEMA}),
    ]


def test_the_newest_schema_of_a_subject_is_found(server: Registry) -> None:
    registry = registry_at(server.url)
    assert registry.newest_schema("a/b-value") == RegisteredSchema("AVRO", SCHEMA)
    assert registry.newest_schema("json") == RegisteredSchema("JSON", "{}")
    assert registry.newest_schema("none") is None


@pytest.mark.parametrize(
    ("schema_id", "reason"), [(4, "schema 4"), (2, "not an Avro schema"), (3, "refers to others")]
)
def test_a_missing_or_unusable_schema_is_refused(
    server: Registry, schema_id: int, reason: str
) -> None:
    with pytest.raises(UnknownSchemaError, match=reason):
        registry_at(server.url).schema_of(schema_id)


def test_temporary_errors_are_retryable_and_permanent_errors_are_not(server: Registry) -> None:
    registry = registry_at(server.url)
    with pytest.raises(RetryableError, match="503"):
        registry.schema_of(5)
    with pytest.raises(ConfigurationError, match="not a JSON object"):
        registry.schema_of(6)
    with pytest.raises(ConfigurationError, match="no schema"):
        registry.schema_of(7)
    with pytest.raises(ConfigurationError, match="no id"):
        registry.register("empty", SCHEMA)
    with pytest.raises(ConfigurationError, match="409"):
        registry.register("refused", SCHEMA)
    with pytest.raises(ConfigurationError, match="not a schema registry"):
        registry.register("nowhere", SCHEMA)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, but no process listens
        with pytest.raises(RetryableError, match="unreachable"):
            registry_at(f"http://127.0.0.1:{free.getsockname()[1]}").schema_of(1)


def test_a_wrong_password_raises_an_error_that_does_not_contain_the_password(
    server: Registry,
) -> None:
    registry = registry_at(server.url, "wr0ng")
    with pytest.raises(ConfigurationError, match="401") as caught:
        registry.schema_of(1)
    for text in (str(caught.value), repr(caught.value), repr(registry)):
        assert "wr0ng" not in text


# pragma: allowlist nextline secret
@pytest.mark.parametrize("url", ["file:///etc/passwd", "registry:8081", "http://me:s3cret@host"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used") as caught:
        HttpSchemaRegistry(url=url)
    assert "s3cret" not in str(caught.value)


def test_registries_can_be_pickled(server: Registry) -> None:
    registry = registry_at(server.url)
    registry.schema_of(1)
    copy = pickle.loads(pickle.dumps(registry))
    assert copy == registry
    assert copy.schema_of(1) == SCHEMA


def test_a_fixed_registry_returns_the_schemas_that_it_was_given() -> None:
    registry = StaticSchemaRegistry({4: SCHEMA})
    assert registry.schema_of(4) == SCHEMA
    assert registry.register("any", json.dumps(json.loads(SCHEMA), indent=1)) == 4
    with pytest.raises(UnknownSchemaError, match="schema 5 does not exist"):
        registry.schema_of(5)
    with pytest.raises(ConfigurationError, match="has no id"):
        registry.register("any", '{"type": "record", "name": "S", "fields": []}')
