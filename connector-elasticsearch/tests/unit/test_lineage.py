# SPDX-License-Identifier: Apache-2.0
"""Tests the names of indices in lineage."""

from __future__ import annotations

import pytest

from connector_elasticsearch import ElasticsearchSink, ElasticsearchSource, ElasticsearchTable
from connectors_core.lineage import LineageDataset

NAMED = (LineageDataset(namespace="elasticsearch://one:9200", name="flights"),)


@pytest.mark.parametrize("kind", [ElasticsearchSource, ElasticsearchTable, ElasticsearchSink])
def test_an_index_is_named_by_the_first_host_without_its_user(kind):
    hosts = ["https://one:9200/prefix", "https://two:9200"]
    assert kind(hosts, index="flights").lineage_datasets() == NAMED


def test_a_deployment_in_the_cloud_is_named_by_its_name():
    sink = ElasticsearchSink.from_options(
        {"cloud-id": "prod:ZXhhbXBsZSRhYmMkZGVm", "index": "flights"}
    )
    (dataset,) = sink.lineage_datasets()
    assert dataset.namespace == "elasticsearch://prod"
