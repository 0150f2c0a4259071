# SPDX-License-Identifier: Apache-2.0
"""The suites of the core, in this process: what every connector keeps to."""

from __future__ import annotations

from log_suites import LogSinkSuite


class TestElasticsearchSink(LogSinkSuite):
    pass
