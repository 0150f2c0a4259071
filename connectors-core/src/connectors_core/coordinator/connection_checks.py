# SPDX-License-Identifier: Apache-2.0
"""Asks the systems of a pipeline for an answer before anything else happens. Driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final

from connectors_core.connection_check import SupportsConnectionCheck
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    FatalError,
    RetryableError,
)
from connectors_core.spelling import spell

_GRACE_SECONDS: Final = 3.0
"""A check that keeps to its time has this long to make its own error."""


def check_connections(parts: Mapping[str, object], timeout: float) -> None:
    """Ask the systems of all parts that can be asked, at the same time.

    Args:
        parts: Sources, sinks and tables by what they are called, as in ``source 'flights'``; those
            without the ability are passed over.
        timeout: Seconds that each has.

    Raises:
        ConnectorError: A system gave no answer; the first part in order is named.
    """
    checks = [
        _Check(name, part, timeout)
        for name, part in parts.items()
        if isinstance(part, SupportsConnectionCheck)
    ]
    deadline = time.monotonic() + timeout + _GRACE_SECONDS
    for check in checks:
        check.start()
    for check in checks:
        check.join(max(0.0, deadline - time.monotonic()))
        check.raise_error()


class _Check(threading.Thread):
    """One question. A daemon: a client may not keep to its time, and is not waited for."""

    def __init__(self, name: str, part: SupportsConnectionCheck, timeout: float) -> None:
        super().__init__(name=f"connection-check-{name}", daemon=True)
        self._part_name = name
        self._part = part
        self._timeout = timeout
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._part.check_connection(self._timeout)
        except BaseException as error:
            self._error = error

    def raise_error(self) -> None:
        error = self._error
        if error is None:
            if not self.is_alive():
                return
            error = RetryableError(f"there was no answer within {self._timeout:g} s")
        kind: type[ConnectorError] = FatalError
        if isinstance(error, RetryableError):
            kind = RetryableError
        elif isinstance(error, ConfigurationError):
            kind = ConfigurationError
        known = error if isinstance(error, ConnectorError) else None
        wrapped = kind(
            f"{self._part_name} cannot reach its system: {self._part!r}",
            found=_shown(error),
            option=None if known is None else known.option,
            hint=(None if known is None else known.hint)
            or "check the address, and that the system runs and this machine may reach it; "
            "Pipeline(..., connection_timeout=None) starts without asking",
            code="CONNECTION",
        )
        wrapped.__cause__ = error
        spell(wrapped, (self._part,))
        raise wrapped


def _shown(error: BaseException) -> str:
    if isinstance(error, ConnectorError):
        return error.message if error.found is None else f"{error.message}: {error.found}"
    return f"{type(error).__name__}: {error}"
