# SPDX-License-Identifier: Apache-2.0
"""The settings of the connection, which source, sink and table share.

Replace them by what your system needs to be reached. A setting is declared once: it is a keyword of
Python, an option by key and an attribute, and the tables of `docs/` are made of it.
"""

from __future__ import annotations

from typing import Final

from connectors_core.options import Configured, Setting, not_empty, option
from connectors_core.secrets import Secret

__all__ = ["SINCE", "Connection"]

SINCE: Final = "0.1.0"


class Connection(Configured, since=SINCE):
    """How the server is reached; shipped to executors, so it holds no open client."""

    address: Setting[str] = option(
        "address",
        str,
        kw_only=False,
        validator=not_empty,
        aliases=("host", "server", "url"),
        doc="Where the server listens, as `host:port`.",
    )
    topic: Setting[str] = option(
        "topic",
        str,
        kw_only=False,
        validator=not_empty,
        doc="Name of the topic.",
    )
    token: Setting[Secret | None, Secret | str | None] = option(
        "token",
        Secret,
        default=None,
        aliases=("password", "api-key"),
        doc="Token that the server asks for.",
    )

    @property
    def connection(self) -> Connection:
        """The connection alone, of a source, sink or table."""
        return Connection(self.address, self.topic, token=self.token)
