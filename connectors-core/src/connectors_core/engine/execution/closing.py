# SPDX-License-Identifier: Apache-2.0
"""Closes parts of a connector without hiding the error that ended their use."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

_LOGGER: Final = logging.getLogger(__name__)


class _Closeable(Protocol):
    def close(self) -> None: ...


_C = TypeVar("_C", bound=_Closeable)


@contextmanager
def closed_after(part: _C) -> Iterator[_C]:
    """Close a part at the end of the context; see `close_after_error`. Driver and executor.

    Args:
        part: A reader, writer, or committer.
    """
    try:
        yield part
    except BaseException:
        close_after_error(part)
        raise
    part.close()


def close_after_error(part: _Closeable) -> None:
    """Close a part whose use an error has ended; log an error of ``close``. Driver and executor.

    A connection that has failed often cannot be closed either. The first error says why, and
    decides whether another attempt helps.

    Args:
        part: A reader, writer, or committer.
    """
    try:
        part.close()
    except Exception:
        name = type(part).__name__
        _LOGGER.warning("%s could not be closed after an error", name, exc_info=True)
