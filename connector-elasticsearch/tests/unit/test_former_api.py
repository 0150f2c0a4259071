# SPDX-License-Identifier: Apache-2.0
"""Tests that what 3.0 has renamed or removed fails with an error that names the new form."""

from __future__ import annotations

import importlib

import pytest

from connector_elasticsearch import ElasticsearchSink, ElasticsearchTable
from connectors_core.errors import UnknownOptionError

SERVER = "http://host:9200"


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("MetadataColumn", "DocumentMetadata"),
        ("SINK_OPTIONS", "ELASTICSEARCH_SINK_OPTIONS"),
        ("SOURCE_OPTIONS", "ELASTICSEARCH_SOURCE_OPTIONS"),
        ("TABLE_OPTIONS", "ELASTICSEARCH_TABLE_OPTIONS"),
    ],
)
def test_a_former_name_names_the_new_one(name: str, instead: str) -> None:
    with pytest.raises(ImportError, match=f"use {instead}"):
        getattr(importlib.import_module("connector_elasticsearch"), name)


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("pipeline", "ingest-pipeline"),
        ("sink.bulk-flush.max-in-flight-actions", "sink.bulk-flush.max-in-flight-requests"),
    ],
)
def test_a_former_key_names_the_new_one(key: str, instead: str) -> None:
    with pytest.raises(UnknownOptionError, match=f"use '{instead}'"):
        ElasticsearchSink.from_options({"hosts": SERVER, "index": "flights", key: "1"})


def test_a_former_keyword_names_the_new_one() -> None:
    with pytest.raises(TypeError, match="use ingest_pipeline"):
        ElasticsearchSink(SERVER, "flights", pipeline="geoip")
    with pytest.raises(TypeError, match="use cache, requests, asynchronous, and reload_trigger"):
        ElasticsearchTable(SERVER, "planes", lookup={"lookup.cache": "PARTIAL"})
