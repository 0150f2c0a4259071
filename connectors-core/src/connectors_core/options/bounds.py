# SPDX-License-Identifier: Apache-2.0
"""Bounds that the values of options keep."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

__all__ = ["at_least", "not_empty", "positive"]


def positive(value: Any) -> str | None:
    """Validator: the number or duration must be above zero."""
    zero: Any = timedelta(0) if isinstance(value, timedelta) else 0
    return None if value > zero else "a value above zero"


def at_least(minimum: Any) -> Callable[[Any], str | None]:
    """Validator: the value must not be below `minimum`."""

    def validate(value: Any) -> str | None:
        return None if value >= minimum else f"at least {minimum}"

    return validate


def not_empty(value: Any) -> str | None:
    """Validator: the text, list or map must hold something."""
    return None if value else "a value that is not empty"
