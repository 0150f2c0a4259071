# SPDX-License-Identifier: Apache-2.0
"""Encryption and login of a broker, with generated certificates and a generated password."""

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
    """How clients and a broker authenticate each other.

    Attributes:
        mechanism: The login mechanism: ``PLAIN``, ``SCRAM-SHA-256``, or ``SCRAM-SHA-512``. None for
            no login.
        authority: The issuer of the certificates, or None for no encryption.
        identity: The broker's certificate. The default is one from the authority for its address.
        client_certificates: Whether clients must present a certificate of the authority.
        user: The name of the user.
        password: The password of the user. The default is generated.
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
                "the broker does not support this mechanism",
                expected=sorted(_LOGIN_MODULES),
                found=self.mechanism,
            )

    @property
    def protocol(self) -> str:
        """Kafka's name of the protocol."""
        transport = "PLAINTEXT" if self.authority is None else "SSL"
        return transport if self.mechanism is None else f"SASL_{transport}"

    def server_properties(self, listener: str) -> dict[str, str]:
        """The broker's settings for a listener."""
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
        """The arguments for Kafka's storage tool that create the user at the start."""
        if self.mechanism is None or self.mechanism == "PLAIN":
            return []
        user = f"name={self.user},password={self.password.reveal()}"
        return ["--add-scram", f"{self.mechanism}=[{user}]"]

    def client_properties(self) -> dict[str, str | Secret]:
        """The client properties, by Kafka's names."""
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
