# SPDX-License-Identifier: Apache-2.0
"""Tests the lists of jars."""

import pytest

from connector_kafka.testing import jars
from connectors_core.errors import ConfigurationError

NAMES = ["kafka-3.9.2", "kafka-4.3.1", "spark-sql-kafka-0-10_2.12-3.5.7"]


def test_the_error_of_an_unknown_list_names_the_existing_lists() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka-3\.9\.2.*kafka-4\.3\.1"):
        jars.class_path("kafka-1.0.0")


@pytest.mark.parametrize("name", NAMES)
def test_every_jar_is_pinned_once_by_a_digest(name: str) -> None:
    found = jars.pinned_jars(name).artifacts
    assert {len(jar.sha256) for jar in found} == {64}
    assert len({jar.file_name for jar in found}) == len(found)
