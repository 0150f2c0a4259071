# SPDX-License-Identifier: Apache-2.0
"""Checks whether transactions live long enough for restarts."""

from __future__ import annotations

import logging
from datetime import timedelta

from connectors_core.options import format_duration

__all__ = ["check_timeouts"]

_logger = logging.getLogger(__name__)


def check_timeouts(
    transaction_timeout: timedelta, trigger_interval: float | None, restart_time: timedelta
) -> None:
    """Warn if a restart would find aborted transactions. Driver, at the start.

    It is not an error, because the rows of an aborted transaction are written again. But that takes
    time, and until then readers miss a part of an epoch.

    Args:
        transaction_timeout: The age at which the broker aborts a transaction.
        trigger_interval: The minimum number of seconds between two epochs, and a typical duration
            of an epoch.
        restart_time: The maximum time until a failed pipeline restarts.
    """
    needed = restart_time + timedelta(seconds=trigger_interval or 0.0)
    if transaction_timeout < needed:
        _logger.warning(
            "transactions may expire during a restart: transaction.timeout.ms is %s, but an "
            "epoch and a restart may take %s (trigger interval, sink.restart-time); raise it up "
            "to the broker's transaction.max.timeout.ms",
            format_duration(transaction_timeout),
            format_duration(needed),
        )
