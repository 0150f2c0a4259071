# SPDX-License-Identifier: Apache-2.0
"""Keeps passwords out of kafka-python's logs."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["keep_logins_out_of_logs"]

# At DEBUG, these loggers log requests, also as bytes. Login requests contain the password.
_LOGGERS: Final = ("kafka.net.connection", "kafka.protocol.parser")
_HIDDEN: Final = "(not shown)"


class _LoginFilter(logging.Filter):
    """Replaces logins in the arguments of a log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass every record through, without logins."""
        if isinstance(record.args, tuple):
            record.args = tuple(_HIDDEN if _may_be_login(each) else each for each in record.args)
        return True


def _may_be_login(value: object) -> bool:
    return isinstance(value, (bytes, bytearray, memoryview)) or (
        type(value).__name__.startswith("Sasl")
    )


_filter: Final = _LoginFilter()


def keep_logins_out_of_logs() -> None:
    """Install the filter. Repeated calls have no effect."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_filter)
