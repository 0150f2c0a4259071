# SPDX-License-Identifier: Apache-2.0
"""Tests pipelines with logins and encryption, and the errors when a broker rejects them.

The pipelines run in this process against a real broker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from connector_kafka import (
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    OffsetsInitializer,
)
from connector_kafka.client.config import ClientConfig
from connector_kafka.client.wire import Wire
from connector_kafka.errors import KafkaAuthenticationError, KafkaRequestError
from connector_kafka.testing import Authority, BrokerSecurity, KafkaBroker
from connectors_core.formats import JsonFormat
from connectors_core.secrets import Secret
from connectors_core.sink import DeliveryGuarantee
from connectors_core.source import NumberSequenceSource
from connectors_core.testing import DirectorySink, LocalPipeline, assert_unseen, error_texts

pytestmark = pytest.mark.line("3.5")  # these tests do not use Spark
AUTHORITY = Authority.create()
STRANGER = Authority.create()
SECURITY = BrokerSecurity(mechanism="SCRAM-SHA-512", authority=AUTHORITY, client_certificates=True)
WRONG_PASSWORD = "canary-71c9"  # pragma: allowlist secret
ROWS = 50
NUMBERS = NumberSequenceSource(0, ROWS - 1)
OTHERS = [
    BrokerSecurity(mechanism="PLAIN", authority=AUTHORITY),
    BrokerSecurity(mechanism="SCRAM-SHA-256"),
    BrokerSecurity(authority=AUTHORITY),
]


@pytest.fixture(scope="module")
def secure() -> Iterator[KafkaBroker]:
    """Start a broker that requires a password and a client certificate."""
    with KafkaBroker(security=SECURITY) as broker:
        broker.topics.create("numbers")
        yield broker


def source(properties: Mapping[str, Any]) -> KafkaSource:
    servers = str(properties["bootstrap.servers"])
    return KafkaSource(
        servers,
        topics="numbers",
        bounded=OffsetsInitializer.latest(),
        deserialization=KafkaRecordDeserializationSchema(
            value_format=JsonFormat(), schema=NUMBERS.schema()
        ),
        isolation_level="read_committed",
        properties=without_servers(properties),
    )


def sink(properties: Mapping[str, Any]) -> KafkaSink:
    return KafkaSink(
        str(properties["bootstrap.servers"]),
        serialization=KafkaRecordSerializationSchema(topic="numbers", value_format=JsonFormat()),
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        transactional_id_prefix="numbers",
        properties=without_servers(properties),
    )


def without_servers(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if name != "bootstrap.servers"}


def run(source: Any, sink: Any, folder: Path) -> None:
    pipeline = LocalPipeline("secure", checkpoint_location=str(folder))
    with pipeline:
        pipeline.sink_to(pipeline.from_source(source, uid="from"), sink, uid="to")
        assert pipeline.run(timeout=60)


def there_and_back(properties: Mapping[str, Any], folder: Path) -> list[int]:
    """Write numbers to the topic, read them back, and return them."""
    found = DirectorySink(folder / "found")
    run(NUMBERS, sink(properties), folder / "there")
    run(source(properties), found, folder / "back")
    return sorted(found.read()["value"].to_pylist())


def test_rows_are_written_and_read_over_a_secure_connection(
    secure: KafkaBroker, tmp_path: Path
) -> None:
    assert there_and_back(secure.client_properties(), tmp_path) == list(range(ROWS))


@pytest.mark.parametrize("as_jaas", [False, True], ids=["password", "jaas"])
def test_each_login_reads_its_password_again(secure: KafkaBroker, as_jaas: bool) -> None:
    properties = secure.client_properties()
    right = SECURITY.password.reveal()
    current = [WRONG_PASSWORD]
    properties["sasl.password"] = Secret(lambda: current[0])
    if as_jaas:
        del properties["sasl.password"], properties["sasl.username"]
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        login = f'{module} required username="{SECURITY.user}" password="%s";'
        properties["sasl.jaas.config"] = Secret(lambda: login % current[0])
    with closing(Wire(ClientConfig.of(properties))) as wire:
        with pytest.raises(KafkaAuthenticationError):
            wire.refresh_metadata()
        current[0] = right
        assert wire.refresh_metadata().brokers


@pytest.mark.parametrize("security", [None, *OTHERS[1:]], ids=lambda each: each and each.protocol)
def test_a_wrong_protocol_is_reported_at_once_with_the_right_one(
    broker: KafkaBroker, security: BrokerSecurity | None, tmp_path: Path
) -> None:
    with nullcontext(broker) if security is None else KafkaBroker(security=security) as wanted:
        right = wanted.client_properties()
        for protocol in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            if protocol == right["security.protocol"]:
                continue
            given = {"bootstrap.servers": right["bootstrap.servers"], "security.protocol": protocol}
            if protocol.endswith("SSL"):
                given["ssl.truststore.certificates"] = AUTHORITY.certificate
            if protocol.startswith("SASL"):
                given |= {"sasl.mechanism": "PLAIN", "sasl.username": "alice"}
                given["sasl.password"] = Secret(WRONG_PASSWORD)
            began = time.monotonic()
            with pytest.raises(KafkaRequestError, match="uses another protocol") as caught:
                source(given).check_connection(60.0)
            assert time.monotonic() - began < 10
            assert caught.value.option == "properties.security.protocol"
            assert right["security.protocol"] in str(caught.value.expected)
            assert caught.value.found == protocol
            assert_unseen([WRONG_PASSWORD], error_texts(caught.value), tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sasl.password": Secret(WRONG_PASSWORD)},
        {"ssl.truststore.certificates": STRANGER.certificate},
        {"ssl.keystore.certificate.chain": None, "ssl.keystore.key": None},
    ],
    ids=["password", "authority", "client certificate"],
)
@pytest.mark.parametrize("end", ["source", "sink"])
def test_a_rejected_login_fails_with_an_option_and_a_hint_and_shows_no_secret(
    secure: KafkaBroker,
    tmp_path: Path,
    wrong: dict[str, Any],
    end: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    given = secure.client_properties() | wrong
    properties = {name: value for name, value in given.items() if value is not None}
    made = (source if end == "source" else sink)(properties)
    ends = (made, DirectorySink(tmp_path / "out")) if end == "source" else (NUMBERS, made)
    with pytest.raises(KafkaAuthenticationError) as error:
        run(*ends, tmp_path / "checkpoint")
    assert error.value.option
    assert error.value.hint
    seen = [*error_texts(error.value), repr(made), caplog.text, *capfd.readouterr()]
    assert_unseen([WRONG_PASSWORD, SECURITY.password.reveal()], seen, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("security", OTHERS, ids=lambda security: security.protocol)
def test_rows_are_written_and_read_over_every_protocol(
    security: BrokerSecurity, tmp_path: Path
) -> None:
    with KafkaBroker(security=security) as broker:
        broker.topics.create("numbers")
        assert there_and_back(broker.client_properties(), tmp_path) == list(range(ROWS))


@pytest.mark.slow
@pytest.mark.parametrize(
    "identity",
    [AUTHORITY.issue("broker", expired=True), AUTHORITY.issue("broker", host="127.0.0.9")],
    ids=["expired", "of another host"],
)
def test_a_broker_with_an_invalid_certificate_is_rejected(identity: Any, tmp_path: Path) -> None:
    security = BrokerSecurity(authority=AUTHORITY, identity=identity)
    with KafkaBroker(security=security) as broker:
        broker.topics.create("numbers")
        with pytest.raises(KafkaAuthenticationError) as error:
            there_and_back(broker.client_properties(), tmp_path)
    assert "certificate" in str(error.value)
