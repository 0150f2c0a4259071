# SPDX-License-Identifier: Apache-2.0
"""A real Kafka for tests and examples, and what makes it fail.

Needs Java 17; the jars of Kafka are fetched once into the user's cache.
"""

from connector_kafka.testing.broker import KafkaBroker
from connector_kafka.testing.errors import BrokerError
from connector_kafka.testing.proxy import KafkaProxy
from connector_kafka.testing.security import BrokerSecurity
from connectors_core.testing.servers import Authority

__all__ = ["Authority", "BrokerError", "BrokerSecurity", "KafkaBroker", "KafkaProxy"]
