# SPDX-License-Identifier: Apache-2.0
"""The Kafka sink, exactly once by transactions (Flink's KafkaSink)."""

from connector_kafka.sink.changelog import UpsertMode
from connector_kafka.sink.committable import KafkaCommittable
from connector_kafka.sink.kafka_sink import KAFKA_SINK_OPTIONS, KafkaSink
from connector_kafka.sink.partitioners import KafkaPartitioner, RecordPartitioner
from connector_kafka.sink.record_serialization import KafkaRecordSerializationSchema, ValueFields

__all__ = [
    "KAFKA_SINK_OPTIONS",
    "KafkaCommittable",
    "KafkaPartitioner",
    "KafkaRecordSerializationSchema",
    "KafkaSink",
    "RecordPartitioner",
    "UpsertMode",
    "ValueFields",
]
