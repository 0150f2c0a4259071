# SPDX-License-Identifier: Apache-2.0
"""How the servers are reached, and who logs in."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from connector_elasticsearch.client import options
from connectors_core.annotations import public
from connectors_core.errors import ConfigurationError, InvalidOptionError, MissingOptionError
from connectors_core.options import Options
from connectors_core.secrets import Secret
from connectors_core.spelling import spelled_in_python

__all__ = ["ElasticsearchConnection"]

_FINGERPRINT: Final = re.compile(r"[0-9a-fA-F]{64}")
_LOGINS: Final = (options.USERNAME, options.API_KEY, options.BEARER_TOKEN)


@public
@spelled_in_python(made_of_options=("of",))
@dataclass(frozen=True, repr=False)
class ElasticsearchConnection:
    """How Elasticsearch is reached; immutable, picklable, no I/O. Driver and executor.

    Args:
        hosts: URLs of the servers, with their ports; a request goes to the next one each time.
        cloud_id: Id of a deployment of Elastic Cloud, in place of hosts.
        username: Who logs in, with a password.
        password: The user's password.
        api_key: API key to log in with, encoded or as `id:key`.
        bearer_token: Token to log in with.
        ca_file: PEM file of the authorities that may issue the servers' certificates, on every
            node; by default those that the system trusts.
        certificate_fingerprint: SHA-256 of the server's own certificate; nothing else of it is
            checked then.
        path_prefix: What stands before every path.
        request_timeout: How long a request may take, in all.
        headers: Further HTTP headers of every request; they are never shown.

    Raises:
        ConfigurationError: What was given cannot be used, or does not go together.
    """

    hosts: str | Sequence[str] = ()
    _: KW_ONLY
    cloud_id: str | None = None
    username: str | None = None
    password: str | Secret | None = None
    api_key: str | Secret | None = None
    bearer_token: str | Secret | None = None
    ca_file: str | None = None
    certificate_fingerprint: str | None = None
    path_prefix: str | None = None
    request_timeout: timedelta = timedelta(minutes=1)
    headers: Mapping[str, str | Secret] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, option in (
            ("hosts", options.HOSTS),
            ("cloud_id", options.CLOUD_ID),
            ("username", options.USERNAME),
            ("password", options.PASSWORD),
            ("api_key", options.API_KEY),
            ("bearer_token", options.BEARER_TOKEN),
            ("ca_file", options.CA_FILE),
            ("path_prefix", options.PATH_PREFIX),
            ("request_timeout", options.REQUEST_TIMEOUT),
        ):
            value = getattr(self, name)
            if value is not None and value != ():
                object.__setattr__(self, name, option.parse(value))
        secret = {name: Secret(value) for name, value in self.headers.items()}
        object.__setattr__(self, "headers", secret)
        object.__setattr__(self, "certificate_fingerprint", self._checked_fingerprint())
        if bool(self.hosts) == bool(self.cloud_id):
            raise ConfigurationError(
                "a connection needs one way to its servers",
                expected="'hosts' or 'cloud-id'",
                found="both" if self.hosts else "neither",
                option=options.HOSTS.key,
                hint="give one of them",
            )
        for host in self.hosts:
            _check_host(host)
        self._check_login()
        self._check_certificates()

    @classmethod
    def of(cls, parsed: Options) -> ElasticsearchConnection:
        """Make a connection of the options of a source, sink or lookup; see `CONNECTION_OPTIONS`.

        Raises:
            ConfigurationError: What was given cannot be used, or does not go together.
        """
        hosts = parsed.get(options.HOSTS)
        headers = parsed[options.HEADERS]
        return cls(
            hosts or (),
            cloud_id=parsed.get(options.CLOUD_ID),
            username=parsed.get(options.USERNAME),
            password=parsed.get(options.PASSWORD),
            api_key=parsed.get(options.API_KEY),
            bearer_token=parsed.get(options.BEARER_TOKEN),
            ca_file=parsed.get(options.CA_FILE),
            certificate_fingerprint=parsed.get(options.CERTIFICATE_FINGERPRINT),
            path_prefix=parsed.get(options.PATH_PREFIX),
            request_timeout=parsed[options.REQUEST_TIMEOUT],
            headers=headers,
        )

    @property
    def login_option(self) -> str | None:
        """The option that says who logs in; None for nobody."""
        given = (each.key for each in _LOGINS if getattr(self, _attribute(each.key)) is not None)
        return next(given, None)

    @property
    def revealed_headers(self) -> dict[str, str]:
        """The further headers in the clear: never show them."""
        return {name: _revealed(value) for name, value in self.headers.items()}

    def client_arguments(self, *, is_async: bool) -> dict[str, Any]:
        """What a client is made with; holds secrets in the clear: never show it.

        Args:
            is_async: Whether it is for the asynchronous client.

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
        if self.username is not None:
            arguments["basic_auth"] = (self.username, _revealed(self.password))
        if self.api_key is not None:
            arguments["api_key"] = _encoded_api_key(_revealed(self.api_key))
        if self.bearer_token is not None:
            arguments["bearer_auth"] = _revealed(self.bearer_token)
        if self._is_encrypted:
            arguments |= self._tls(is_async)
        return arguments

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
                option=options.CA_FILE.key,
            ) from exc
        # A context lets the asynchronous client check addresses too; the other one does so anyway,
        # and would add public authorities to a context.
        if is_async or self.ca_file is None:
            return {"ssl_context": context}
        return {"ca_certs": self.ca_file}

    def _checked_fingerprint(self) -> str | None:
        if self.certificate_fingerprint is None:
            return None
        digits = options.CERTIFICATE_FINGERPRINT.parse(self.certificate_fingerprint)
        digits = digits.replace(":", "")
        if not _FINGERPRINT.fullmatch(digits):
            raise InvalidOptionError(
                "the fingerprint of the certificate cannot be used",
                expected="the 64 hexadecimal digits of a SHA-256, with or without colons",
                found=f"{len(digits)} characters",
                option=options.CERTIFICATE_FINGERPRINT.key,
            )
        return digits.lower()

    def _check_login(self) -> None:
        given = [each for each in _LOGINS if getattr(self, _attribute(each.key)) is not None]
        if len(given) > 1:
            raise ConfigurationError(
                "there is more than one login",
                expected="a user and a password, an API key or a token",
                found=", ".join(each.key for each in given),
                option=given[1].key,
                hint="give one of them",
            )
        if self.username is not None and self.password is None:
            raise MissingOptionError(options.PASSWORD.key, doc=options.PASSWORD.doc)
        if self.username is None and self.password is not None:
            raise MissingOptionError(options.USERNAME.key, doc=options.USERNAME.doc)
        if given and any(name.lower() == "authorization" for name in self.headers):
            raise ConfigurationError(
                "there is more than one login",
                expected="an option of its own",
                found=f"{given[0].key} and the header Authorization",
                option=options.HEADERS.key,
                hint="remove the header",
            )

    def _check_certificates(self) -> None:
        given = [
            each.key
            for each, value in (
                (options.CA_FILE, self.ca_file),
                (options.CERTIFICATE_FINGERPRINT, self.certificate_fingerprint),
            )
            if value is not None
        ]
        if given and not self._is_encrypted:
            raise ConfigurationError(
                "certificates have no effect without encryption",
                expected="hosts that begin with https://",
                found=", ".join(self.hosts),
                option=given[0],
            )
        if len(given) > 1:
            raise ConfigurationError(
                "the server's certificate is checked in one way",
                expected=f"{given[0]} or {given[1]}",
                found="both",
                option=given[1],
                hint="give one of them",
            )


def _check_host(host: str) -> None:
    try:
        parts = urlsplit(host)
        complete = parts.scheme in ("http", "https") and parts.hostname and parts.port
    except ValueError:
        parts, complete = None, None
    if parts is not None and parts.username is not None:
        raise InvalidOptionError(
            "a login does not belong into an address",
            expected="https://host:9200, and the login in options of its own",
            found=host,
            option=options.HOSTS.key,
            hint="use 'username' and 'password'",
        )
    if not complete or (parts is not None and (parts.query or parts.fragment)):
        raise InvalidOptionError(
            "the address of a server cannot be used",
            expected="scheme, host and port, as in https://host:9200",
            found=host,
            option=options.HOSTS.key,
        )


def _attribute(key: str) -> str:
    return key.replace("-", "_")


def _revealed(value: str | Secret | None) -> str:
    return value.reveal() if isinstance(value, Secret) else value or ""


def _encoded_api_key(key: str) -> str:
    return base64.b64encode(key.encode()).decode() if ":" in key else key
