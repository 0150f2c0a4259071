# SPDX-License-Identifier: Apache-2.0
"""The server's login and encryption: a password, a token, and certificates, all generated."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Final

from connectors_core.secrets import Secret
from connectors_core.testing.servers import Authority, Identity

SERVICE_ACCOUNT: Final = "elastic/fleet-server"
_ROUNDS: Final = 10_000  # the minimum that Elasticsearch accepts
_SALT_BYTES: Final = 32


@dataclass(frozen=True, kw_only=True)
class ServerSecurity:
    """How clients and a server authenticate each other.

    Attributes:
        authority: The issuer of the server's certificate, or None for no encryption.
        identity: The server's certificate. The default is one from the authority for its address.
        api_keys: Whether `ElasticsearchServer.api_key` can create keys. Needs Java's compiler.
        user: The user with all privileges.
        password: The user's password. The default is generated.
        token: The secret part of `bearer_token`. The default is generated.
    """

    authority: Authority | None = None
    identity: Identity | None = None
    api_keys: bool = False
    user: str = "tester"
    password: Secret = field(default_factory=lambda: Secret(secrets.token_hex(16)))
    token: Secret = field(default_factory=lambda: Secret(secrets.token_hex(16)))

    @property
    def bearer_token(self) -> Secret:
        """The token of the service account of Elastic's Fleet, which can write to `logs-*`."""
        token = f"\0\1\0\1{SERVICE_ACCOUNT}/connectors:{self.token.reveal()}"
        return Secret(base64.b64encode(token.encode()).decode())

    def settings(self) -> dict[str, str]:
        """The settings of the server."""
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
        """The files next to its settings, by name."""
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
    """Return a hash of a secret in the form of Elasticsearch's files."""
    password = secret.reveal().encode()
    if algorithm == "PBKDF2_STRETCH":
        password = hashlib.sha512(password).hexdigest().encode()
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password, salt, _ROUNDS, dklen=32)
    parts = (base64.b64encode(part).decode() for part in (salt, digest))
    return f"{{{algorithm}}}{_ROUNDS}${'$'.join(parts)}"
