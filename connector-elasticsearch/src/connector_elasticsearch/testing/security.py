# SPDX-License-Identifier: Apache-2.0
"""Login and encryption of the server: a password, a token and certificates, made on the spot."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Final

from connectors_core.secrets import Secret
from connectors_core.testing.servers import Authority, Identity

SERVICE_ACCOUNT: Final = "elastic/fleet-server"
_ROUNDS: Final = 10_000  # the fewest that Elasticsearch takes
_SALT_BYTES: Final = 32


@dataclass(frozen=True, kw_only=True)
class ServerSecurity:
    """How clients and a server trust each other.

    Attributes:
        authority: Who issues the server's certificate; None for no encryption.
        identity: The server's certificate; by default one of the authority for its address.
        api_keys: Whether `ElasticsearchServer.api_key` can make one; needs Java's compiler.
        user: Who may do everything.
        password: With what; by default made up.
        token: The secret part of `bearer_token`; by default made up.
    """

    authority: Authority | None = None
    identity: Identity | None = None
    api_keys: bool = False
    user: str = "tester"
    password: Secret = field(default_factory=lambda: Secret(secrets.token_hex(16)))
    token: Secret = field(default_factory=lambda: Secret(secrets.token_hex(16)))

    @property
    def bearer_token(self) -> Secret:
        """Token of the service account of Elastic's Fleet, which may write to `logs-*`."""
        token = f"\0\1\0\1{SERVICE_ACCOUNT}/connectors:{self.token.reveal()}"
        return Secret(base64.b64encode(token.encode()).decode())

    def settings(self) -> dict[str, str]:
        """What the server must be told."""
        encrypted = {
            "xpack.security.http.ssl.enabled": "true",
            "xpack.security.http.ssl.key": "server.key",
            "xpack.security.http.ssl.certificate": "server.crt",
        }
        return {
            "xpack.security.enabled": "true",
            "xpack.security.autoconfiguration.enabled": "false",
            "xpack.security.transport.ssl.enabled": "false",
            "xpack.security.authc.api_key.enabled": str(self.api_keys).lower(),
        } | (encrypted if self.authority else {})

    def files(self) -> dict[str, str]:
        """What must stand beside its settings, by name."""
        found = {
            "users": f"{self.user}:{_hashed(self.password, 'PBKDF2')}\n",
            "users_roles": f"superuser:{self.user}\n",
            "service_tokens": (
                f"{SERVICE_ACCOUNT}/connectors:{_hashed(self.token, 'PBKDF2_STRETCH')}\n"
            ),
        }
        if self.authority is not None:
            identity = self.identity or self.authority.issue("elasticsearch")
            found["server.key"] = identity.key.reveal()
            found["server.crt"] = identity.certificate
        return found


def _hashed(secret: Secret, algorithm: str) -> str:
    """A secret as Elasticsearch keeps it in its files."""
    password = secret.reveal().encode()
    if algorithm == "PBKDF2_STRETCH":
        password = hashlib.sha512(password).hexdigest().encode()
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password, salt, _ROUNDS, dklen=32)
    parts = (base64.b64encode(part).decode() for part in (salt, digest))
    return f"{{{algorithm}}}{_ROUNDS}${'$'.join(parts)}"
