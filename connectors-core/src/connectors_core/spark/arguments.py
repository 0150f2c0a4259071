# SPDX-License-Identifier: Apache-2.0
"""Checks the types of a pipeline's arguments before anything uses them."""

from __future__ import annotations

from connectors_core.errors import InvalidOptionError
from connectors_core.source.split import ReadLimits


def check_type(argument: str, value: object, kind: type, *, example: str) -> None:
    """Refuse an argument of another type. The error names no value, which may be a secret.

    Args:
        argument: Its name.
        value: Its value; None stands for the default and passes.
        kind: The type that it must have.
        example: A valid value, as code.

    Raises:
        InvalidOptionError: The value has another type.
    """
    if value is not None and not isinstance(value, kind):
        raise InvalidOptionError(
            f"the type of {argument!r} is wrong",
            expected=f"{kind.__name__}, such as {example}",
            found=type(value).__name__,
            option=argument,
        )


def check_limits(limits: ReadLimits | None) -> None:
    """Refuse limits that are not positive numbers.

    Raises:
        InvalidOptionError: A limit is zero, negative, or not a number.
    """
    check_type("limits", limits, ReadLimits, example="ReadLimits(rows=100_000)")
    for name in () if limits is None else ("rows", "bytes", "splits", "seconds"):
        limit = getattr(limits, name)
        if limit is None:
            continue
        whole = name != "seconds"
        if isinstance(limit, bool) or not isinstance(limit, int if whole else int | float):
            found: object = f"{limit!r} ({type(limit).__name__})"
        elif limit > 0:
            continue
        else:
            found = limit
        raise InvalidOptionError(
            f"the limit of {name} is invalid",
            expected=f"{'an integer' if whole else 'a number'} above 0, or None for no limit",
            found=found,
            option=f"limits.{name}",
        )
