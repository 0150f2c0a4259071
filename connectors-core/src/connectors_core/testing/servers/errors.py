# SPDX-License-Identifier: Apache-2.0
"""Errors of the servers that tests start."""

from __future__ import annotations

from connectors_core.errors import ConnectorError

__all__ = ["ServerError"]


class ServerError(ConnectorError):
    """A server of the tests, or one of its tools, failed."""

    code = "TEST_SERVER"
