# SPDX-License-Identifier: Apache-2.0
"""Authenticators: immutable values that turn secrets into the credentials of requests.

The kinds are those of Meltano's `singer_sdk`. The client keeps the credentials and renews them.
"""

from __future__ import annotations

import base64
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias, cast
from urllib.parse import quote

from connectors_core.annotations import experimental
from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.secrets import Secret

__all__ = [
    "ApiKey",
    "Authenticator",
    "BasicAuth",
    "BearerToken",
    "Credentials",
    "KeyLocation",
    "OAuth2",
    "PostForm",
]

_EARLY_SECONDS: Final = 30.0
_UNSTATED_LIFETIME: Final = 300.0

PostForm: TypeAlias = Callable[[str, Mapping[str, str], Mapping[str, Secret]], Mapping[str, Any]]
"""Posts a form with headers to a URL, and returns the JSON object of the response."""


@experimental
@dataclass(frozen=True)
class Credentials:
    """The headers and parameters that a client adds to each request.

    Attributes:
        headers: Headers by name.
        params: Query parameters by name.
        lifetime: Seconds after which the client obtains new credentials.
    """

    headers: Mapping[str, Secret] = field(default_factory=dict)
    params: Mapping[str, Secret] = field(default_factory=dict)
    lifetime: float = math.inf


@experimental
class Authenticator(ABC):
    """Obtains credentials. Hashable and picklable: a frozen dataclass.

    Attributes:
        option: Key of the option that errors name if the API rejects the credentials.
        query_names: Query parameters with secrets, which no stored request may contain.
    """

    option: str | None
    query_names: frozenset[str] = frozenset()
    renews: ClassVar[bool] = False
    """Whether other credentials can be obtained after the API rejects some, although no secret
    varies."""

    def __post_init__(self) -> None:
        for each in fields(cast(Any, self)):
            value = getattr(self, each.name)
            if "Secret" not in str(each.type) or value is None:
                continue
            try:
                object.__setattr__(self, each.name, Secret(value))
            except TypeError as error:
                raise InvalidOptionError(
                    f"{each.name} of {type(self).__name__} is no secret",
                    expected="a text, a reference, or a function that returns the text",
                    found=type(value).__name__,
                    option=self.option,
                ) from error

    @property
    def can_renew(self) -> bool:
        """Whether other credentials can be obtained after the API rejects some."""
        secrets = (value for value in vars(self).values() if isinstance(value, Secret))
        return self.renews or any(each.varies for each in secrets)

    @abstractmethod
    def obtain(self, post: PostForm) -> Credentials:
        """Return credentials. Driver and executor, on the thread of the client.

        Args:
            post: Posts a form. Its URL may be relative to the URL of the client.

        Raises:
            ConfigurationError: A person must change an option.
            RetryableError: The server that issues tokens is temporarily unavailable.
        """


@experimental
@dataclass(frozen=True)
class BearerToken(Authenticator):
    """Sends a fixed token (RFC 6750)."""

    token: Secret
    option: str | None = "token"

    def obtain(self, post: PostForm) -> Credentials:
        """See `Authenticator`."""
        return Credentials(headers={"Authorization": _header("Bearer ", self.token, self.option)})


@experimental
@dataclass(frozen=True)
class BasicAuth(Authenticator):
    """Sends a user and a password (RFC 7617)."""

    user: str
    password: Secret
    option: str | None = "password"

    def obtain(self, post: PostForm) -> Credentials:
        """See `Authenticator`."""
        return Credentials(headers={"Authorization": _basic(self.user, self.password)})


@experimental
class KeyLocation(StrEnum):
    """The place at which an API expects its key."""

    HEADER = "header"
    QUERY = "query"


@experimental
@dataclass(frozen=True)
class ApiKey(Authenticator):
    """Sends a key in a header or a query parameter.

    Attributes:
        key: The key.
        name: The name of the header or parameter.
        location: The place of the key. Prefer a header, because servers log queries.
    """

    key: Secret
    name: str = "X-API-Key"
    location: KeyLocation = KeyLocation.HEADER
    option: str | None = "api-key"

    @property
    def query_names(self) -> frozenset[str]:  # type: ignore[override]
        """The parameter with the key."""
        return frozenset([self.name] if self.location is KeyLocation.QUERY else [])

    def obtain(self, post: PostForm) -> Credentials:
        """See `Authenticator`."""
        if self.location is KeyLocation.QUERY:
            return Credentials(params={self.name: self.key})
        return Credentials(headers={self.name: _header("", self.key, self.option)})


@experimental
@dataclass(frozen=True, kw_only=True)
class OAuth2(Authenticator):
    """Obtains access tokens for a client, or with a refresh token (RFC 6749, 4.4 and 6).

    Attributes:
        token_url: The token endpoint. It may be relative to the URL of the client.
        client_id: The id of the client.
        client_secret: The secret of the client.
        refresh_token: A refresh token of a user, or None for the grant `client_credentials`.
        scopes: The requested scopes.
        params: Further parameters, such as `audience`.
        basic: Whether the client authenticates in a header, or in the form.
    """

    token_url: str
    client_id: str
    client_secret: Secret
    refresh_token: Secret | None = None
    scopes: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    basic: bool = False
    option: str | None = "client.secret"
    renews: ClassVar[bool] = True

    def obtain(self, post: PostForm) -> Credentials:
        """See `Authenticator`."""
        form = {"grant_type": "client_credentials", **dict(self.params)}
        if self.refresh_token is not None:
            form |= {"grant_type": "refresh_token", "refresh_token": self.refresh_token.reveal()}
        if self.scopes:
            form["scope"] = " ".join(self.scopes)
        headers: dict[str, Secret] = {}
        if self.basic:
            quoted = Secret.plain(quote(self.client_secret.reveal(), safe=""))
            headers["Authorization"] = _basic(quote(self.client_id, safe=""), quoted)
        else:
            form |= {
                "client_id": self.client_id,
                "client_secret": self.client_secret.reveal(),
            }
        return self._credentials(post(self.token_url, form, headers))

    def _credentials(self, answer: Mapping[str, Any]) -> Credentials:
        token, seconds = answer.get("access_token"), answer.get("expires_in", _UNSTATED_LIFETIME)
        try:
            seconds = float(seconds)
        except (TypeError, ValueError):
            seconds = _UNSTATED_LIFETIME
        if not isinstance(token, str) or not token:
            raise ConfigurationError(
                "the token endpoint returns no access token",
                found=", ".join(sorted(answer)) or "an empty object",
                option=self.option,
            )
        other = answer.get("refresh_token")
        if self.refresh_token is not None and other not in (None, self.refresh_token.reveal()):
            raise ConfigurationError(
                "the token endpoint replaces the refresh token with every use",
                expected="a refresh token that several readers can use",
                option=self.option,
                hint="turn off the rotation of refresh tokens, or use client credentials",
            )
        return Credentials(
            headers={"Authorization": _header("Bearer ", Secret.plain(token), self.option)},
            lifetime=max(seconds / 2, seconds - _EARLY_SECONDS),
        )


def _basic(user: str, password: Secret) -> Secret:
    pair = f"{user}:{password.reveal()}".encode()
    return Secret.plain(f"Basic {base64.b64encode(pair).decode()}")


def _header(scheme: str, secret: Secret, option: str | None) -> Secret:
    """Return the value of a header. `http.client` would show one that it refuses."""
    text = secret.reveal()
    if not (text.isascii() and text.isprintable()):
        raise InvalidOptionError(
            "the secret cannot be sent in a header",
            expected="printable ASCII characters, without a line break",
            option=option,
        )
    return Secret.plain(scheme + text)
