# SPDX-License-Identifier: Apache-2.0
"""Validators for the values of options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from connectors_core.options.types import format_duration

__all__ = ["Bound", "at_least", "between", "not_empty", "positive"]


@dataclass(frozen=True)
class Bound:
    """A validator that tables of options can show.

    Args:
        text: The bound as tables show it after the type, e.g. `at least 1`.
        holds: Whether a value is within the bound.
        expected: The description of a valid value in errors; by default `text`.
    """

    text: str
    holds: Callable[[Any], bool]
    expected: str = ""

    def __call__(self, value: Any) -> str | None:
        """Return None, or a description of the expected value."""
        return None if self.holds(value) else self.expected or self.text


def at_least(minimum: Any) -> Bound:
    """Validator: the value must not be below `minimum`."""
    return Bound(f"at least {_text(minimum)}", lambda value: bool(value >= minimum))


def between(minimum: Any, maximum: Any) -> Bound:
    """Validator: the value must not be below `minimum` or above `maximum`."""
    text = f"{_text(minimum)} to {_text(maximum)}"
    return Bound(text, lambda value: bool(minimum <= value <= maximum))


def _text(value: Any) -> str:
    return format_duration(value) if isinstance(value, timedelta) else str(value)


def _is_positive(value: Any) -> bool:
    return bool(value > type(value)(0))


positive: Final = Bound("above 0", _is_positive, "a value above zero")
"""Validator: the number or duration must be above zero."""
not_empty: Final = Bound("not empty", bool, "a value that is not empty")
"""Validator: the text, list, or map must not be empty."""
