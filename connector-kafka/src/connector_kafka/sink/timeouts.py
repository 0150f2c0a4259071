# SPDX-License-Identifier: Apache-2.0
"""Whether transactions live long enough for what they have to survive."""

from __future__ import annotations

import logging
from datetime import timedelta

from connectors_core.options import format_duration

__all__ = ["check_timeouts"]

_logger = logging.getLogger(__name__)


def check_timeouts(
    transaction_timeout: timedelta, trigger_interval: float | None, restart_time: timedelta
) -> None:
    """Warn where a restart would find transactions that the broker has aborted; driver, at start.

    It is no error: what was aborted is written again. But that takes time, and until then readers
    miss a part of an epoch.

    Args:
        transaction_timeout: Age at which the broker aborts a transaction.
        trigger_interval: Least seconds between two epochs, as long as an epoch may well take.
        restart_time: Longest time in which a pipeline that failed is started again.
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
