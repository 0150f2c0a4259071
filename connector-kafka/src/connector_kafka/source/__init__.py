# SPDX-License-Identifier: Apache-2.0
"""The source of topics."""

from connector_kafka.client.metadata import IsolationLevel
from connector_kafka.source.deserialization import KafkaRecordDeserializationSchema
from connector_kafka.source.enumerator import KafkaEnumeratorState
from connector_kafka.source.kafka_source import KAFKA_SOURCE_OPTIONS, KafkaSource
from connector_kafka.source.offsets import OffsetsInitializer
from connector_kafka.source.options import DataLossPolicy
from connector_kafka.source.split import KafkaPartitionSplit, OffsetsLost, PartitionPaused

__all__ = [
    "KAFKA_SOURCE_OPTIONS",
    "DataLossPolicy",
    "IsolationLevel",
    "KafkaEnumeratorState",
    "KafkaPartitionSplit",
    "KafkaRecordDeserializationSchema",
    "KafkaSource",
    "OffsetsInitializer",
    "OffsetsLost",
    "PartitionPaused",
]
