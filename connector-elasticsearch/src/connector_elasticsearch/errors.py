# SPDX-License-Identifier: Apache-2.0
"""Elasticsearch's errors as subclasses of the core's errors."""

from __future__ import annotations

from connectors_core.errors import (
    ConfigurationError,
    FatalError,
    RetryableError,
    UnsupportedError,
)

__all__ = [
    "ElasticsearchAuthenticationError",
    "ElasticsearchAuthorizationError",
    "ElasticsearchFatalError",
    "ElasticsearchRequestError",
    "ElasticsearchRetryableError",
    "ElasticsearchTooLargeError",
    "ElasticsearchVersionError",
]


class _FromElasticsearch:
    """Keeps details of the response.

    Attributes:
        status: The HTTP status, or None without a response.
        error_type: Elasticsearch's name of the error, e.g. `index_not_found_exception`, or None.
    """

    status: int | None = None
    error_type: str | None = None


class ElasticsearchRetryableError(_FromElasticsearch, RetryableError):
    """Elasticsearch is temporarily unavailable: too busy, blocked, connection lost, or timeout."""

    code = "ELASTICSEARCH_RETRYABLE"


class ElasticsearchFatalError(_FromElasticsearch, FatalError):
    """Elasticsearch sent an unexpected response."""

    code = "ELASTICSEARCH_FATAL"


class ElasticsearchAuthenticationError(_FromElasticsearch, ConfigurationError):
    """The server rejects the login, or the client rejects the server's certificate.

    It never contains a secret.
    """

    code = "ELASTICSEARCH_AUTHENTICATION"


class ElasticsearchAuthorizationError(_FromElasticsearch, ConfigurationError):
    """The login lacks a privilege, which an administrator must grant."""

    code = "ELASTICSEARCH_AUTHORIZATION"


class ElasticsearchRequestError(_FromElasticsearch, ConfigurationError):
    """The server rejects a setting."""

    code = "ELASTICSEARCH_REQUEST"


class ElasticsearchTooLargeError(ElasticsearchRequestError):
    """A request is larger than the server's `http.max_content_length`."""

    code = "ELASTICSEARCH_TOO_LARGE"


class ElasticsearchVersionError(_FromElasticsearch, UnsupportedError):
    """The server is not Elasticsearch, or its version is not supported."""

    code = "ELASTICSEARCH_VERSION"
