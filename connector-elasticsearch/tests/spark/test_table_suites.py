# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites for tables, changelogs, and catalogs against a real server."""

from __future__ import annotations

import pytest
from elasticsearch_table_suites import (
    ElasticsearchCatalogSuite,
    ElasticsearchChangelogSuite,
    ElasticsearchTableSuite,
    OnElasticsearch,
)


class TestElasticsearchTablesOnSpark(OnElasticsearch, ElasticsearchTableSuite):
    on_spark = True


@pytest.mark.line("3.5")  # without Spark
class TestElasticsearchChangelogs(ElasticsearchChangelogSuite):
    pass


@pytest.mark.line("3.5")  # without Spark
class TestElasticsearchCatalog(ElasticsearchCatalogSuite):
    pass
