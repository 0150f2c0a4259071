# SPDX-License-Identifier: Apache-2.0
"""The suites of the core for the sink, in this process and on Spark, against a real server."""

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
