# SPDX-License-Identifier: Apache-2.0
"""The settings of the connection, which the source and the sink share."""

from __future__ import annotations

from typing import Final

from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.options import Configured, Setting, not_empty, option
from connectors_core.secrets import Secret

__all__ = ["SINCE", "Connection"]

SINCE: Final = "0.1.0"


class Connection(Configured, LineageVertexProvider, since=SINCE):
    """The connection settings. Spark ships them to executors, so they hold no open client."""

    address: Setting[str] = option(
        "address",
        str,
        kw_only=False,
        validator=not_empty,
        aliases=("host", "server", "url"),
        doc="Address of the server, as `host:port`.",
    )
    stream: Setting[str] = option(
        "stream",
        str,
        kw_only=False,
        validator=not_empty,
        aliases=("key", "topic"),
        doc="Key of the stream. A source accepts a glob pattern of keys.",
    )
    username: Setting[str] = option(
        "username", str, default="default", validator=not_empty, doc="Name of the user."
    )
    password: Setting[Secret | None, Secret | str | None] = option(
        "password",
        Secret,
        default=None,
        aliases=("token",),
        doc="Password of the user.",
    )
    field: Setting[str] = option(
        "field",
        str,
        default="value",
        validator=not_empty,
        doc="Field of an entry that has the row, as a JSON object.",
    )

    @property
    def connection(self) -> Connection:
        """Return only the connection of a source or sink."""
        return Connection(
            self.address,
            self.stream,
            username=self.username,
            password=self.password,
            field=self.field,
        )

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Return the stream. Driver, without I/O."""
        return (LineageDataset(namespace=f"redis://{self.address}", name=self.stream),)
