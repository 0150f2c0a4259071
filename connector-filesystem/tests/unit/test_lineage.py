# SPDX-License-Identifier: Apache-2.0
"""Tests the names of files in lineage."""

from __future__ import annotations

import pytest

from connector_filesystem import FileSink, FileSource, FileTable
from connectors_core.lineage import LineageDataset
from connectors_core.source import HybridSource

SCHEMA = "a BIGINT"


def named(namespace, name):
    return (LineageDataset(namespace=namespace, name=name),)


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("/data/in", "file", "/data/in"),
        ("file:///data/in/", "file", "/data/in"),
        ("/data/*/2024-*.csv", "file", "/data"),
        ("/*.csv", "file", "/"),
        ("s3://lake/late/day=1", "s3://lake", "late/day=1"),
        ("s3a://lake/late/*.parquet", "s3://lake", "late"),
        ("s3://lake", "s3://lake", "/"),
        ("gs://lake/late", "gs://lake", "late"),
        ("hdfs://user@name:8020/late", "hdfs://name:8020", "/late"),
        (
            "abfss://box@account.dfs.core.windows.net/late",
            "abfss://box@account.dfs.core.windows.net",
            "/late",
        ),
        ("https://user@host/late.csv", "https://host", "/late.csv"),
    ],
)
def test_a_dataset_is_named_as_in_openlineage(path, namespace, name):
    source = FileSource(path, format="csv", schema=SCHEMA)
    assert source.lineage_datasets() == named(namespace, name)


def test_tables_and_hybrid_sources_name_the_datasets_of_their_sources():
    one = FileSource("/one", format="csv", schema=SCHEMA)
    two = FileSource("/two", format="csv", schema=SCHEMA)
    both = HybridSource.builder(one).add_source(two).build()
    assert both.lineage_datasets() == named("file", "/one") + named("file", "/two")
    assert FileTable(one).lineage_datasets() == named("file", "/one")


def test_a_sink_names_its_folder():
    assert FileSink("/data/late").lineage_datasets() == named("file", "/data/late")
