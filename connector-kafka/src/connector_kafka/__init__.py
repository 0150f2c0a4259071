# SPDX-License-Identifier: Apache-2.0
"""An Apache Kafka source and an exactly-once sink."""

from connector_kafka.dynamic import (
    DYNAMIC_KAFKA_SOURCE_OPTIONS,
    ClusterMetadata,
    DynamicKafkaSource,
    DynamicKafkaSplit,
    FileMetadataService,
    KafkaMetadataService,
    KafkaStream,
    RemovedTopicsPolicy,
    SingleClusterMetadataService,
)
from connector_kafka.errors import (
    CorruptRecordsError,
    KafkaAuthenticationError,
    KafkaAuthorizationError,
    KafkaFatalError,
    KafkaRequestError,
    KafkaRetryableError,
)
from connector_kafka.sink import (
    KAFKA_SINK_OPTIONS,
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaSink,
    RecordPartitioner,
    UpsertMode,
    ValueFields,
)
from connector_kafka.source import (
    KAFKA_SOURCE_OPTIONS,
    DataLossPolicy,
    IsolationLevel,
    KafkaPartitionSplit,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    OffsetsInitializer,
    OffsetsLost,
)
from connectors_core.compatibility import check_spark

__all__ = [
    "DYNAMIC_KAFKA_SOURCE_OPTIONS",
    "KAFKA_SINK_OPTIONS",
    "KAFKA_SOURCE_OPTIONS",
    "ClusterMetadata",
    "CorruptRecordsError",
    "DataLossPolicy",
    "DynamicKafkaSource",
    "DynamicKafkaSplit",
    "FileMetadataService",
    "IsolationLevel",
    "KafkaAuthenticationError",
    "KafkaAuthorizationError",
    "KafkaFatalError",
    "KafkaMetadataService",
    "KafkaPartitionSplit",
    "KafkaPartitioner",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRequestError",
    "KafkaRetryableError",
    "KafkaSink",
    "KafkaSource",
    "KafkaStream",
    "OffsetsInitializer",
    "OffsetsLost",
    "RecordPartitioner",
    "RemovedTopicsPolicy",
    "SingleClusterMetadataService",
    "UpsertMode",
    "ValueFields",
]

check_spark("connector-kafka")
