# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a server of the tests."""

from __future__ import annotations

from connectors_core.errors import ConnectorError

__all__ = ["ServerError"]


class ServerError(ConnectorError):
    """A server of the tests, or a tool of it, did not do what it was started for."""

    code = "TEST_SERVER"
