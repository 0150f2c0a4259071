# SPDX-License-Identifier: Apache-2.0
"""The source of streams whose topics move between clusters (Flink's FLIP-246)."""

from connector_kafka.dynamic.enumerator import ClusterState, DynamicKafkaState
from connector_kafka.dynamic.metadata import ClusterMetadata, KafkaMetadataService, KafkaStream
from connector_kafka.dynamic.options import RemovedTopicsPolicy
from connector_kafka.dynamic.services import FileMetadataService, SingleClusterMetadataService
from connector_kafka.dynamic.source import DYNAMIC_KAFKA_SOURCE_OPTIONS, DynamicKafkaSource
from connector_kafka.dynamic.split import DynamicKafkaSplit

__all__ = [
    "DYNAMIC_KAFKA_SOURCE_OPTIONS",
    "ClusterMetadata",
    "ClusterState",
    "DynamicKafkaSource",
    "DynamicKafkaSplit",
    "DynamicKafkaState",
    "FileMetadataService",
    "KafkaMetadataService",
    "KafkaStream",
    "RemovedTopicsPolicy",
    "SingleClusterMetadataService",
]
