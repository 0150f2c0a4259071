# SPDX-License-Identifier: Apache-2.0
"""The causes of a client library's errors."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["causes_of"]


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, the nearest first.

    An error in the arguments of another also counts, because clients wrap socket errors this way.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        wrapped = next((each for each in error.args if isinstance(each, BaseException)), None)
        error = wrapped or error.__cause__ or error.__context__
