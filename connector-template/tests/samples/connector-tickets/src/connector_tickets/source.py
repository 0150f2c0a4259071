# SPDX-License-Identifier: Apache-2.0
"""The source: its settings, and how the API names, sorts, and pages its tickets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

import pyarrow as pa

from connectors_core.clients.http import (
    Authenticator,
    BodyToken,
    HttpClient,
    OAuth2,
    Paginator,
    Request,
)
from connectors_core.options import Setting, option
from connectors_core.secrets import Secret
from connectors_core.source.pages import HttpSource

__all__ = ["TicketsSource"]


class TicketsSource(HttpSource, scope="tickets source", since="0.1.0"):
    """Reads the tickets of all projects.

    Immutable and picklable. The constructor does no I/O.

    Raises:
        ConfigurationError: A setting is not valid.
    """

    paginator: ClassVar[Paginator] = BodyToken("next_page_token", "page_token")
    records_path = "tickets"
    cursor = "stored_at"
    ascending = True
    immutable = True

    client_id: Setting[str] = option("client.id", str, doc="ID of the OAuth2 client.")
    client_secret: Setting[Secret, Secret | str] = option(
        "client.secret", Secret, doc="Secret of the OAuth2 client."
    )

    def schema(self) -> pa.Schema:
        """Return the columns."""
        return pa.schema(
            {
                "project": pa.string(),
                "id": pa.int64(),
                "at": pa.timestamp("us", tz="UTC"),
                "title": pa.string(),
            }
        )

    def authenticator(self) -> Authenticator:
        """Return how requests log in."""
        return OAuth2(
            token_url="token",  # noqa: S106  # where to get one
            client_id=self.client_id,
            client_secret=self.client_secret,
        )

    def streams(self, client: HttpClient) -> Sequence[str]:
        """Return the names of the projects."""
        return [each["name"] for each in client.get(Request("projects")).json]

    def request(self, stream: str, since: datetime | None) -> Request:
        """Return the request for the tickets of a project from a time on."""
        start = None if since is None else since.isoformat(timespec="microseconds")
        return Request.of("projects", stream, "tickets", stored_since=start)

    def row(self, stream: str, record: Any) -> Mapping[str, Any]:
        """Return the row of a ticket."""
        return {
            "project": stream,
            "id": int(record["id"]),
            "at": datetime.fromisoformat(record["opened"]),
            "title": record["title"],
        }
