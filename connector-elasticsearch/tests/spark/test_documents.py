# SPDX-License-Identifier: Apache-2.0
"""Tests that the source reads documents like the server itself, or reports bad records."""

from __future__ import annotations

import itertools

import pytest
from documents_as_the_server_reads_them import Index, differences, indices
from hypothesis import HealthCheck, Phase, given, settings

from connector_elasticsearch.testing import ElasticsearchServer

pytestmark = pytest.mark.line("4.3")  # these tests use the newer client, but not Spark

_numbers = itertools.count()
_HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


def check(server: ElasticsearchServer, index: Index) -> None:
    found = differences(server, f"documents-{next(_numbers)}", index)
    assert not found, "\n".join(found)


@settings(
    max_examples=8,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=_HEALTH,
)
@given(index=indices(documents=25))
def test_documents_are_read_as_the_server_reads_them(
    server: ElasticsearchServer, index: Index
) -> None:
    check(server, index)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=400, suppress_health_check=_HEALTH)
@given(index=indices(documents=25))
def test_random_documents_are_read_as_the_server_reads_them(
    server: ElasticsearchServer, index: Index
) -> None:
    check(server, index)
