# SPDX-License-Identifier: Apache-2.0
"""Checks that a server responds before a pipeline starts."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Final

from connector_elasticsearch.client.connection import ElasticsearchConnection
from connector_elasticsearch.client.requests import ElasticsearchClient
from connector_elasticsearch.errors import (
    ElasticsearchAuthorizationError,
    ElasticsearchRequestError,
    ElasticsearchRetryableError,
)

__all__ = ["check_reachable"]

_REFUSED: Final = 400


def check_reachable(connection: ElasticsearchConnection, timeout: float) -> None:
    """Check that a server responds. Driver.

    Args:
        connection: The connection to the servers.
        timeout: The deadline in seconds. The servers are tried one after another.

    Raises:
        ConnectorError: No server responds, or the login is refused. The error names the address and
            the cause.
    """
    servers = max(1, len(connection.hosts))
    each = connection.replaced(request_timeout=timedelta(seconds=timeout / servers))
    with contextlib.closing(ElasticsearchClient(each)) as client:
        for left in reversed(range(servers)):
            try:
                client.request("GET", "/", doing=f"reaching {_shown(connection)}")
            except ElasticsearchAuthorizationError:
                return  # the server knows the login, which can have other privileges
            except ElasticsearchRequestError as error:
                if error.status is None or error.status < _REFUSED:
                    raise  # a redirect
                return  # the server responds, and this request is not essential
            except ElasticsearchRetryableError:
                if not left:
                    raise
            else:
                return


def _shown(connection: ElasticsearchConnection) -> str:
    return connection.cloud_id or ", ".join(connection.hosts)
