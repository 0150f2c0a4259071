# SPDX-License-Identifier: Apache-2.0
"""The only mapping from errors of Elasticsearch and its client to connector errors."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

from connector_elasticsearch.errors import (
    ElasticsearchAuthenticationError,
    ElasticsearchAuthorizationError,
    ElasticsearchFatalError,
    ElasticsearchRequestError,
    ElasticsearchRetryableError,
    ElasticsearchTooLargeError,
    ElasticsearchVersionError,
)
from connectors_core.clients import causes_of
from connectors_core.errors import ConnectorError

__all__ = ["CLUSTER_BLOCK", "error_of_exception", "explained", "is_refused_for_now", "type_of"]

CLUSTER_BLOCK: Final = "cluster_block_exception"
"""Elasticsearch's error for an index or a cluster that currently accepts no writes."""

_SEARCH_FAILED: Final = "search_phase_execution_exception"
_TIMED_OUT: Final = 408
_TOO_LARGE: Final = 413
_TOO_MANY: Final = 429
_MEDIA_TYPES: Final = frozenset({"media_type_header_exception", "not_acceptable_exception"})
_NOT_ACCEPTABLE: Final = 406
_AnswerError = (
    ElasticsearchRetryableError
    | ElasticsearchFatalError
    | ElasticsearchAuthenticationError
    | ElasticsearchAuthorizationError
    | ElasticsearchRequestError
    | ElasticsearchVersionError
)
# The text after this marker contains a value of the document, which must not appear in a log.
_PREVIEW: Final = " Preview of "


def is_refused_for_now(status: int, error_type: str | None) -> bool:
    """Return whether a retry of a request, or of one item of a bulk, can succeed."""
    return status in (_TIMED_OUT, _TOO_MANY) or status >= 500 or error_type == CLUSTER_BLOCK


def type_of(error: Any) -> str | None:
    """Return Elasticsearch's name of an error in a response, or that of the shard in a search."""
    found = _cause(error).get("type") if isinstance(error, dict) else None
    return found if isinstance(found, str) else None


def explained(error: Any) -> str:
    """Describe the error in a response, without values of documents."""
    if not isinstance(error, dict):
        return "no reason given" if error is None else str(error)[:500]
    error = _cause(error)
    reason = str(error.get("reason") or "no reason given").split(_PREVIEW)[0]
    index = str(error.get("index") or "")
    return f"{error.get('type')}: {reason}{f' [{index}]' if index not in reason else ''}"


