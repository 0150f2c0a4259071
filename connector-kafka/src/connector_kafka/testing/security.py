# SPDX-License-Identifier: Apache-2.0
"""Encryption and login of a broker, with certificates and a password that are made on the spot."""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Self

from connector_kafka.testing.ports import HOST
from connectors_core.errors import ConfigurationError, MissingDependencyError
from connectors_core.secrets import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_DAY: Final = timedelta(days=1)
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class Identity:
    """A certificate and its key.

    Attributes:
        certificate: As PEM.
        key: As PEM.
    """

    certificate: str
    key: Secret


class Authority:
    """Issues certificates that those trust who trust it. Needs the package ``cryptography``.

    Args:
        key: Its key.
        identity: Its own certificate.
    """

    def __init__(self, key: EllipticCurvePrivateKey, identity: Identity) -> None:
        self._key = key
        self.certificate = identity.certificate

    @classmethod
    def create(cls) -> Self:
        """A new one, that nobody trusts yet."""
        key = _new_key()
        return cls(key, _certify("test authority", key, key, issuer="test authority"))

    def issue(self, name: str, *, host: str = HOST, expired: bool = False) -> Identity:
        """A certificate for a broker or a client.

        Args:
            name: Whose it is.
            host: The address that it is for.
            expired: Whether it was for yesterday.
        """
        return _certify(
            name, _new_key(), self._key, issuer="test authority", host=host, expired=expired
        )


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


def _new_key() -> EllipticCurvePrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise MissingDependencyError(
            "cryptography", install="pip install cryptography", feature="a broker with TLS"
        ) from error
    return ec.generate_private_key(ec.SECP256R1())


def _certify(
    name: str,
    key: EllipticCurvePrivateKey,
    signer: EllipticCurvePrivateKey,
    *,
    issuer: str,
    host: str | None = None,
    expired: bool = False,
) -> Identity:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import NameOID

    def named(common_name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])

    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now - _DAY if expired else now + _DAY)
        .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
    )
    if host is not None:
        address = x509.IPAddress(ipaddress.ip_address(host))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    pem = serialization.Encoding.PEM
    return Identity(
        builder.sign(signer, hashes.SHA256()).public_bytes(pem).decode(),
        Secret(
            key.private_bytes(
                pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ).decode()
        ),
    )
