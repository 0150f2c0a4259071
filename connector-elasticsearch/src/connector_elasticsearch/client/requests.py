# SPDX-License-Identifier: Apache-2.0
"""The two clients, and the one place where requests are sent.

Every request says that it speaks the protocol of Elasticsearch 8, which versions 8 and 9 take,
whatever the major version of the client library. Nothing is sent again here: who sends knows what
may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import orjson

from connector_elasticsearch.client.connection import ElasticsearchConnection
from connector_elasticsearch.client.errors import error_of_exception
from connector_elasticsearch.errors import ElasticsearchRetryableError
from connectors_core.errors import MissingDependencyError

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch, Elasticsearch

__all__ = ["AsyncElasticsearchClient", "ElasticsearchClient", "decoded", "path_of"]

_ERROR: Final = b'{"error":'
_PROTOCOL_TYPE: Final = "application/vnd.elasticsearch+json"
_LINES_TYPE: Final = "application/vnd.elasticsearch+x-ndjson"
_PROTOCOL: Final = "application/vnd.elasticsearch+{}; compatible-with=8"
_JSON: Final = _PROTOCOL.format("json")
_LINES: Final = _PROTOCOL.format("x-ndjson")


class ElasticsearchClient:
    """Asks Elasticsearch and waits for the answer. Driver and executor; for several threads.

    No I/O in the constructor, but for the certificates.

    Args:
        connection: How the servers are reached.

    Raises:
        ConfigurationError: The client library is missing, or the certificates cannot be read.
    """

    def __init__(self, connection: ElasticsearchConnection) -> None:
        self._connection = connection
        self._client: Elasticsearch = _library().Elasticsearch(
            **_settings(connection, is_async=False)
        )

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        doing: str,
    ) -> Any:
        """Send one request.

        Args:
            method: Of HTTP.
            path: See `path_of`.
            body: An object to send as JSON; bytes are sent as they are, as lines of JSON.
            params: What stands behind the path.
            doing: What is asked, for errors, as in `reading the mapping of flights`.

        Returns:
            The answer: what its JSON holds, None where it is empty.

        Raises:
            ConnectorError: There is none, or none of success; the class says what to do.
        """
        answer = self.request_bytes(method, path, body, params=params, doing=doing)
        return decoded(answer, doing) if answer else None

    def request_bytes(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        doing: str,
    ) -> bytes:
        """Send one request, and take the answer as it is; see `request`."""
        try:
            answer = self._client.perform_request(
                method,
                path,
                params=params,
                headers=_headers(self._connection, body),
                body=_encoded(body),
            )
        except Exception as exc:
            raise error_of_exception(exc, doing, login=self._connection.login_option) from exc
        found: bytes = answer.body
        return found

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class AsyncElasticsearchClient:
    """Asks Elasticsearch from an event loop; all but the constructor on the loop's thread.

    No I/O in the constructor, but for the certificates.

    Args:
        connection: How the servers are reached.
        connections: Most that are open to one server; a further request waits for one of them.

    Raises:
        ConfigurationError: The client library is missing, or the certificates cannot be read.
    """

    def __init__(self, connection: ElasticsearchConnection, *, connections: int = 10) -> None:
        self._connection = connection
        self._client: AsyncElasticsearch = _library().AsyncElasticsearch(
            **_settings(connection, is_async=True), connections_per_node=connections
        )

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        doing: str,
    ) -> Any:
        """Send one request; see `ElasticsearchClient.request`."""
        answer = await self.request_bytes(method, path, body, params=params, doing=doing)
        return decoded(answer, doing) if answer else None

    async def request_bytes(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        doing: str,
    ) -> bytes:
        """Send one request, and take the answer as it is; see `ElasticsearchClient.request`."""
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
        found: bytes = answer.body
        return found

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def decoded(answer: bytes, doing: str) -> Any:
    """What the JSON of an answer holds.

    Raises:
        ElasticsearchRetryableError: It is none.
    """
    try:
        return orjson.loads(answer)
    except orjson.JSONDecodeError as exc:
        raise ElasticsearchRetryableError(
            f"the answer of Elasticsearch cannot be read: {doing}", found=str(exc)
        ) from exc


def path_of(*parts: str) -> str:
    """The path of a request, made of names; commas and stars keep their meaning."""
    return "/" + "/".join(quote(part, safe=",*") for part in parts)


def _library() -> Any:
    try:
        import elasticsearch
    except ImportError as exc:
        raise MissingDependencyError(
            "elasticsearch", install="pip install 'elasticsearch[async]>=8.19,<10'"
        ) from exc
    return elasticsearch


def _settings(connection: ElasticsearchConnection, *, is_async: bool) -> dict[str, Any]:
    from connector_elasticsearch.client.node import DirectNode

    return {
        **connection.client_arguments(is_async=is_async),
        **({"node_class": DirectNode} if is_async else {}),  # the other one follows no redirects
        "max_retries": 0,
        "retry_on_timeout": False,
        "serializers": _serializers(),
    }


def _serializers() -> dict[str, Any]:
    """Leave bodies and answers as they are, but errors, which the client itself looks into."""
    from elasticsearch import OrjsonSerializer

    class Answers(OrjsonSerializer):
        def loads(self, data: bytes) -> Any:
            return super().loads(data) if data.startswith(_ERROR) else data

    class Lines(Answers):
        def dumps(self, data: bytes) -> bytes:
            return data

    return {"application/json": Answers(), _PROTOCOL_TYPE: Answers(), _LINES_TYPE: Lines()}


def _headers(connection: ElasticsearchConnection, body: Any) -> dict[str, str]:
    # Not given to the client, which would show them in its errors.
    headers = {**connection.revealed_headers, "accept": _JSON}
    if body is not None:
        headers["content-type"] = _LINES if isinstance(body, bytes) else _JSON
    return headers


def _encoded(body: Any) -> bytes | None:
    return body if body is None or isinstance(body, bytes) else orjson.dumps(body)
