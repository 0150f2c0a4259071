# SPDX-License-Identifier: Apache-2.0
"""Encryption and login of a broker, with certificates and a password that are made on the spot."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Final

from connectors_core.errors import ConfigurationError
from connectors_core.secrets import Secret
from connectors_core.testing.servers import Authority, Identity

_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, kw_only=True)
class BrokerSecurity:
    """How clients and a broker trust each other.

    Attributes:
        mechanism: How the user logs in: ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``; None
            for no login.
        authority: Who issues the certificates; None for no encryption.
        identity: The broker's certificate; by default one of the authority for its address.
        client_certificates: Whether clients must show a certificate of the authority.
        user: Who may log in.
        password: With what; by default made up.
    """

    mechanism: str | None = None
    authority: Authority | None = None
    identity: Identity | None = None
    client_certificates: bool = False
    user: str = "alice"
    password: Secret = field(default_factory=lambda: Secret(secrets.token_hex(16)))

    def __post_init__(self) -> None:
        if self.mechanism is not None and self.mechanism not in _LOGIN_MODULES:
            raise ConfigurationError(
                "the broker knows no such mechanism",
                expected=sorted(_LOGIN_MODULES),
                found=self.mechanism,
            )

    @property
    def protocol(self) -> str:
        """Kafka's name of it."""
        transport = "PLAINTEXT" if self.authority is None else "SSL"
        return transport if self.mechanism is None else f"SASL_{transport}"

    def server_properties(self, listener: str) -> dict[str, str]:
        """What a broker must be told for a listener."""
        found: dict[str, str] = {}
        if self.authority is not None:
            identity = self.identity or self.authority.issue("broker")
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": identity.certificate,
                "ssl.keystore.key": identity.key.reveal(),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": self.authority.certificate,
                "ssl.client.auth": "required" if self.client_certificates else "none",
            }
        if self.mechanism is not None:
            module = _LOGIN_MODULES[self.mechanism]
            user = f' user_{self.user}="{self.password.reveal()}"'
            found |= {
                "sasl.enabled.mechanisms": self.mechanism,
                f"{self.mechanism.lower()}.sasl.jaas.config": (
                    f"{module} required{user if self.mechanism == 'PLAIN' else ''};"
                ),
            }
        return {f"listener.name.{listener.lower()}.{name}": value for name, value in found.items()}

    def format_options(self) -> list[str]:
        """What Kafka's storage tool must be told for the user to be known from the start."""
        if self.mechanism is None or self.mechanism == "PLAIN":
            return []
        user = f"name={self.user},password={self.password.reveal()}"
        return ["--add-scram", f"{self.mechanism}=[{user}]"]

    def client_properties(self) -> dict[str, str | Secret]:
        """What a client needs, by Kafka's names."""
        found: dict[str, str | Secret] = {"security.protocol": self.protocol}
        if self.authority is not None:
            found["ssl.truststore.certificates"] = self.authority.certificate
            if self.client_certificates:
                identity = self.authority.issue(self.user)
                found["ssl.keystore.certificate.chain"] = identity.certificate
                found["ssl.keystore.key"] = identity.key
        if self.mechanism is not None:
            found["sasl.mechanism"] = self.mechanism
            found["sasl.username"] = self.user
            found["sasl.password"] = self.password
        return found
