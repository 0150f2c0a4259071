# SPDX-License-Identifier: Apache-2.0
"""The two clients, and the only place that sends requests.

An incomplete or unexpected response is an error that can be retried. It never counts as success.

Every request declares the protocol of Elasticsearch 8, which versions 8 and 9 accept, independent
of the client library's major version. This module never repeats a request, because only the caller
knows what can be repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import quote

import orjson

from connector_elasticsearch.client.connection import ElasticsearchConnection
from connector_elasticsearch.client.errors import error_of_exception
from connector_elasticsearch.errors import (
    ElasticsearchAuthenticationError,
    ElasticsearchRetryableError,
)
from connectors_core.clients import submit
from connectors_core.errors import MissingDependencyError

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

__all__ = [
    "AsyncElasticsearchClient",
    "ElasticsearchClient",
    "decoded",
    "meaningless",
    "path_of",
    "told",
]

T = TypeVar("T")
Params: TypeAlias = Mapping[str, Any] | None

_logger = logging.getLogger(__name__)

_CLOSE_SECONDS: Final = 10.0

_ERROR: Final = b'{"error":'
_PROTOCOL_TYPE: Final = "application/vnd.elasticsearch+json"
_LINES_TYPE: Final = "application/vnd.elasticsearch+x-ndjson"
_PROTOCOL: Final = "application/vnd.elasticsearch+{}; compatible-with=8"
_JSON: Final = _PROTOCOL.format("json")
_LINES: Final = _PROTOCOL.format("x-ndjson")


class ElasticsearchClient:
    """Sends requests to Elasticsearch and waits for the response.

    Driver and executor. Safe for several threads.

    The event loop of the process sends the requests. So a request ends at its timeout or when it is
    canceled, whatever the server sends. Do not call it from the loop's own thread. The constructor
    does no I/O, except to read the certificates.

    Args:
        connection: The connection to the servers.

    Raises:
        ConfigurationError: The client library is missing, or the certificates cannot be read.
    """

    def __init__(self, connection: ElasticsearchConnection) -> None:
        self._client = AsyncElasticsearchClient(connection)
        self._where = connection
        self._waiting: set[Future[bytes]] = set()

    def request(
        self, method: str, path: str, body: Any = None, *, params: Params = None, doing: str
    ) -> Any:
        """Send one request.

        Args:
            method: The HTTP method.
            path: See `path_of`.
            body: An object to send as JSON, or bytes to send unchanged as lines of JSON.
            params: The query parameters.
            doing: The operation, for errors, e.g. `reading the mapping of flights`.

        Returns:
            The parsed JSON of the response, or None if it is empty.

        Raises:
            ConnectorError: The request failed. The error's class tells how to handle it.
        """
        answer = self.request_bytes(method, path, body, params=params, doing=doing)
        return decoded(answer, doing) if answer else None

    def request_bytes(
        self, method: str, path: str, body: Any = None, *, params: Params = None, doing: str
    ) -> bytes:
        """Send one request and return the raw response. See `request`."""
        asked = self._client.request_bytes(method, path, body, params=params, doing=doing)
        future = submit(asked)
        self._waiting.add(future)
        try:
            return future.result()
        except CancelledError as exc:
            raise ElasticsearchRetryableError(f"the request was canceled: {doing}") from exc
        finally:
            future.cancel()  # has no effect on a finished request
            self._waiting.discard(future)

    def cancel(self) -> None:
        """Cancel the requests that wait for their responses. Any thread."""
        for future in list(self._waiting):
            future.cancel()

    def close(self) -> None:
        """Cancel waiting requests and close the connections."""
        self.cancel()
        closing = submit(self._client.close())
        try:
            closing.result(_CLOSE_SECONDS)
        except TimeoutError:
            closing.cancel()
            _logger.warning(
                "the connections to %r did not close within %g seconds", self._where, _CLOSE_SECONDS
            )


class AsyncElasticsearchClient:
    """Sends requests to Elasticsearch from an event loop.

    Call everything except the constructor on the loop's thread.

    The constructor does no I/O, except to read the certificates.

    Args:
        connection: The connection to the servers.
        connections: The maximum number of connections to one server. Further requests wait for a
            connection.

    Raises:
        ConfigurationError: The client library is missing, or the certificates cannot be read.
    """

    def __init__(self, connection: ElasticsearchConnection, *, connections: int = 10) -> None:
        self._connection = connection
        self._client: AsyncElasticsearch = _library().AsyncElasticsearch(
            **_settings(connection), connections_per_node=connections
        )

    async def request(
        self, method: str, path: str, body: Any = None, *, params: Params = None, doing: str
    ) -> Any:
        """Send one request; see `ElasticsearchClient.request`."""
        answer = await self.request_bytes(method, path, body, params=params, doing=doing)
        return decoded(answer, doing) if answer else None

    async def request_bytes(
        self, method: str, path: str, body: Any = None, *, params: Params = None, doing: str
    ) -> bytes:
        """Send one request and return the raw response. See `ElasticsearchClient.request`.

        After a rejected login whose secret can vary, the request is sent once more with a new one.
        """
        try:
            return await self._answer(method, path, body, params, doing)
        except ElasticsearchAuthenticationError:
            if not self._connection.login_varies:
                raise
        login = await asyncio.to_thread(self._connection.login_arguments)
        self._client = self._client.options(**login)
        return await self._answer(method, path, body, params, doing)

    async def _answer(self, method: str, path: str, body: Any, params: Params, doing: str) -> bytes:
        try:
            answer = await self._client.perform_request(
                method,
                path,
                params=params,
                headers=_headers(self._connection, body),
                body=_encoded(body),
            )
        except Exception as exc:
            raise error_of_exception(exc, doing, login=self._connection.login_option) from exc
        if not isinstance(answer.body, bytes):  # not JSON, or a success status with an error
            raise meaningless(
                doing, found=f"a response of {answer.meta.status} with another content type"
            )
        return answer.body

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def decoded(answer: bytes, doing: str) -> Any:
    """Parse the JSON of a response.

    Raises:
        ElasticsearchRetryableError: The response is not JSON.
    """
    try:
        return orjson.loads(answer)
    except orjson.JSONDecodeError as exc:
        raise meaningless(doing, found=str(exc)) from exc


def told(answer: Any, *names: str, kind: type[T], doing: str) -> T:
    """Return a field of a response.

    Args:
        answer: The parsed JSON.
        names: The names of the field and its parents, from the outermost.
        kind: The expected type.
        doing: The operation, for errors.

    Raises:
        ElasticsearchRetryableError: The field is missing or has another type.
    """
    found = answer
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, kind):
        raise meaningless(doing, found=f"no {'.'.join(names) or kind.__name__}")
    return found


def meaningless(doing: str, *, found: str) -> ElasticsearchRetryableError:
    """Return the error for an unexpected response.

    Args:
        doing: The operation.
        found: The problem with the response, without its content.
    """
    return ElasticsearchRetryableError(
        f"the response of Elasticsearch is unreadable: {doing}",
        expected="a complete response to the request",
        found=found,
        hint="if this persists, look for a proxy between this machine and the servers",
    )


def path_of(*parts: str) -> str:
    """Return a request path built from names. Commas and stars keep their meaning."""
    return "/" + "/".join(quote(part, safe=",*") for part in parts)


def _library() -> Any:
    try:
        import elasticsearch
    except ImportError as exc:
        raise MissingDependencyError(
            "elasticsearch", install="pip install 'elasticsearch[async]>=8.19,<10'"
        ) from exc
    return elasticsearch


def _settings(connection: ElasticsearchConnection) -> dict[str, Any]:
    from connector_elasticsearch.client.node import DirectNode

    return {
        **connection.client_arguments(is_async=True),
        "node_class": DirectNode,
        "max_retries": 0,
        "retry_on_timeout": False,
        "serializers": _serializers(),
    }


def _serializers() -> dict[str, Any]:
    """Pass bodies and responses through unchanged, except errors, which the client parses."""
    from elasticsearch import OrjsonSerializer

    class Answers(OrjsonSerializer):
        def loads(self, data: bytes) -> Any:
            return super().loads(data) if data.startswith(_ERROR) else data

    class Lines(Answers):
        def dumps(self, data: bytes) -> bytes:
            return data

    return {"application/json": Answers(), _PROTOCOL_TYPE: Answers(), _LINES_TYPE: Lines()}


def _headers(connection: ElasticsearchConnection, body: Any) -> dict[str, str]:
    # Not passed to the client, which would show them in its errors.
    headers = {**connection.revealed_headers, "accept": _JSON}
    if body is not None:
        headers["content-type"] = _LINES if isinstance(body, bytes) else _JSON
    return headers


def _encoded(body: Any) -> bytes | None:
    return body if body is None or isinstance(body, bytes) else orjson.dumps(body)
