# SPDX-License-Identifier: Apache-2.0
"""Building blocks for the clients of external systems."""

from __future__ import annotations

from connectors_core.clients.causes import causes_of
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.clients.event_loop import submit
from connectors_core.clients.native_libraries import error_of_opening
from connectors_core.clients.retries import RetryLog, RetryPolicy

__all__ = [
    "RetryLog",
    "RetryPolicy",
    "SupportsConnectionCheck",
    "causes_of",
    "error_of_opening",
    "submit",
]
