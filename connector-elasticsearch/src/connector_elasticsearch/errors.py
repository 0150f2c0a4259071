# SPDX-License-Identifier: Apache-2.0
"""What Elasticsearch's errors are in the tree of errors of the core."""

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
    """Remembers the answer that it stands for.

    Attributes:
        status: HTTP status, or None where nothing was answered.
        error_type: Elasticsearch's name of the error, as `index_not_found_exception`, or None.
    """

    status: int | None = None
    error_type: str | None = None


class ElasticsearchRetryableError(_FromElasticsearch, RetryableError):
    """Elasticsearch cannot answer now: too busy, blocked, connection lost, time-out."""

    code = "ELASTICSEARCH_RETRYABLE"


class ElasticsearchFatalError(_FromElasticsearch, FatalError):
    """Elasticsearch answered in a way that nobody expected."""

    code = "ELASTICSEARCH_FATAL"


class ElasticsearchAuthenticationError(_FromElasticsearch, ConfigurationError):
    """The server does not accept who we are, or we do not accept its certificate.

    It never contains a secret.
    """

    code = "ELASTICSEARCH_AUTHENTICATION"


class ElasticsearchAuthorizationError(_FromElasticsearch, ConfigurationError):
    """Whoever is logged in may not do this; an administrator has to allow it."""

    code = "ELASTICSEARCH_AUTHORIZATION"


class ElasticsearchRequestError(_FromElasticsearch, ConfigurationError):
    """The server finds something wrong with what was configured."""

    code = "ELASTICSEARCH_REQUEST"


class ElasticsearchTooLargeError(ElasticsearchRequestError):
    """A request is larger than the server's `http.max_content_length`."""

    code = "ELASTICSEARCH_TOO_LARGE"


class ElasticsearchVersionError(_FromElasticsearch, UnsupportedError):
    """What answers is no Elasticsearch, or one that is too old or too new."""

    code = "ELASTICSEARCH_VERSION"
