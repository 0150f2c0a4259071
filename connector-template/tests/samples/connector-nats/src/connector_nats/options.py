# SPDX-License-Identifier: Apache-2.0
"""The settings of the connection, which the source and the sink share."""

from __future__ import annotations

from typing import Final

from connectors_core.errors import ConfigurationError
from connectors_core.options import Bound, Configured, Setting, list_of, option
from connectors_core.secrets import Secret

__all__ = ["NAMES", "SINCE", "Connection", "is_subject"]

SINCE: Final = "0.1.0"
_BLANKS: Final = frozenset(" \t\r\n")
_NOT_IN_SUBJECTS: Final = _BLANKS | {"*", ">"}
NAMES: Final = Bound(
    "at least one, without blanks",
    lambda names: bool(names) and all(name and not set(name) & _BLANKS for name in names),
    "one or more names without blanks",
)


def is_subject(name: str) -> bool:
    """Return whether messages can be published to a subject.

    Subjects that start with `$` are requests to the server itself, such as to delete a stream.
    """
    return (
        name is not None
        and name != ""
        and not set(name) & set("*> \t\r\n")
        and not name.startswith("$")
    )


class Connection(Configured, since=SINCE):
    """The connection settings. Spark ships them to executors, so they hold no open client."""

    servers: Setting[tuple[str, ...], tuple[str, ...] | list[str] | str] = option(
        "servers",
        list_of(str),
        kw_only=False,
        validator=NAMES,
        aliases=("url", "address"),
        doc="Addresses of the servers, such as `nats://localhost:4222`. One must respond.",
    )
    token: Setting[Secret | None, Secret | str | None] = option(
        "token", Secret, default=None, doc="Token that the servers require."
    )
    user: Setting[str | None] = option("user", str, default=None, doc="Name of the user.")
    password: Setting[Secret | None, Secret | str | None] = option(
        "password", Secret, default=None, doc="Password of the user."
    )

    @property
    def connection(self) -> Connection:
        """Return only the connection of a source or sink."""
        return Connection(self.servers, token=self.token, user=self.user, password=self.password)

    @property
    def namespace(self) -> str:
        """The namespace of the streams in lineage: the first server."""
        return f"nats://{self.servers[0].rpartition('/')[2]}"

    def check(self) -> None:
        """Check that the settings belong together.

        Raises:
            ConfigurationError: A login is in an address, is incomplete, or is given twice.
        """
        if any("@" in server for server in self.servers):
            raise ConfigurationError(
                "the address of a server has a login",
                option="servers",
                hint="remove it from the address, and set user and password, or token",
            )
        if (self.user is None) != (self.password is None):
            missing = "user" if self.user is None else "password"
            raise ConfigurationError(
                "a user and a password belong together",
                expected=f"also {missing!r}",
                option=missing,
            )
        if self.user is not None and self.token is not None:
            raise ConfigurationError(
                "a connection has one login",
                expected="a token, or a user and a password",
                found="both",
                option="token",
            )
