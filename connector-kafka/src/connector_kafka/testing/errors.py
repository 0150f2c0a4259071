# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with the broker of the tests."""

from __future__ import annotations

from connectors_core.testing.servers import ServerError

__all__ = ["BrokerError"]


class BrokerError(ServerError):
    """The broker of the tests, or a tool of Kafka, did not do what it was started for."""

    code = "KAFKA_TEST_BROKER"
