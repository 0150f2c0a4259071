# SPDX-License-Identifier: Apache-2.0
"""Tests logins and certificates with both clients against a real server."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sink_writing import write

from connector_elasticsearch import (
    ElasticsearchAuthenticationError,
    ElasticsearchAuthorizationError,
    ElasticsearchConnection,
    ElasticsearchSink,
)
from connector_elasticsearch.client import ElasticsearchClient
from connector_elasticsearch.testing import ElasticsearchServer, ServerSecurity
from connectors_core.testing.servers import Authority

WRONG = "canary-9f4e"  # pragma: allowlist secret


@dataclass(frozen=True)
class Encrypted:
    """A server with TLS, and the settings that a client needs."""

    server: ElasticsearchServer
    security: ServerSecurity
    ca_file: str

    @property
    def fingerprint(self) -> str:
        host = ("127.0.0.1", self.server.port)
        der = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(host))
        return hashlib.sha256(der).hexdigest()

    def connection(self, **settings: Any) -> ElasticsearchConnection:
        login = {"username": self.security.user, "password": self.security.password}
        given = {"ca_file": self.ca_file} | login | settings
        given = {name: value for name, value in given.items() if value is not None}
        return ElasticsearchConnection(self.server.url, **given)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    authority = Authority.create()
    path = _stored(authority, tmp_path_factory.mktemp("ca"))
    security = ServerSecurity(authority=authority, api_keys=True)
    with ElasticsearchServer(security=security) as server:
        yield Encrypted(server, security, path)


def _stored(authority: Authority, folder: Path) -> str:
    path = folder / "ca.pem"
    path.write_text(authority.certificate)
    return str(path)


def asks(connection: ElasticsearchConnection) -> None:
    """Send a request with the blocking client."""
    client = ElasticsearchClient(connection)
    try:
        client.request("GET", "/_security/_authenticate", doing="asking who logs in")
    finally:
        client.close()


def writes(connection: ElasticsearchConnection) -> None:
    """Write a row with the asynchronous client."""
    rows = pa.table({"n": [1]})
    write(ElasticsearchSink(connection, "logs-app-default", operation="create"), _timed(rows))


def _timed(rows: pa.Table) -> pa.Table:
    times = pa.array([0] * rows.num_rows, pa.timestamp("ms", "UTC"))
    return rows.append_column("@timestamp", times)


BOTH = pytest.mark.parametrize("use", [asks, writes])


@BOTH
@pytest.mark.parametrize("check", ["ca", "fingerprint"])
def test_a_certificate_is_trusted_through_its_authority_or_its_fingerprint(
    encrypted: Encrypted, use: Any, check: str
) -> None:
    if check == "ca":
        use(encrypted.connection())
    else:
        fingerprint = encrypted.fingerprint
        use(encrypted.connection(ca_file=None, certificate_fingerprint=fingerprint))


@BOTH
@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"ca_file": None}, "self-signed certificate|unable to get local issuer"),
        ({"ca_file": None, "certificate_fingerprint": "0" * 64}, "a different fingerprint"),
    ],
    ids=["unknown authority", "another fingerprint"],
)
def test_the_error_of_an_untrusted_certificate_names_the_option(
    encrypted: Encrypted, use: Any, settings: dict[str, Any], found: str
) -> None:
    with pytest.raises(ElasticsearchAuthenticationError, match=found) as failure:
        use(encrypted.connection(**settings))
    assert "ssl.ca-file" in (failure.value.option or "")


@pytest.mark.line("3.5")  # no Spark in it
@BOTH
def test_a_certificate_of_another_address_is_not_trusted(use: Any, tmp_path: Path) -> None:
    authority = Authority.create()
    identity = authority.issue("elsewhere", host="127.0.0.2")
    security = ServerSecurity(authority=authority, identity=identity)
    with ElasticsearchServer(security=security) as server:
        other = Encrypted(server, security, _stored(authority, tmp_path))
        with pytest.raises(ElasticsearchAuthenticationError, match=r"127\.0\.0\.1"):
            use(other.connection())


@BOTH
def test_clients_can_log_in_with_an_api_key_or_a_token(encrypted: Encrypted, use: Any) -> None:
    key = encrypted.server.api_key({"logs-*": ["create_doc", "auto_configure"]})
    nobody = {"username": None, "password": None}
    use(encrypted.connection(api_key=key, **nobody))
    use(encrypted.connection(bearer_token=encrypted.security.bearer_token, **nobody))


@BOTH
@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"password": WRONG}, "username"),
        ({"username": None, "password": None, "api_key": f"id:{WRONG}"}, "api-key"),
        ({"username": None, "password": None, "bearer_token": WRONG}, "bearer-token"),
        ({"username": None, "password": None}, "username"),
    ],
    ids=["password", "API key", "token", "nobody"],
)
def test_the_error_of_a_rejected_login_names_the_option(
    encrypted: Encrypted, use: Any, settings: dict[str, Any], option: str
) -> None:
    with pytest.raises(ElasticsearchAuthenticationError) as failure:
        use(encrypted.connection(**settings))
    assert failure.value.option == option
    assert failure.value.status == 401
    for error in (failure.value, failure.value.__cause__):
        assert WRONG not in f"{error} {error!r}"


def test_a_missing_write_privilege_is_an_authorization_error(encrypted: Encrypted) -> None:
    key = encrypted.server.api_key({"other-*": ["write"]})
    connection = encrypted.connection(api_key=key, username=None, password=None)
    with pytest.raises(ElasticsearchAuthorizationError, match="unauthorized") as failure:
        writes(connection)
    assert failure.value.option == "api-key"
