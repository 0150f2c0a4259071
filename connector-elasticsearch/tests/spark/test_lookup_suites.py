# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suite for lookup tables against a real server."""

from __future__ import annotations

import pytest
from lookup_suites import ElasticsearchTableSuite


@pytest.mark.line("3.5")  # without Spark
class TestElasticsearchTable(ElasticsearchTableSuite):
    pass


class TestElasticsearchTableOnSpark(ElasticsearchTableSuite):
    on_spark = True
