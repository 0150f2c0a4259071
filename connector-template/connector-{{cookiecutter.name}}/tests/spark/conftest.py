# SPDX-License-Identifier: Apache-2.0
"""One Spark session for all tests that need one."""

from connectors_core.testing.spark_session import spark, spark_environment

__all__ = ["spark", "spark_environment"]
