# SPDX-License-Identifier: Apache-2.0
"""Tests the `connectors kafka transactions` command, which lists and ends transactions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kafka_batches import batch_of
from kafka_sink_suites import open_transactions, read_committed
from typer.testing import CliRunner

from connector_kafka.client.config import PRODUCER_PROPERTIES, ClientConfig
from connector_kafka.client.producer import Producer
from connector_kafka.client.transactions import Transaction
from connector_kafka.testing import KafkaBroker
from connectors_core.cli import app

PIPELINE = "fedcba9876543210fedcba9876543210"  # pragma: allowlist secret


def run(broker: KafkaBroker, command: str, *arguments: str, **settings: Any) -> Any:
    address = ["--bootstrap-server", broker.bootstrap_servers]
    return CliRunner().invoke(
        app, ["kafka", "transactions", command, *address, *arguments], **settings
    )


@pytest.fixture
def opened(broker: KafkaBroker, topic: str) -> list[str]:
    """Open the transactions of two writers of one sink, and return their IDs."""
    names = [f"{topic}-{PIPELINE}-out-{writer}-0" for writer in range(2)]
    config = ClientConfig.of({"bootstrap.servers": broker.bootstrap_servers}, PRODUCER_PROPERTIES)
    for name in names:
        producer = Producer(config)
        identity = producer.transactions.init_producer_ids([name], timeout_ms=60_000)[name]
        producer.begin(Transaction(name, identity))
        producer.send({(topic, 0): [batch_of(identity, name.encode())]})
        producer.flush()
        producer.close()
    return names


def test_open_transactions_are_listed_with_their_sink(
    broker: KafkaBroker, topic: str, opened: list[str]
) -> None:
    shown = run(broker, "list", "--prefix", topic, "--json")
    assert shown.exit_code == 0, shown.output
    views = json.loads(shown.output)
    assert [view["transactional_id"] for view in views] == opened
    assert {(v["pipeline"], v["sink"], v["state"]) for v in views} == {(PIPELINE, "out", "Ongoing")}
    assert [view["writer"] for view in views] == [0, 1]
    assert all(view["topics"] == [topic] and view["age_seconds"] < 60 for view in views)
    table = run(broker, "list", "--prefix", topic, "--sink", "out")
    assert "Ongoing" in table.output
    for other in (["--sink", "x"], ["--pipeline", "x"], ["--older-than", "1 h"]):
        assert "no transactions" in run(broker, "list", "--prefix", topic, *other).output


def test_a_dry_run_aborts_nothing(broker: KafkaBroker, topic: str, opened: list[str]) -> None:
    said = run(broker, "abort", "--prefix", topic, "--dry-run")
    assert said.exit_code == 0
    assert "would abort 2" in said.output
    assert sorted(open_transactions(broker, topic)) == opened


def test_transactions_are_aborted_after_a_confirmation(
    broker: KafkaBroker, topic: str, opened: list[str]
) -> None:
    refused = run(broker, "abort", "--prefix", topic, input="n\n")
    assert refused.exit_code == 1
    assert sorted(open_transactions(broker, topic)) == opened
    done = run(broker, "abort", "--prefix", topic, "--yes")
    assert (done.exit_code, "aborted 2" in done.output) == (0, True), done.output
    assert open_transactions(broker, topic) == []
    assert read_committed(broker, topic) == []


def test_a_transaction_is_committed_by_its_id(
    broker: KafkaBroker, topic: str, opened: list[str]
) -> None:
    done = run(broker, "commit", opened[0], "--yes")
    assert (done.exit_code, "committed 1" in done.output) == (0, True), done.output
    assert run(broker, "abort", opened[1], "-y").exit_code == 0
    assert read_committed(broker, topic) == [opened[0].encode()]
    again = run(broker, "commit", opened[0], "--yes")
    assert again.exit_code == 2
    assert opened[0] in again.output


def test_aborting_the_transactions_of_every_sink_needs_an_explicit_option(
    broker: KafkaBroker,
) -> None:
    refused = run(broker, "abort", "--yes")
    assert refused.exit_code == 2
    assert "every sink" in refused.output


def test_properties_are_read_from_a_file_and_never_shown(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# comment\nrequest.timeout.ms=20000\n\n")
    given = run(broker, "list", "--command-config", str(file), "--prefix", "nobody")
    assert given.exit_code == 0, given.output
    file.write_text("canary-77\n")
    refused = run(broker, "list", "--command-config", str(file))
    assert refused.exit_code == 2
    assert "canary" not in refused.output
