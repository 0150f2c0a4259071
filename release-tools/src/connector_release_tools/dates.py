# SPDX-License-Identifier: Apache-2.0
"""The date of a record, the same in every time zone."""

from __future__ import annotations

import datetime

__all__ = ["today"]


def today() -> datetime.date:
    """Return the current date in UTC."""
    return datetime.datetime.now(datetime.UTC).date()
