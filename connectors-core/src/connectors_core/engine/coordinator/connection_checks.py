# SPDX-License-Identifier: Apache-2.0
"""Checks that the systems and the storage of a pipeline respond, before it starts. Driver."""

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
from connectors_core.options.spelling import spell

_GRACE_SECONDS: Final = 3.0
"""Extra time in which a check that keeps its timeout can raise its own error."""
_HINT: Final = (
    "check the address, that the system is running, and that this machine can reach it; "
    "Pipeline(..., connection_timeout=None), or SET 'execution.connection-timeout' = '0 s' in a "
    "TableEnvironment, skips this check"
)
_HINT_STATE: Final = (
    "check the address, that the storage is available, and that this machine can reach it; "
    "Pipeline(..., connection_timeout=...), or SET 'execution.connection-timeout' in a "
    "TableEnvironment, sets a longer timeout"
)


def check_connections(parts: Mapping[str, object], timeout: float) -> None:
    """Check the connections of all parts that support it, concurrently.

    Args:
        parts: Sources, sinks, and tables by display name, such as ``source 'flights'``. Parts
            without the ability are skipped.
        timeout: Seconds for each part.

    Raises:
        ConnectorError: A system did not respond; names the first such part in order.
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
    """Write a file to the state location and read it back, before anything else needs it.

    Args:
        store: The state location.
        timeout: Timeout in seconds; None uses that of the file system.

    Raises:
        StateLocationError: It cannot be used.
        MissingDependencyError: The package of its file system is not installed.
        RetryableError: It did not respond within the timeout.
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
        raise check.error  # the error already names the location
    check.raise_error()


@dataclass(frozen=True)
class _StateLocation(SupportsConnectionCheck):
    store: StateStore

    def check_connection(self, timeout: float) -> None:
        """Use the file system's client, which may exceed the timeout."""
        self.store.verify()


class _Check(threading.Thread):
    """One check. A daemon thread, because a client may exceed its timeout.

    Args:
        name: Name of the part, for messages.
        part: The part to check.
        timeout: Timeout in seconds.
        failure: Message of the error if there is no response.
        hint: Hint of the error, unless the cause has one.
        option: Key of the option with the address, unless the cause has one.
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
            error = RetryableError(f"no response within {self._timeout:g} s")
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
