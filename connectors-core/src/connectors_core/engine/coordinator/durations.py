# SPDX-License-Identifier: Apache-2.0
"""The durations that a pipeline takes, with or without Spark, declared like those of connectors."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from connectors_core.options import DURATION, Option, at_least, optional, positive

TRIGGER_INTERVAL: Final = Option(
    "trigger_interval",
    DURATION,
    validator=at_least(timedelta(0)),
    doc="Minimum time between two micro-batches.",
)
LEASE_EXPIRY: Final = Option(
    "lease_expiry",
    DURATION,
    validator=positive,
    doc="Time without a heartbeat after which another driver of the pipeline counts as dead.",
)
FIRST_FETCH_TIMEOUT: Final = Option(
    "first_fetch_timeout",
    DURATION,
    validator=positive,
    doc="Time in which a plan waits for the first response to each reader, if its splits have no "
    "end.",
)
CONNECTION_TIMEOUT: Final = Option(
    "connection_timeout",
    optional(DURATION),
    validator=positive,
    doc="Time in which systems must respond before the start. None skips the check.",
)
