# SPDX-License-Identifier: Apache-2.0
"""Tests how each part answers to the options of elasticsearch-hadoop."""

from __future__ import annotations

import pytest

from connector_elasticsearch import ElasticsearchSink, ElasticsearchSource, ElasticsearchTable
from connectors_core import UnknownOptionError

HERE = {"hosts": "http://127.0.0.1:9200", "index": "flights"}


@pytest.mark.parametrize("part", [ElasticsearchSource, ElasticsearchSink, ElasticsearchTable])
def test_every_part_explains_where_the_port_belongs(part):
    with pytest.raises(UnknownOptionError, match="give the port in 'hosts'"):
        part.from_options(HERE | {"es.port": "9200"})


@pytest.mark.parametrize(
    ("part", "key", "instead"),
    [
        (ElasticsearchSource, "es.input.max.docs.per.partition", "source.slices"),
        (ElasticsearchSource, "es.read.field.exclude", "fields"),
        (ElasticsearchTable, "es.read.field.exclude", "fields"),
        (ElasticsearchSink, "es.mapping.id.field", "document-id.columns"),
        (ElasticsearchSink, "es.batch.write.retry.count", "sink.bulk-flush.backoff.timeout"),
    ],
)
def test_an_option_is_refused_with_the_one_that_replaces_it(part, key, instead):
    assert instead in [option.key for option in part.OPTIONS]
    with pytest.raises(UnknownOptionError, match=f"'{instead}'"):
        part.from_options(HERE | {key: "1"})


@pytest.mark.parametrize(
    ("part", "key", "instead"),
    [
        (ElasticsearchTable, "es.input.max.docs.per.partition", "source.slices"),
        (ElasticsearchSource, "es.batch.write.retry.count", "sink.bulk-flush"),
        (ElasticsearchTable, "es.mapping.id.field", "document-id"),
    ],
)
def test_no_part_suggests_an_option_of_another_part(part, key, instead):
    with pytest.raises(UnknownOptionError) as refused:
        part.from_options(HERE | {key: "1"})
    assert instead not in str(refused.value)
