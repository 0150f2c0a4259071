# SPDX-License-Identifier: Apache-2.0
"""Tables and statements on Spark. Driver only."""

from connectors_core.spark.tables.environment import TableEnvironment
from connectors_core.spark.tables.results import TableResult

__all__ = ["TableEnvironment", "TableResult"]
