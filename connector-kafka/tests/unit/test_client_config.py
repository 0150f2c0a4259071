# SPDX-License-Identifier: Apache-2.0
"""Tests which client properties are accepted or rejected, and that passwords stay hidden."""

from __future__ import annotations

import pickle
import re
import ssl
from pathlib import Path

import pytest

from connector_kafka.client.config import CONSUMER_PROPERTIES, PRODUCER_PROPERTIES, ClientConfig
from connectors_core.errors import (
    ConfigurationError,
    InvalidOptionError,
    MissingOptionError,
    UnknownOptionError,
    UnsupportedError,
)
from connectors_core.secrets import Secret

SERVERS = {"bootstrap.servers": "one:9092, two:9092"}
LOGIN = {**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
PASSWORD = "canary-password"  # pragma: allowlist secret
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="al\\"ice" password="{PASSWORD}";'
)


def test_kafka_properties_become_arguments_of_the_client():
    arguments = ClientConfig.of({**SERVERS, "request.timeout.ms": "1234"}).client_arguments()
    assert arguments["bootstrap_servers"] == ["one:9092", "two:9092"]
    assert arguments["request_timeout_ms"] == 1234
    assert arguments["security_protocol"] == "PLAINTEXT"
    assert "ssl_context" not in arguments


def test_the_example_in_the_docs_shows_no_password(capsys):
    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(
        compile(example.replace('Secret("...")', f'Secret("{PASSWORD}")'), "client.md", "exec"), {}
    )
    assert capsys.readouterr().out == "KafkaSource('host:9093', flights, continuous unbounded)\n"


def test_an_unknown_property_is_refused_with_a_suggestion():
    with pytest.raises(UnknownOptionError, match=r"fetch\.min\.bytes"):
        ClientConfig.of({**SERVERS, "fetch.min.byte": 1}, CONSUMER_PROPERTIES)


def test_the_brokers_are_required():
    with pytest.raises(MissingOptionError, match=r"bootstrap\.servers"):
        ClientConfig.of({})


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("key.deserializer", "Java class"),
        ("ssl.truststore.password", "PEM"),
        ("enable.auto.commit", "checkpoint"),
        ("Partition.Assignment.Strategy", "consumer groups"),
        ("sasl.kerberos.service.name", "Kerberos"),
    ],
)
def test_properties_of_the_java_client_alone_are_refused_with_the_reason(key, reason):
    with pytest.raises(UnsupportedError, match=reason):
        ClientConfig.of({**SERVERS, key: "x"}, CONSUMER_PROPERTIES)


def test_a_producer_and_a_consumer_accept_different_properties():
    assert ClientConfig.of({**SERVERS, "compression.type": "zstd"}, PRODUCER_PROPERTIES)
    with pytest.raises(UnknownOptionError):
        ClientConfig.of({**SERVERS, "compression.type": "zstd"}, CONSUMER_PROPERTIES)


@pytest.mark.parametrize(
    "login",
    [
        {"sasl.username": 'al"ice', "sasl.password": PASSWORD},
        {"sasl.username": 'al"ice', "sasl.password": Secret(PASSWORD)},
        {"sasl.jaas.config": JAAS},
        {"sasl.jaas.config": Secret(JAAS)},
    ],
)
def test_a_login_comes_from_properties_or_a_jaas_config_and_is_never_shown(login):
    config = ClientConfig.of({**LOGIN, **login})
    arguments = config.client_arguments()
    assert arguments["sasl_plain_username"] == 'al"ice'
    assert arguments["sasl_plain_password"].reveal() == PASSWORD
    for shown in (repr(config), str(config), str(config.options.describe())):
        assert PASSWORD not in shown
    sent = pickle.loads(pickle.dumps(config)).client_arguments()
    assert sent["sasl_plain_password"].reveal() == PASSWORD


def test_a_password_that_cannot_be_read_is_an_error_before_the_client_connects():
    absent = {"sasl.username": "alice", "sasl.password": "${env:NO_SUCH_VARIABLE}"}
    config = ClientConfig.of({**LOGIN, **absent})
    with pytest.raises(InvalidOptionError, match="NO_SUCH_VARIABLE"):
        config.client_arguments()


@pytest.mark.parametrize(
    "jaas",
    [
        f'com.sun.Krb5LoginModule required password="{PASSWORD}";',
        f'x.ScramLoginModule required username="a" password="{PASSWORD}";',
        f'x.PlainLoginModule required password="{PASSWORD}";',
        f'x.PlainLoginModule required username="a" password="{PASSWORD}"',
        "",
    ],
)
def test_an_invalid_jaas_config_is_refused_without_showing_it(jaas):
    with pytest.raises(InvalidOptionError) as refused:
        ClientConfig.of({**LOGIN, "sasl.jaas.config": jaas})
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    ("missing", "given"),
    [
        ("sasl.username", {"sasl.password": "p"}),
        ("sasl.password", {"sasl.username": "u"}),
    ],
)
def test_an_incomplete_login_is_refused(missing, given):
    with pytest.raises(MissingOptionError, match=missing):
        ClientConfig.of({**LOGIN, **given})


def test_a_login_that_the_protocol_ignores_is_refused():
    with pytest.raises(ConfigurationError, match=r"security\.protocol"):
        ClientConfig.of({**SERVERS, "sasl.username": "u"})


def test_tls_checks_the_host_name_unless_the_check_is_disabled():
    secure = {**SERVERS, "security.protocol": "SSL"}
    context = ClientConfig.of(secure).client_arguments()["ssl_context"]
    assert context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    secure["ssl.endpoint.identification.algorithm"] = ""
    context = ClientConfig.of(secure).client_arguments()["ssl_context"]
    assert not context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.truststore.location", "no/such/file.pem"),
        ("ssl.truststore.certificates", "no certificate"),
        ("ssl.keystore.location", "no/such/file.pem"),
    ],
)
def test_the_error_of_an_unreadable_certificate_names_the_property(key, value):
    config = ClientConfig.of({**SERVERS, "security.protocol": "SSL", key: value})
    with pytest.raises(InvalidOptionError, match=key):
        config.client_arguments()
