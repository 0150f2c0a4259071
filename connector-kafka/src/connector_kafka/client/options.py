# SPDX-License-Identifier: Apache-2.0
"""The settings of a client, which the source and the sink share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from connector_kafka.client.config import BOOTSTRAP_SERVERS
from connectors_core.options import Configured, Setting, list_of, not_empty, option

__all__ = ["ClientOptions"]

_OF_PROPERTIES: Final = "use 'properties.{rest}'"


class ClientOptions(
    Configured,
    since="2.0.0",
    elsewhere={
        "kafka.*": _OF_PROPERTIES,
    },
):
    """The connection to the cluster."""

    bootstrap_servers: Setting[tuple[str, ...], str | Sequence[str]] = option(
        f"properties.{BOOTSTRAP_SERVERS.key}",
        list_of(str),
        kw_only=False,
        validator=not_empty,
        aliases=(BOOTSTRAP_SERVERS.key, *BOOTSTRAP_SERVERS.aliases),
        doc=BOOTSTRAP_SERVERS.doc,
    )
    properties: Setting[dict[str, Any], Mapping[str, Any] | None] = option(
        "properties.*",
        dict,
        default=None,
        secret=True,
        aliases=("kafka.*", "kafka.group.id", "kafka.security.protocol"),
        doc="Properties of Kafka's client by their own names, such as `properties.group.id`, "
        "`properties.security.protocol`, or `properties.compression.type`. A password can be a "
        "`Secret`.",
    )
