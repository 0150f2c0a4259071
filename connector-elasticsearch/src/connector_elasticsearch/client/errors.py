# SPDX-License-Identifier: Apache-2.0
"""The one map from the errors of Elasticsearch and of its client to our tree."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any, Final

from connector_elasticsearch.client.options import (
    CA_FILE,
    CERTIFICATE_FINGERPRINT,
    HOSTS,
    REQUEST_TIMEOUT,
)
from connector_elasticsearch.errors import (
    ElasticsearchAuthenticationError,
    ElasticsearchAuthorizationError,
    ElasticsearchFatalError,
    ElasticsearchRequestError,
    ElasticsearchRetryableError,
    ElasticsearchTooLargeError,
    ElasticsearchVersionError,
)
from connectors_core.errors import ConnectorError

__all__ = ["CLUSTER_BLOCK", "error_of_exception", "explained", "is_refused_for_now", "type_of"]

CLUSTER_BLOCK: Final = "cluster_block_exception"
"""Elasticsearch's name for an index, or a whole cluster, that takes no writes at present."""

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
# Behind it the server shows a value of the document, which must not stand in a log.
_PREVIEW: Final = " Preview of field's value"


def is_refused_for_now(status: int, error_type: str | None) -> bool:
    """Return whether the same may be accepted later: of a request, or of one item of a bulk."""
    return status in (_TIMED_OUT, _TOO_MANY) or status >= 500 or error_type == CLUSTER_BLOCK


def type_of(error: Any) -> str | None:
    """Elasticsearch's name of an error, as it stands in an answer; of a search, that of a shard."""
    found = error.get("type") if isinstance(error, dict) else None
    if found == _SEARCH_FAILED and error.get("root_cause"):
        found = error["root_cause"][0].get("type", found)
    return found if isinstance(found, str) else None


def explained(error: Any) -> str:
    """An error of an answer for people, without values of documents."""
    if not isinstance(error, dict):
        return "no reason is given" if error is None else str(error)[:500]
    reason = str(error.get("reason") or "no reason is given").split(_PREVIEW)[0]
    return f"{error.get('type')}: {reason}"


def error_of_exception(error: Exception, doing: str, *, login: str | None) -> ConnectorError:
    """Return the error of our tree for one of the client's, with that as its cause.

    Args:
        error: What elasticsearch-py or elastic-transport raised.
        doing: What was asked, as in `writing documents`.
        login: Option that says who logs in; None for nobody.
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
            "what answers is not Elasticsearch, and no other product is supported",
            found=f"an answer without the header X-Elastic-Product, from {_node(error)}",
            option=HOSTS.key,
            hint=f"look what it is: curl {_node(error)}",
        )
    elif name in _MEDIA_TYPES or status == _NOT_ACCEPTABLE:
        made = ElasticsearchVersionError(
            "the server does not speak the protocol of Elasticsearch 8, as versions 8 and 9 do",
            found=found,
            option=HOSTS.key,
            hint=f"look for its version: curl {_node(error)}",
        )
    elif 300 <= status < 400:
        made = _redirected(status, origin_of(error.meta.headers.get("location", "")), doing)
    elif is_refused_for_now(status, name):
        after = error.meta.headers.get("retry-after", "")
        made = ElasticsearchRetryableError(
            f"Elasticsearch could not do this now: {doing}",
            found=found,
            retry_after=float(after) if after.isdigit() else None,
        )
    elif status == 401:
        made = ElasticsearchAuthenticationError(
            f"the server refused the login: {doing}",
            found=found,
            option=login or "username",
            hint="check the login; it must be known to this cluster"
            if login
            else "this cluster wants a login: a user and a password, an API key or a token",
        )
    elif status == 403:
        made = ElasticsearchAuthorizationError(
            f"the login is not allowed to do this: {doing}",
            found=found,
            option=login or "username",
            hint="let an administrator grant the privilege that the message names",
        )
    elif status == _TOO_LARGE:
        made = ElasticsearchTooLargeError(
            f"the request is larger than the server's http.max_content_length: {doing}", found=found
        )
    elif 400 <= status < 500:
        made = ElasticsearchRequestError(f"the server refused the request: {doing}", found=found)
    else:
        made = ElasticsearchFatalError(f"an answer that nobody expected: {doing}", found=found)
    made.status, made.error_type = status, name
    return made


def _of_transport(error: Any, doing: str) -> ConnectorError:
    import elastic_transport

    from connector_elasticsearch.client.node import RedirectRefused

    for each in _reasons(error):
        if isinstance(each, RedirectRefused):
            return _redirected(each.status, each.origin, doing)
    found = str(error.message)
    refusal = _certificate_refusal(error)
    if refusal is not None:
        return ElasticsearchAuthenticationError(
            f"no TLS connection can be made: {doing}",
            found=refusal,
            option=f"{CA_FILE.key}, {CERTIFICATE_FINGERPRINT.key}",
            hint="the server's certificate must be issued for the host in 'hosts' by an authority "
            f"of {CA_FILE.key!r}, or have the fingerprint of {CERTIFICATE_FINGERPRINT.key!r}",
        )
    if isinstance(error, elastic_transport.ConnectionTimeout):
        return ElasticsearchRetryableError(
            f"Elasticsearch did not answer in time: {doing}",
            found=found,
            option=REQUEST_TIMEOUT.key,
        )
    return ElasticsearchRetryableError(
        f"Elasticsearch cannot be reached, or its answer not be read: {doing}",
        found=found,
        option=HOSTS.key,
    )


def _redirected(status: int, origin: str, doing: str) -> ElasticsearchRequestError:
    made = ElasticsearchRequestError(
        "the server redirects to another address, and the connector does not follow redirects: "
        f"{doing}",
        expected="a response, because documents and credentials go only to the configured hosts",
        found=f"{status} to {origin}",
        option=HOSTS.key,
        hint="set the addresses of the servers, or of the proxy that forwards requests",
    )
    made.status = status
    return made


def _node(error: Any) -> str:
    node = error.meta.node
    return f"{node.scheme}://{node.host}:{node.port}{node.path_prefix}"


def _certificate_refusal(error: BaseException) -> str | None:
    """What is wrong with a certificate, if that is the reason."""
    for each in _reasons(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return getattr(each, "verify_message", None) or str(each)
        if isinstance(each, ssl.SSLError) and each.reason == "WRONG_VERSION_NUMBER":
            return "the server does not use TLS: its address begins with http://"
        # Of aiohttp and urllib3, neither of which derives from an error of ssl.
        name = type(each).__name__
        if name == "ServerFingerprintMismatch" or "Fingerprints did not" in str(each):
            return "the server's certificate has another fingerprint"
        if name == "CertificateError":
            return str(each)
    return None


def _reasons(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        # Clients wrap an error of the socket as an argument of their own.
        wrapped = next((each for each in error.args if isinstance(each, BaseException)), None)
        error = wrapped or error.__cause__ or error.__context__
