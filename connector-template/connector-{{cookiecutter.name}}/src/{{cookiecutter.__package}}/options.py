# SPDX-License-Identifier: Apache-2.0
"""The settings of the connection, which the source, the sink, and the table share.

Replace them with the connection settings of your system. Each setting is declared once. It is a
keyword argument, a string option, and an attribute, and `docs/` has tables generated from it.
"""

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
        doc="Token that the server requires.",
    )

    @property
    def connection(self) -> Connection:
        """Return only the connection of a source, sink, or table."""
        return Connection(self.address, self.topic, token=self.token)

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Return the topic, named as in OpenLineage's naming spec. Driver, without I/O."""
        namespace = f"{{ cookiecutter.name }}://{self.address}"
        return (LineageDataset(namespace=namespace, name=self.topic),)
