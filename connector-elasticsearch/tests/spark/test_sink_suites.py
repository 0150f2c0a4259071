# SPDX-License-Identifier: Apache-2.0
"""Runs the core's sink suites against a real server, in this process and on Spark."""

from __future__ import annotations

import pytest
from elasticsearch_sink_suites import (
    AutomaticIdSuite,
    AutomaticIdWriterSuite,
    IdSuite,
    IdWriterSuite,
)


@pytest.mark.line("4.3")
class TestAutomaticIds(AutomaticIdSuite):
    pass


@pytest.mark.line("4.3")
@pytest.mark.slow
class TestIds(IdSuite):
    pass


class TestIdsOnSpark(IdSuite):
    on_spark = True


class TestAutomaticIdWriter(AutomaticIdWriterSuite):
    pass


class TestIdWriter(IdWriterSuite):
    pass