def _cause(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the error of a shard that made a search fail, or the error itself."""
    if error.get("type") == _SEARCH_FAILED and error.get("root_cause"):
        cause: Mapping[str, Any] = error["root_cause"][0]
        return cause
    return error


def error_of_exception(error: Exception, doing: str, *, login: str | None) -> ConnectorError:
    """Convert an error of the client to a connector error, and keep it as the cause.

    Args:
        error: The error from elasticsearch-py or elastic-transport.
        doing: The operation, e.g. `writing documents`.
        login: The option that holds the login, or None without a login.
    """
    import elastic_transport

    if isinstance(error, elastic_transport.ApiError):
        made = _of_answer(error, doing, login)
    elif isinstance(error, elastic_transport.TransportError):
        made = _of_transport(error, doing)
    else:
        made = ElasticsearchFatalError(
            f"the client failed: {doing}", found=f"{type(error).__name__}: {error}"
        )
    made.__cause__ = error
    return made


def _of_answer(error: Any, doing: str, login: str | None) -> ConnectorError:
    from elasticsearch import UnsupportedProductError

    from connector_elasticsearch.client.node import origin_of

    status: int = error.meta.status
    answered = error.body.get("error") if isinstance(error.body, dict) else error.body
    name = type_of(answered)
    found = f"{status} {explained(answered)}"
    made: _AnswerError
    if isinstance(error, UnsupportedProductError):
        made = ElasticsearchVersionError(
            "the server is not Elasticsearch, and other products are not supported",
            found=f"a response without the header X-Elastic-Product, from {_node(error)}",
            option="hosts",
            hint=f"check the server: curl {_node(error)}",
        )
    elif name in _MEDIA_TYPES or status == _NOT_ACCEPTABLE:
        made = ElasticsearchVersionError(
            "the server does not support the protocol of Elasticsearch 8, unlike versions 8 and 9",
            found=found,
            option="hosts",
            hint=f"check its version: curl {_node(error)}",
        )
    elif 300 <= status < 400:
        made = _redirected(status, origin_of(error.meta.headers.get("location", "")), doing)
    elif is_refused_for_now(status, name):
        after = error.meta.headers.get("retry-after", "")
        made = ElasticsearchRetryableError(
            f"Elasticsearch is temporarily unable to do this: {doing}",
            found=found,
            retry_after=float(after) if after.isdigit() else None,
        )
    elif status == 401:
        made = ElasticsearchAuthenticationError(
            f"the server rejected the credentials: {doing}",
            found=found,
            option=login or "username",
            hint="check the credentials; this cluster must know the user"
            if login
            else "this cluster requires credentials: a user and a password, an API key, or a token",
        )
    elif status == 403:
        made = ElasticsearchAuthorizationError(
            f"the user lacks a privilege: {doing}",
            found=found,
            option=login or "username",
            hint="ask an administrator to grant the privilege named in the message",
        )
    elif status == _TOO_LARGE:
        made = ElasticsearchTooLargeError(
            f"the request is larger than the server's http.max_content_length: {doing}",
            found=found,
            hint="raise http.max_content_length of the server, or send less in a request",
        )
    elif 400 <= status < 500:
        made = ElasticsearchRequestError(f"the server rejected the request: {doing}", found=found)
    else:
        made = ElasticsearchFatalError(f"unexpected response: {doing}", found=found)
    made.status, made.error_type = status, name
    return made


def _of_transport(error: Any, doing: str) -> ConnectorError:
    import elastic_transport

    from connector_elasticsearch.client.node import RedirectRefused

    for each in causes_of(error):
        if isinstance(each, RedirectRefused):
            return _redirected(each.status, each.origin, doing)
        if isinstance(each, ssl.SSLError) and _speaks_no_tls(each):
            return ElasticsearchRequestError(
                f"the server does not use TLS: {doing}",
                found=str(each),
                option="hosts",
                hint="write the address of the server with http:// in 'hosts', or turn on TLS in "
                "the server",
            )
    found = str(error.message)
    refusal = _certificate_refusal(error)
    if refusal is not None:
        return ElasticsearchAuthenticationError(
            f"the TLS connection failed: {doing}",
            found=refusal,
            option="ssl.ca-file, ssl.certificate-fingerprint",
            hint="use a server certificate that an authority of 'ssl.ca-file' issued for the host "
            "in 'hosts', or one with the fingerprint of 'ssl.certificate-fingerprint'",
        )
    if isinstance(error, elastic_transport.ConnectionTimeout):
        return ElasticsearchRetryableError(
            f"Elasticsearch did not respond in time: {doing}",
            found=found,
            option="connection.request-timeout",
        )
    return ElasticsearchRetryableError(
        f"Elasticsearch is unreachable, or its response is unreadable: {doing}",
        found=found,
        option="hosts",
    )


def _redirected(status: int, origin: str, doing: str) -> ElasticsearchRequestError:
    made = ElasticsearchRequestError(
        "the server redirects to another address, and the connector does not follow redirects: "
        f"{doing}",
        expected="a response, because documents and credentials go only to the configured hosts",
        found=f"{status} to {origin}",
        option="hosts",
        hint="set the addresses of the servers, or of the proxy that forwards requests",
    )
    made.status = status
    return made


def _node(error: Any) -> str:
    node = error.meta.node
    return f"{node.scheme}://{node.host}:{node.port}{node.path_prefix}"


def _speaks_no_tls(error: ssl.SSLError) -> bool:
    """Return whether the response to the TLS handshake was no TLS, such as plain HTTP."""
    # aiohttp derives an error from this class without its attributes, and wraps the original.
    return getattr(error, "reason", None) == "WRONG_VERSION_NUMBER"


def _certificate_refusal(error: BaseException) -> str | None:
    """Return the problem with the certificate, if that is the cause."""
    for each in causes_of(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return getattr(each, "verify_message", None) or str(each)
        # The errors of aiohttp and urllib3, neither of which derives from an ssl error.
        name = type(each).__name__
        if name == "ServerFingerprintMismatch" or "Fingerprints did not" in str(each):
            return "the server's certificate has a different fingerprint"
        if name == "CertificateError":
            return str(each)
    return None
