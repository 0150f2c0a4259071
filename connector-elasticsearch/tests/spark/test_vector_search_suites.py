# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suite for vector searches against a real server."""

from __future__ import annotations

import pytest
from vector_search_suites import ElasticsearchVectorSuite


@pytest.mark.line("3.5")  # without Spark
class TestElasticsearchVectors(ElasticsearchVectorSuite):
    pass


class TestElasticsearchVectorsOnSpark(ElasticsearchVectorSuite):
    on_spark = True
