# SPDX-License-Identifier: Apache-2.0
"""The time zones of folder and file names."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from connectors_core.errors import InvalidOptionError

__all__ = ["check_time_zone"]


def check_time_zone(name: str, option: str) -> None:
    """Refuse the name of a time zone that does not exist.

    Args:
        name: The name.
        option: The option with the name.

    Raises:
        InvalidOptionError: There is no such time zone.
    """
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as exc:
        raise InvalidOptionError(
            "the time zone is unknown",
            expected="a name such as 'UTC' or 'Europe/Berlin'",
            found=name,
            option=option,
        ) from exc
