# SPDX-License-Identifier: Apache-2.0
"""Tests the private parts of the client that the connector uses."""

from __future__ import annotations

import logging
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest

from connector_kafka.client.config import CONSUMER_PROPERTIES, ClientConfig
from connector_kafka.client.fetch_api import FetchApi, open_fetcher
from connector_kafka.client.fetcher import Fetcher, FetchSettings
from connector_kafka.client.logins import prepare_logins
from connector_kafka.client.metadata import Cluster
from connector_kafka.client.polling_fetcher import PollingFetcher
from connector_kafka.client.wire import Wire, check_contract
from connector_kafka.errors import KafkaFatalError, KafkaRetryableError
from connectors_core.errors import FatalError, UnsupportedError


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_installed_client_fulfills_the_contract():
    check_contract()


def test_a_client_with_missing_parts_is_refused(monkeypatch):
    monkeypatch.delattr(KafkaConnectionManager, "least_loaded_node")
    monkeypatch.setattr(KafkaConnectionManager, "connection_delay", lambda self: 0)
    with pytest.raises(UnsupportedError) as refused:
        check_contract()
    assert "least_loaded_node is missing" in str(refused.value)
    assert "connection_delay does not accept 'node_id'" in str(refused.value)


def test_reading_falls_back_to_the_public_api_and_logs_the_reason(monkeypatch, caplog):
    config = ClientConfig.of({"bootstrap.servers": "127.0.0.1:9092"}, CONSUMER_PROPERTIES)
    assert isinstance(open_fetcher(config, FetchSettings(), FetchApi.AUTO), Fetcher)
    assert isinstance(open_fetcher(config, FetchSettings(), FetchApi.PUBLIC), PollingFetcher)
    monkeypatch.delattr(KafkaConnectionManager, "least_loaded_node")
    assert isinstance(open_fetcher(config, FetchSettings(), FetchApi.AUTO), PollingFetcher)
    assert "least_loaded_node is missing" in caplog.text


def test_the_error_of_an_unreachable_broker_names_it_and_no_thread_remains():
    port = closed_port()
    before = threading.active_count()
    wire = Wire(
        ClientConfig.of({"bootstrap.servers": f"127.0.0.1:{port}", "request.timeout.ms": 300})
    )
    assert threading.active_count() == before, "making it opens nothing"
    with pytest.raises(KafkaRetryableError, match=f"127.0.0.1:{port}"):
        wire.refresh_metadata()
    wire.close()
    wire.close()
    assert threading.active_count() == before
    with pytest.raises(KafkaFatalError, match="closed"):
        wire.refresh_metadata()


def test_pending_requests_fail_when_the_wire_is_closed():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        wire = Wire(ClientConfig.of({"bootstrap.servers": address}))
        answer = wire.send(MetadataRequest(topics=[]))
        connection, _ = mute.accept()
        wire.close()
        connection.close()
        assert isinstance(answer.exception(timeout=20), KafkaFatalError)


def test_a_request_that_ends_because_the_wire_is_closed_is_not_logged_as_a_failure(caplog):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        wire = Wire(ClientConfig.of({"bootstrap.servers": address}))
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(Cluster(wire).topics)
            connection, _ = mute.accept()
            wire.close()
            connection.close()
            assert isinstance(asking.exception(timeout=20), KafkaFatalError)
    assert "retrying" not in caplog.text


def test_using_the_wire_of_another_process_is_refused(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        wire = Wire(ClientConfig.of({"bootstrap.servers": f"127.0.0.1:{mute.getsockname()[1]}"}))
        wire._opened()
        own = os.getpid()
        with monkeypatch.context() as forked:
            forked.setattr(os, "getpid", lambda: own + 1)
            with pytest.raises(FatalError, match="another process"):
                wire.refresh_metadata()
        wire.close()


@pytest.mark.parametrize("logger", ["kafka.net.connection", "kafka.protocol.parser"])
def test_the_password_is_kept_out_of_debug_logs(logger, caplog):
    prepare_logins()
    login = SaslAuthenticateRequest(b"\0alice\0canary-password")
    with caplog.at_level(logging.DEBUG, logger):
        logging.getLogger(logger).debug("Request %d: %s", 1, login)
        logging.getLogger(logger).debug("%s Send: %r", "ident", b"\0alice\0canary-password")
    assert len(caplog.records) == 2
    assert "canary" not in caplog.text
