# SPDX-License-Identifier: Apache-2.0
"""The suites of the core, on Spark: what every connector keeps to."""

from __future__ import annotations

from log_suites import LogSinkSuite


class TestElasticsearchSinkOnSpark(LogSinkSuite):
    on_spark = True
