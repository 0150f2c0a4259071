# SPDX-License-Identifier: Apache-2.0
"""A real Kafka for tests and examples, and tools that make it fail.

It needs Java 17. Kafka's jars are downloaded once to the user's cache.
"""

from connector_kafka.testing.broker import KafkaBroker
from connector_kafka.testing.errors import BrokerError
from connector_kafka.testing.proxy import KafkaProxy
from connector_kafka.testing.security import BrokerSecurity
from connectors_core.testing.servers import Authority

__all__ = ["Authority", "BrokerError", "BrokerSecurity", "KafkaBroker", "KafkaProxy"]
