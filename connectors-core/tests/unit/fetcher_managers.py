# SPDX-License-Identifier: Apache-2.0
"""All fetcher managers, for tests that apply to each of them."""

from __future__ import annotations

import pytest

from connectors_core.source.base import (
    SingleThreadMultiplexFetcherManager,
    SingleThreadSequentialFetcherManager,
    ThreadPerSplitFetcherManager,
)

DEADLINE = 10.0
MANAGERS = [
    SingleThreadMultiplexFetcherManager,
    SingleThreadSequentialFetcherManager,
    ThreadPerSplitFetcherManager,
]
every_manager = pytest.mark.parametrize("manager_class", MANAGERS)
