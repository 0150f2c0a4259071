# SPDX-License-Identifier: Apache-2.0
"""Certificates for servers on this machine and for their clients, created on demand."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Self

from connectors_core.errors import MissingDependencyError
from connectors_core.secrets import Secret
from connectors_core.testing.extra import INSTALL_TESTING
from connectors_core.testing.servers.ports import HOST

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["Authority", "Identity"]

_DAY: Final = timedelta(days=1)


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
    """A certificate authority of a test. Needs the package ``cryptography``.

    Args:
        key: The authority's private key.
        identity: The authority's own certificate.
    """

    def __init__(self, key: EllipticCurvePrivateKey, identity: Identity) -> None:
        self._key = key
        self.certificate = identity.certificate

    @classmethod
    def create(cls) -> Self:
        """Create an authority, which no one trusts yet."""
        key = _new_key()
        return cls(key, _certify("test authority", key, key, issuer="test authority"))

    def issue(self, name: str, *, host: str = HOST, expired: bool = False) -> Identity:
        """Issue a certificate for a server or a client.

        Args:
            name: The name of its owner.
            host: The address of the owner.
            expired: Whether the certificate expired yesterday.
        """
        return _certify(
            name, _new_key(), self._key, issuer="test authority", host=host, expired=expired
        )


def _new_key() -> EllipticCurvePrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise MissingDependencyError(
            "cryptography", install=INSTALL_TESTING, feature="a server with TLS"
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
