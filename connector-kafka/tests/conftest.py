# SPDX-License-Identifier: Apache-2.0
"""Fixtures that the tests share: one broker, and a network in front of it that can fail."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from connector_kafka.testing import KafkaBroker, KafkaProxy

sys.path.insert(0, str(Path(__file__).parent))

# On a busy machine, the duration of an example says nothing about the code.
settings.register_profile("connector", deadline=None)
settings.load_profile("connector")


@pytest.fixture(scope="session")
def network() -> Iterator[KafkaProxy]:
    """Start the network in front of the shared broker. Tests use `proxy` instead."""
    with KafkaProxy() as proxy:
        yield proxy


@pytest.fixture(scope="session")
def broker(network: KafkaProxy) -> Iterator[KafkaBroker]:
    """Start the broker that all tests share. A test that stops it must start it again."""
    with KafkaBroker(proxy=network) as broker:
        yield broker


@pytest.fixture
def proxy(broker: KafkaBroker, network: KafkaProxy) -> Iterator[KafkaProxy]:
    """Return the network in front of the broker. The test may break it."""
    yield network
    network.restore()


@pytest.fixture
def topic(broker: KafkaBroker, request: pytest.FixtureRequest) -> str:
    """Create a topic with one partition, and name it after the test."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    return broker.topics.create(name)
