# SPDX-License-Identifier: Apache-2.0
"""The errors of the broker for tests."""

from __future__ import annotations

from connectors_core.testing.servers import ServerError

__all__ = ["BrokerError"]


class BrokerError(ServerError):
    """The broker for tests, or one of Kafka's tools, failed."""

    code = "KAFKA_TEST_BROKER"
