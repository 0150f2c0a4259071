# SPDX-License-Identifier: Apache-2.0
"""Checks Spark's checkpoint location first, since Spark itself retries for minutes. Driver."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError
from connectors_core.secrets import mask_url
from connectors_core.spark.carriers import SparkLog
from connectors_core.spark.failures import short_cause, telling_line


@dataclass(frozen=True, repr=False)
class CheckpointLocation(SupportsConnectionCheck):
    """A folder in a Hadoop file system.

    Args:
        spark: A classic session.
        url: The folder, as passed to Spark.
    """

    spark: SparkSession
    url: str

    def check_connection(self, timeout: float) -> None:
        """List the folder; Hadoop's clients may exceed the timeout.

        Raises:
            ConfigurationError: It cannot be read.
        """
        try:
            SparkLog(self.spark, self.url).has_state()
        except Exception as error:
            raise ConfigurationError(
                "Spark cannot read the folder",
                found=telling_line(error),
                option="checkpoint_location",
            ) from short_cause(error)

    def __repr__(self) -> str:
        return mask_url(self.url)
