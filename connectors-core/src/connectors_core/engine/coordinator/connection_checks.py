# SPDX-License-Identifier: Apache-2.0
"""Asks the systems and the storage of a pipeline for an answer before all else. Driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.engine.state import StateStore
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    FatalError,
    RetryableError,
)
from connectors_core.spelling import spell

_GRACE_SECONDS: Final = 3.0
"""A check that keeps to its time has this long to make its own error."""
_HINT: Final = (
    "check the address, and that the system runs and this machine may reach it; "
    "Pipeline(..., connection_timeout=None) starts without asking"
)
_HINT_STATE: Final = (
    "check the address, and that the storage runs and this machine may reach it; "
    "Pipeline(..., connection_timeout=...) gives it more time"
)


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
        _Check(name, part, timeout, failure=f"{name} cannot reach its system: {part!r}", hint=_HINT)
        for name, part in parts.items()
        if isinstance(part, SupportsConnectionCheck)
    ]
    deadline = time.monotonic() + timeout + _GRACE_SECONDS
    for check in checks:
        check.start()
    for check in checks:
        check.join(max(0.0, deadline - time.monotonic()))
        check.raise_error()


def check_state_location(store: StateStore, timeout: float | None) -> None:
    """Write to the state location and read that back, before anything else needs it.

    Args:
        store: The state location.
        timeout: Seconds that it has; None waits as long as its file system does.

    Raises:
        StateLocationError: It cannot be used.
        MissingDependencyError: The package of its file system is not installed.
        RetryableError: It gave no answer within the time-out.
    """
    if timeout is None:
        store.verify()
        return
    check = _Check(
        "the state location",
        _StateLocation(store),
        timeout,
        failure=f"the state location {store} cannot be reached",
        hint=_HINT_STATE,
        option="state_location",
    )
    check.start()
    check.join(timeout)
    if isinstance(check.error, ConfigurationError):
        raise check.error  # it names the location itself
    check.raise_error()


@dataclass(frozen=True)
class _StateLocation(SupportsConnectionCheck):
    store: StateStore

    def check_connection(self, timeout: float) -> None:
        """Do what a client of the file system does; it may not keep to the time."""
        self.store.verify()


class _Check(threading.Thread):
    """One question. A daemon: a client may not keep to its time, and is not waited for.

    Args:
        name: Name of the part, for messages.
        part: The part that makes the check.
        timeout: Seconds that it has.
        failure: The sentence that says that there is no answer.
        hint: The remedy, unless the cause names one.
        option: Key of the option with the address, unless the cause names one.
    """

    def __init__(
        self,
        name: str,
        part: SupportsConnectionCheck,
        timeout: float,
        *,
        failure: str,
        hint: str,
        option: str | None = None,
    ) -> None:
        super().__init__(name=f"connection-check-{name}", daemon=True)
        self._part = part
        self._timeout = timeout
        self._failure = failure
        self._hint = hint
        self._option = option
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._part.check_connection(self._timeout)
        except BaseException as error:
            self.error = error

    def raise_error(self) -> None:
        error = self.error
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
            self._failure,
            found=_shown(error),
            option=(None if known is None else known.option) or self._option,
            hint=(None if known is None else known.hint) or self._hint,
            code="CONNECTION",
        )
        wrapped.__cause__ = error
        spell(wrapped, (self._part,))
        raise wrapped


def _shown(error: BaseException) -> str:
    if isinstance(error, ConnectorError):
        return error.message if error.found is None else f"{error.message}: {error.found}"
    return f"{type(error).__name__}: {error}"
