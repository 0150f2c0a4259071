# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites on Spark."""

from __future__ import annotations

import stream_suites


class TestRedisSourceOnSpark(stream_suites.StreamSourceSuite):
    on_spark = True


class TestRedisSourceAsFormat(stream_suites.StreamSourceFormatSuite):
    pass


class TestRedisSinkOnSpark(stream_suites.StreamSinkSuite):
    on_spark = True


class TestRedisSinkAsFormat(stream_suites.StreamSinkFormatSuite):
    pass
