# SPDX-License-Identifier: Apache-2.0
"""A cluster as a catalog for SQL: its topics are tables."""

from connector_kafka.catalog.factory import KafkaCatalogFactory
from connector_kafka.catalog.inference import InferenceReport, InferredTable
from connector_kafka.catalog.kafka_catalog import KafkaCatalog
from connector_kafka.catalog.options import KafkaCatalogOptions, TopicOptions

__all__ = [
    "InferenceReport",
    "InferredTable",
    "KafkaCatalog",
    "KafkaCatalogFactory",
    "KafkaCatalogOptions",
    "TopicOptions",
]
