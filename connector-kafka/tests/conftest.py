# SPDX-License-Identifier: Apache-2.0
"""The shared tools of the tests: one broker with a faulty network, and helper modules."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from connector_kafka.testing import KafkaBroker, KafkaProxy

sys.path.insert(0, str(Path(__file__).parent))

# How long an example takes says nothing on a busy machine.
settings.register_profile("connector", deadline=None)
settings.load_profile("connector")


@pytest.fixture(scope="session")
def network() -> Iterator[KafkaProxy]:
    """Stands in front of the broker of the run; tests take `proxy`."""
    with KafkaProxy() as proxy:
        yield proxy


@pytest.fixture(scope="session")
def broker(network: KafkaProxy) -> Iterator[KafkaBroker]:
    """The broker of the run. Topics are named after their test; who stops it starts it again."""
    with KafkaBroker(proxy=network) as broker:
        yield broker


@pytest.fixture
def proxy(broker: KafkaBroker, network: KafkaProxy) -> Iterator[KafkaProxy]:
    """A network in front of the broker that this test may spoil."""
    yield network
    network.restore()


@pytest.fixture
def topic(broker: KafkaBroker, request: pytest.FixtureRequest) -> str:
    """A new topic of one partition, named after the test."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    return broker.topics.create(name)
