# SPDX-License-Identifier: Apache-2.0
"""Tests which connection options are accepted or rejected, and that secrets stay hidden."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest

from connector_elasticsearch import ElasticsearchConnection, ElasticsearchSource
from connector_elasticsearch.client import CONNECTION_OPTIONS
from connectors_core.errors import ConfigurationError, InvalidOptionError, UnknownOptionError
from connectors_core.secrets import Secret

HOST = "https://one.example:9200"
SECRET = "canary-51ab"  # pragma: allowlist secret


def test_the_path_prefix_applies_to_all_hosts() -> None:
    connection = ElasticsearchConnection(
        ["http://one.example:9200", "http://two.example:9201/"], path_prefix="/search/"
    )
    assert connection.client_arguments(is_async=True)["hosts"] == [
        "http://one.example:9200/search",
        "http://two.example:9201/search",
    ]


@pytest.mark.parametrize(
    ("login", "argument", "value"),
    [
        ({"username": "ann", "password": SECRET}, "basic_auth", ("ann", SECRET)),
        ({"api_key": SECRET}, "api_key", SECRET),
        ({"api_key": "id:key"}, "api_key", "aWQ6a2V5"),  # pragma: allowlist secret
        ({"bearer_token": SECRET}, "bearer_auth", SECRET),
    ],
)
def test_a_login_reaches_the_client_and_is_never_shown(
    login: dict[str, Any], argument: str, value: object
) -> None:
    connection = ElasticsearchConnection(HOST, **login)
    assert connection.client_arguments(is_async=False)[argument] == value
    assert SECRET not in repr(connection)
    assert SECRET not in repr(vars(connection))


def test_headers_are_secrets() -> None:
    connection = ElasticsearchConnection(HOST, headers={"x-tenant": SECRET})
    assert connection.revealed_headers == {"x-tenant": SECRET}
    assert SECRET not in repr(vars(connection))


def test_a_connection_survives_pickling() -> None:
    connection = ElasticsearchConnection(HOST, username="ann", password=SECRET, headers={"a": "b"})
    assert pickle.loads(pickle.dumps(connection)) == connection


def test_options_build_the_same_connection_as_arguments() -> None:
    given = {
        "hosts": f"{HOST}, https://two.example:9200",
        "api-key": SECRET,
        "ssl.certificate-fingerprint": ":".join(["AB"] * 32),
        "connection.path-prefix": "es",
        "connection.request-timeout": "5 s",
        "headers.x-tenant": "7",
    }
    connection = ElasticsearchConnection.from_options(given)
    assert connection == ElasticsearchConnection(
        [HOST, "https://two.example:9200"],
        api_key=Secret(SECRET),
        certificate_fingerprint="ab" * 32,
        path_prefix="es",
        request_timeout=timedelta(seconds=5),
        headers={"x-tenant": "7"},
    )


@pytest.mark.parametrize(
    ("hosts", "settings", "option"),
    [
        ((), {}, "hosts"),
        (HOST, {"cloud_id": "deployment:abc"}, "hosts"),
        ("one.example:9200", {}, "hosts"),
        ("https://one.example", {}, "hosts"),
        ("ftp://one.example:21", {}, "hosts"),
        ("https://one.example:port", {}, "hosts"),
        ("https://one.example:9200?pretty", {}, "hosts"),
        (f"https://ann:{SECRET}@one.example:9200", {}, "hosts"),
        (HOST, {"username": "ann"}, "password"),
        (HOST, {"username": "ann", "password": ""}, "password"),
        (HOST, {"password": SECRET}, "username"),
        (HOST, {"api_key": SECRET, "bearer_token": SECRET}, "bearer-token"),
        (HOST, {"api_key": SECRET, "headers": {"Authorization": SECRET}}, "headers.*"),
        (HOST, {"certificate_fingerprint": "abc"}, "ssl.certificate-fingerprint"),
        (HOST, {"certificate_fingerprint": "z" * 64}, "ssl.certificate-fingerprint"),
        (
            HOST,
            {"certificate_fingerprint": "a" * 64, "ca_file": "ca.pem"},
            "ssl.certificate-fingerprint",
        ),
        ("http://one.example:9200", {"ca_file": "ca.pem"}, "ssl.ca-file"),
        (HOST, {"request_timeout": timedelta(0)}, "connection.request-timeout"),
    ],
)
def test_invalid_and_conflicting_settings_are_refused(
    hosts: Any, settings: dict[str, Any], option: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        ElasticsearchConnection(hosts, **settings)
    assert refused.value.option == option
    assert SECRET not in str(refused.value)


def test_hosts_are_accepted_in_flinks_notation() -> None:
    connection = ElasticsearchConnection.from_options({"hosts": f"{HOST};https://two.example:9200"})
    assert connection.hosts == (HOST, "https://two.example:9200")


def test_the_error_of_an_unreadable_certificate_names_its_file() -> None:
    connection = ElasticsearchConnection(HOST, ca_file="/nowhere/ca.pem")
    with pytest.raises(ConfigurationError, match=r"/nowhere/ca\.pem"):
        connection.client_arguments(is_async=True)


@pytest.mark.parametrize("key", ["connection.timeout", "socket.timeout"])
def test_unsupported_timeouts_are_refused_with_a_hint_to_the_request_timeout(key: str) -> None:
    with pytest.raises(UnknownOptionError) as refused:
        CONNECTION_OPTIONS.parse({"hosts": HOST, key: "5 s"})
    assert "connection.request-timeout" in (refused.value.hint or "")


@pytest.mark.parametrize("character", ["", "#", "/", "?", " ", "@"])
def test_an_address_with_a_login_is_refused_without_showing_it(character: str) -> None:
    host = f"https://ann:ca{character}nary@server:9200"  # pragma: allowlist secret
    with pytest.raises(InvalidOptionError, match="must not contain a login") as raised:
        ElasticsearchConnection(host)
    assert "nary" not in str(raised.value)
    assert "@server:9200" in str(raised.value)


def test_a_keyword_of_the_connection_is_suggested_as_it_is_passed() -> None:
    with pytest.raises(TypeError, match=r"connection=ElasticsearchConnection\(username=\.\.\.\)"):
        ElasticsearchSource(HOST, index="flights", username="me")  # type: ignore[call-arg]
