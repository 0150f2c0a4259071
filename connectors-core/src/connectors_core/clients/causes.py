# SPDX-License-Identifier: Apache-2.0
"""What an error of a client library comes from."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["causes_of"]


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error and what it comes from, the nearest first.

    An error that is an argument of another counts too: clients wrap the errors of sockets so.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        wrapped = next((each for each in error.args if isinstance(each, BaseException)), None)
        error = wrapped or error.__cause__ or error.__context__
