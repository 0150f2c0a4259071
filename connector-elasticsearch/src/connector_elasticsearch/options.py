# SPDX-License-Identifier: Apache-2.0
"""The options of the connection, and the settings that are made of them.

Replace them by what your system needs to be reached. Options are declared once; the declarations
check values, suggest keys that may have been meant, and make the tables of `docs/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from connectors_core.options import Option, not_empty
from connectors_core.secrets import Secret

__all__ = ["ADDRESS", "SINCE", "TOKEN", "TOPIC", "Connection"]

SINCE: Final = "0.1.0"

ADDRESS: Final = Option(
    "address",
    str,
    required=True,
    validator=not_empty,
    since=SINCE,
    aliases=("host", "server", "url"),
    doc="Where the server listens, as `host:port`.",
)
TOKEN: Final = Option(
    "token",
    Secret,
    since=SINCE,
    aliases=("password", "api-key"),
    doc="Token that the server asks for.",
)
TOPIC: Final = Option(
    "topic",
    str,
    required=True,
    validator=not_empty,
    since=SINCE,
    doc="Name of the topic.",
)


@dataclass(frozen=True, kw_only=True)
class Connection:
    """How the server is reached; shipped to executors, so it holds no open client.

    Attributes:
        address: Host and port.
        token: What the server asks for; None if it asks for nothing.
        topic: The topic.
    """

    address: str
    token: Secret | None
    topic: str
