# SPDX-License-Identifier: Apache-2.0
"""Certificates and keys in PEM, as files or as text, and the TLS context that uses them."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass

from connectors_core.errors import ConfigurationError, InvalidOptionError, UnsupportedError
from connectors_core.secrets import Secret

__all__ = ["TlsFiles"]


@dataclass(frozen=True, kw_only=True)
class TlsFiles:
    """The inputs of a TLS connection. Text and file exclude each other.

    Attributes:
        authorities_file: PEM file of the trusted authorities.
        authorities: The trusted authorities as PEM text. Without both, the system's authorities.
        identity_file: PEM file with the client's key and certificate chain.
        certificate_chain: The chain as PEM text.
        key: The key as PEM text.
        key_password: The password of the key.
        check_hostname: Whether the broker's certificate must contain its host name.
    """

    authorities_file: str | None = None
    authorities: str | None = None
    identity_file: str | None = None
    certificate_chain: str | None = None
    key: Secret | None = None
    key_password: Secret | None = None
    check_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """Create a context for a client, with TLS 1.2 or newer.

        Raises:
            ConfigurationError: A file or text cannot be read, or a value is set twice.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname
        self._trust(context)
        self._identify(context)
        return context

    def _trust(self, context: ssl.SSLContext) -> None:
        if self.authorities_file and self.authorities:
            raise _twice("ssl.truststore.location", "ssl.truststore.certificates")
        if not self.authorities_file and not self.authorities:
            context.load_default_certs()
            return
        option = f"ssl.truststore.{'location' if self.authorities_file else 'certificates'}"
        try:
            context.load_verify_locations(cafile=self.authorities_file, cadata=self.authorities)
        except (OSError, ValueError) as exc:
            raise _unreadable(option, exc) from exc

    def _identify(self, context: ssl.SSLContext) -> None:
        if self.identity_file:
            if self.certificate_chain or self.key:
                raise _twice("ssl.keystore.location", "ssl.keystore.key")
            self._load(context, self.identity_file, "ssl.keystore.location")
        elif self.certificate_chain and self.key:
            # The library only reads keys from files. This file exists only in memory.
            if not hasattr(os, "memfd_create"):
                raise UnsupportedError(
                    "a private key as text requires Linux",
                    option="properties.ssl.keystore.key",
                    hint="use ssl.keystore.location",
                )
            descriptor = os.memfd_create("identity", os.MFD_CLOEXEC)
            try:
                os.write(descriptor, f"{self.key.reveal()}\n{self.certificate_chain}\n".encode())
                self._load(context, f"/proc/self/fd/{descriptor}", "ssl.keystore.key")
            finally:
                os.close(descriptor)
        elif self.certificate_chain or self.key:
            raise ConfigurationError(
                "the client's identity is incomplete",
                expected="ssl.keystore.certificate.chain and ssl.keystore.key",
                option="properties.ssl.keystore.key",
            )

    def _load(self, context: ssl.SSLContext, path: str, option: str) -> None:
        # Without a password, OpenSSL would ask for one on the terminal.
        password = self.key_password.reveal() if self.key_password else ""
        try:
            context.load_cert_chain(path, password=password)
        except (OSError, ValueError) as exc:
            raise _unreadable(option, exc) from exc


def _twice(first: str, second: str) -> ConfigurationError:
    return InvalidOptionError(
        "the same certificates are set twice",
        expected=f"{first} or {second}",
        option=f"properties.{second}",
        hint="remove one of them",
    )


def _unreadable(option: str, cause: Exception) -> ConfigurationError:
    return InvalidOptionError(
        f"the PEM of {option!r} cannot be read",
        expected="PEM, and the password of an encrypted key in ssl.key.password",
        found=f"{type(cause).__name__}: {cause}",
        option=f"properties.{option}",
    )
