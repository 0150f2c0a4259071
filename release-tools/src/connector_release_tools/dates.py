# SPDX-License-Identifier: Apache-2.0
"""The date and the time of a record, the same in every time zone."""

from __future__ import annotations

import datetime

__all__ = ["now", "today"]


def today() -> datetime.date:
    """Return the current date in UTC."""
    return now().date()


def now() -> datetime.datetime:
    """Return the current time in UTC, in whole seconds."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)
