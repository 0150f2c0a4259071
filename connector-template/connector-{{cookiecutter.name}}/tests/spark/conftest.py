# SPDX-License-Identifier: Apache-2.0
"""One Spark session for all tests that need one."""

from connectors_core.testing.spark_session import spark

__all__ = ["spark"]
