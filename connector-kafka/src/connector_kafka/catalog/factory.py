# SPDX-License-Identifier: Apache-2.0
"""Creates catalogs from options."""

from __future__ import annotations

from collections.abc import Mapping

from connector_kafka.catalog.kafka_catalog import KafkaCatalog
from connector_kafka.catalog.options import KafkaCatalogOptions
from connector_kafka.client.options import ClientOptions
from connector_kafka.table_factory import KafkaTableFactory
from connectors_core.catalog import CatalogFactory

__all__ = ["KafkaCatalogFactory"]


class KafkaCatalogFactory(CatalogFactory):
    """Catalogs of the type `kafka`."""

    identifier = "kafka"

    def is_secret(self, key: str) -> bool:
        """See `CatalogFactory`."""
        if key in ClientOptions.OPTIONS:
            return KafkaTableFactory().is_secret(key)
        return KafkaCatalogOptions.OPTIONS.is_secret(key)

    def create_catalog(self, name: str, options: Mapping[str, str]) -> KafkaCatalog:
        """See `CatalogFactory`."""
        return KafkaCatalog(name, options)
