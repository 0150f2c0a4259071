# SPDX-License-Identifier: Apache-2.0
"""Whether a server answers, before a pipeline starts."""

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
    """Return when a server has answered. Driver.

    Args:
        connection: How the servers are reached.
        timeout: Seconds until one must have; they are asked one after another.

    Raises:
        ConnectorError: None has, or the login is refused; names the address and the cause.
    """
    servers = max(1, len(connection.hosts))
    each = connection.replaced(request_timeout=timedelta(seconds=timeout / servers))
    with contextlib.closing(ElasticsearchClient(each)) as client:
        for left in reversed(range(servers)):
            try:
                client.request("GET", "/", doing=f"reaching {_shown(connection)}")
            except ElasticsearchAuthorizationError:
                return  # it knows the login, which may do other things than this
            except ElasticsearchRequestError as error:
                if error.status is None or error.status < _REFUSED:
                    raise  # by a redirect
                return  # it is there, and has other things to ask for than this
            except ElasticsearchRetryableError:
                if not left:
                    raise
            else:
                return


def _shown(connection: ElasticsearchConnection) -> str:
    return connection.cloud_id or ", ".join(connection.hosts)
