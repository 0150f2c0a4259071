# SPDX-License-Identifier: Apache-2.0
"""A client for paged HTTP APIs: authentication, pages, and the errors of the core."""

from __future__ import annotations

from connectors_core.clients.http.authenticators import (
    ApiKey,
    Authenticator,
    BasicAuth,
    BearerToken,
    Credentials,
    KeyLocation,
    OAuth2,
)
from connectors_core.clients.http.client import HttpClient
from connectors_core.clients.http.messages import Request, Response
from connectors_core.clients.http.paginators import (
    BodyLink,
    BodyToken,
    LinkHeader,
    Offset,
    PageNumber,
    Paginator,
    SinglePage,
)

__all__ = [
    "ApiKey",
    "Authenticator",
    "BasicAuth",
    "BearerToken",
    "BodyLink",
    "BodyToken",
    "Credentials",
    "HttpClient",
    "KeyLocation",
    "LinkHeader",
    "OAuth2",
    "Offset",
    "PageNumber",
    "Paginator",
    "Request",
    "Response",
    "SinglePage",
]
