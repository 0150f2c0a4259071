# SPDX-License-Identifier: Apache-2.0
"""Tests the options of the session that are not only passed on."""

from __future__ import annotations

from datetime import timedelta

import pytest

from connectors_core.spark.tables.session_options import SessionOptions


@pytest.mark.parametrize(
    ("given", "timeout"),
    [
        ({}, timedelta(seconds=10)),
        ({"execution.connection-timeout": "1 min"}, timedelta(minutes=1)),
        ({"execution.connection-timeout": "0 s"}, None),
    ],
)
def test_a_connection_timeout_of_zero_skips_the_check(given, timeout):
    assert SessionOptions.from_options(given).connection_timeout == timeout
