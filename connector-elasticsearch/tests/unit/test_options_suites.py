# SPDX-License-Identifier: Apache-2.0
"""Runs the options suite for source, table, and sink, and tests which options they refuse."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from elasticsearch_system import SUITES

from connector_elasticsearch import (
    ELASTICSEARCH_SINK_OPTIONS,
    ELASTICSEARCH_SOURCE_OPTIONS,
    ELASTICSEARCH_TABLE_OPTIONS,
    ElasticsearchConnection,
    ElasticsearchSink,
    ElasticsearchSource,
    ElasticsearchTable,
    Refresh,
    VersionType,
    WriteOperation,
)
from connector_elasticsearch.sink.options import BULK_FLUSH
from connectors_core.errors import ConfigurationError, InvalidOptionError, UnknownOptionError
from connectors_core.sink import AsyncSinkWriterConfiguration
from connectors_core.testing import Capabilities, Capability, OptionsTestSuite

OPTIONS = Capabilities(can=frozenset({Capability.SECRETS}))
VALID = {"hosts": "https://one.example:9200", "index": "flights"}


class OfElasticsearch:
    """Settings that all options suites share."""

    written_for = SUITES
    capabilities = OPTIONS

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return VALID


class TestSourceOptions(OfElasticsearch, OptionsTestSuite):
    factory = ElasticsearchSource
    options = ELASTICSEARCH_SOURCE_OPTIONS


class TestTableOptions(OfElasticsearch, OptionsTestSuite):
    factory = ElasticsearchTable
    options = ELASTICSEARCH_TABLE_OPTIONS


class TestSinkOptions(OfElasticsearch, OptionsTestSuite):
    factory = ElasticsearchSink
    options = ELASTICSEARCH_SINK_OPTIONS


def test_options_build_the_same_sink_as_arguments() -> None:
    made = ElasticsearchSink.from_options(
        {
            **VALID,
            "sink.operation": "index",
            "document-id.columns": "carrier, flight",
            "document-id.key-delimiter": "-",
            "routing.column": "carrier",
            "version.column": "version",
            "version.type": "external",
            "document.exclude-columns": "version",
            "document.ignore-null-fields": "true",
            "ingest-pipeline": "clean",
            "sink.refresh": "wait-for",
            "connection.request-timeout": "30 s",
            "sink.bulk-flush.max-actions": "100",
            "sink.bulk-flush.max-size": "2mb",
            "sink.bulk-flush.interval": "2 s",
            "sink.bulk-flush.max-in-flight-requests": "3",
            "sink.bulk-flush.max-buffered-actions": "1000",
            "sink.bulk-flush.backoff.strategy": "CONSTANT",
            "sink.bulk-flush.backoff.delay": "50 ms",
            "sink.bulk-flush.backoff.timeout": "1 min",
            "sink.delivery-guarantee": "at-least-once",
            "sink.parallelism": "4",
        }
    )
    assert made == ElasticsearchSink(
        ElasticsearchConnection("https://one.example:9200", request_timeout=timedelta(seconds=30)),
        "flights",
        operation=WriteOperation.INDEX,
        id_columns=("carrier", "flight"),
        id_delimiter="-",
        routing_column="carrier",
        version_column="version",
        version_type=VersionType.EXTERNAL,
        exclude_columns=("version",),
        ignore_null_fields=True,
        ingest_pipeline="clean",
        refresh=Refresh.WAIT_FOR,
        bulk_flush=AsyncSinkWriterConfiguration(
            max_batch_size=100,
            max_in_flight_requests=3,
            max_buffered_requests=1000,
            max_batch_size_in_bytes=2 << 20,
            max_record_size_in_bytes=2 << 20,
            max_time_in_buffer=timedelta(seconds=2),
            request_timeout=timedelta(seconds=30),
            retry_timeout=timedelta(minutes=1),
            initial_backoff=timedelta(milliseconds=50),
            max_backoff=timedelta(milliseconds=50),
        ),
        parallelism=4,
    )


def test_a_sink_without_options_has_the_default_bulk_settings() -> None:
    assert ElasticsearchSink.from_options(VALID).bulk_flush == BULK_FLUSH


@pytest.mark.parametrize(
    "key",
    [
        "failure-handler",
        "sink.flush-on-checkpoint",
        "sink.bulk-flush.backoff.max-retries",
        "document-type",
        "Format",
    ],
)
def test_an_unsupported_flink_option_is_refused_with_the_reason(key: str) -> None:
    with pytest.raises(UnknownOptionError) as refused:
        ElasticsearchSink.from_options({**VALID, key: "1"})
    assert refused.value.option == key
    assert refused.value.hint in ELASTICSEARCH_SINK_OPTIONS.elsewhere.values()


def test_a_buffer_that_holds_no_request_is_refused_by_the_keys_of_the_sink() -> None:
    few = {"sink.bulk-flush.max-actions": "100", "sink.bulk-flush.max-buffered-actions": "99"}
    with pytest.raises(InvalidOptionError) as refused:
        ElasticsearchSink.from_options({**VALID, **few})
    assert refused.value.option == "sink.bulk-flush.max-buffered-actions"
    assert refused.value.expected == "at least 100"
    assert "'sink.bulk-flush.max-actions'" in refused.value.message
    assert "sink.requests" not in str(refused.value)
    assert "sink.batch" not in str(refused.value)


@pytest.mark.parametrize("guarantee", ["exactly-once", "none"])
def test_guarantees_other_than_at_least_once_are_refused_with_the_reason(guarantee: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        ElasticsearchSink.from_options({**VALID, "sink.delivery-guarantee": guarantee})
    assert "cannot be rolled back" in (refused.value.expected or "")


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"operation": "update"}, "document-id.columns"),
        ({"operation": "upsert"}, "document-id.columns"),
        ({"version_column": "version"}, "document-id.columns"),
        ({"version_column": "version", "id_columns": ["id"], "operation": "create"},
         "sink.operation"),
        ({"version_column": "version", "id_columns": ["id"], "operation": "upsert"},
         "sink.operation"),
        ({"index": "flights-{now()|yyyy}", "id_columns": ["id"]}, "index"),
    ],
)  # fmt: skip
def test_conflicting_settings_are_refused(settings: dict[str, Any], option: str) -> None:
    given = {"index": "flights"} | settings
    with pytest.raises(ConfigurationError) as refused:
        ElasticsearchSink("https://one.example:9200", **given)
    assert refused.value.option == option
