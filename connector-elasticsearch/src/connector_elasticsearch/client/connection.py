# SPDX-License-Identifier: Apache-2.0
"""The servers' addresses and the login."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from connector_elasticsearch.client.options import ConnectionOptions
from connectors_core.errors import ConfigurationError, InvalidOptionError, MissingOptionError
from connectors_core.secrets import MASK, Secret

__all__ = ["ElasticsearchConnection"]

_LOGINS: Final = ("username", "api-key", "bearer-token")


class ElasticsearchConnection(ConnectionOptions):
    """The connection to Elasticsearch.

    Immutable and picklable, without I/O. Driver and executor.

    Raises:
        ConfigurationError: A setting is not valid, or settings contradict each other.
    """

    def __post_init__(self) -> None:
        if bool(self.hosts) == bool(self.cloud_id):
            raise ConfigurationError(
                "a connection needs exactly one way to find its servers",
                expected="'hosts' or 'cloud-id'",
                found="both" if self.hosts else "neither",
                option="hosts",
                hint="set one of them",
            )
        for host in self.hosts:
            _check_host(host)
        self._check_login()
        self._check_certificates()

    @classmethod
    def of(cls, given: ElasticsearchConnection | str | Sequence[str]) -> ElasticsearchConnection:
        """Return a connection as it is, or create one from addresses."""
        return given if isinstance(given, ElasticsearchConnection) else cls(given)

    @property
    def login_option(self) -> str | None:
        """The option that holds the login, or None without a login."""
        return next(iter(self._logins), None)

    @property
    def _logins(self) -> list[str]:
        return [key for key in _LOGINS if getattr(self, key.replace("-", "_")) is not None]

    @property
    def revealed_headers(self) -> dict[str, str]:
        """The additional headers in plain text: never show them."""
        return {name: value.reveal() for name, value in self.headers.items()}

    def client_arguments(self, *, is_async: bool) -> dict[str, Any]:
        """Return the client's arguments. They contain secrets in plain text: never show them.

        Args:
            is_async: Whether they are for the asynchronous client.

        Raises:
            ConfigurationError: The certificates cannot be read.
        """
        arguments: dict[str, Any] = {
            "request_timeout": self.request_timeout.total_seconds(),
        }
        if self.cloud_id is not None:
            arguments["cloud_id"] = self.cloud_id
        else:
            prefix = f"/{self.path_prefix.strip('/')}" if self.path_prefix else ""
            arguments["hosts"] = [host.rstrip("/") + prefix for host in self.hosts]
        if self._is_encrypted:
            arguments |= self._tls(is_async)
        return arguments | self.login_arguments()

    @property
    def login_varies(self) -> bool:
        """Whether the login can be another one after the servers rejected it."""
        secrets = (self.password, self.api_key, self.bearer_token)
        return any(each is not None and each.varies for each in secrets)

    def login_arguments(self) -> dict[str, Any]:
        """Return the client's arguments for the login, in plain text: never show them.

        Raises:
            InvalidOptionError: A secret cannot be read.
        """
        if self.username is not None:
            return {"basic_auth": (self.username, _revealed(self.password))}
        if self.api_key is not None:
            return {"api_key": _encoded_api_key(_revealed(self.api_key))}
        if self.bearer_token is not None:
            return {"bearer_auth": _revealed(self.bearer_token)}
        return {}

    def __repr__(self) -> str:
        where = self.cloud_id or ", ".join(self.hosts)
        return f"ElasticsearchConnection({where!r}, login={self.login_option!r})"

    @property
    def _is_encrypted(self) -> bool:
        return self.cloud_id is not None or any(each.startswith("https:") for each in self.hosts)

    def _tls(self, is_async: bool) -> dict[str, Any]:
        if self.certificate_fingerprint is not None:
            return {"ssl_assert_fingerprint": self.certificate_fingerprint}
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as exc:
            raise InvalidOptionError(
                "the certificates of the authorities cannot be read",
                expected="a PEM file on this machine",
                found=f"{self.ca_file}: {exc}",
                option="ssl.ca-file",
            ) from exc
        # With a context, the asynchronous client can also check addresses. The other client does so
        # anyway, and would add public authorities to a context.
        if is_async or self.ca_file is None:
            return {"ssl_context": context}
        return {"ca_certs": self.ca_file}

    def _check_login(self) -> None:
        given = self._logins
        if len(given) > 1:
            raise ConfigurationError(
                "there is more than one login",
                expected="a user and a password, an API key, or a token",
                found=", ".join(given),
                option=given[1],
                hint="set one of them",
            )
        if self.username is not None and not self.password:
            raise MissingOptionError("password")
        if self.username is None and self.password is not None:
            raise MissingOptionError("username")
        if given and any(name.lower() == "authorization" for name in self.headers):
            raise ConfigurationError(
                "there is more than one login",
                expected="a separate option",
                found=f"{given[0]} and the header Authorization",
                option="headers.*",
                hint="remove the header",
            )

    def _check_certificates(self) -> None:
        given = [
            key
            for key, value in (
                ("ssl.ca-file", self.ca_file),
                ("ssl.certificate-fingerprint", self.certificate_fingerprint),
            )
            if value is not None
        ]
        if given and not self._is_encrypted:
            raise ConfigurationError(
                "certificates have no effect without encryption",
                expected="hosts that start with https://",
                found=", ".join(self.hosts),
                option=given[0],
            )
        if len(given) > 1:
            raise ConfigurationError(
                "there are two settings for checking the server's certificate",
                expected=f"{given[0]} or {given[1]}",
                found="both",
                option=given[1],
                hint="set one of them",
            )


def _check_host(host: str) -> None:
    _, login, server = host.rpartition("@")
    if login:  # a password can contain characters that end the name of a host
        raise InvalidOptionError(
            "an address must not contain a login",
            expected="https://host:9200, and the login in separate options",
            found=f"{MASK}@{server}",
            option="hosts",
            hint="use 'username' and 'password'",
        )
    try:
        parts = urlsplit(host)
        complete = parts.scheme in ("http", "https") and parts.hostname and parts.port
    except ValueError:
        parts, complete = None, None
    if not complete or (parts is not None and (parts.query or parts.fragment)):
        raise InvalidOptionError(
            "the address of a server is not valid",
            expected="scheme, host, and port, as in https://host:9200",
            found=host,
            option="hosts",
        )


def _revealed(value: Secret | None) -> str:
    return "" if value is None else value.reveal()


def _encoded_api_key(key: str) -> str:
    return base64.b64encode(key.encode()).decode() if ":" in key else key


CONNECTION_OPTIONS: Final = ElasticsearchConnection.OPTIONS
"""The options of `ElasticsearchConnection`, which the sink and the source include."""
