# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suite for lookup tables against a real server."""

from __future__ import annotations

from table_suites import ElasticsearchTableSuite


class TestElasticsearchTable(ElasticsearchTableSuite):
    pass


class TestElasticsearchTableOnSpark(ElasticsearchTableSuite):
    on_spark = True
