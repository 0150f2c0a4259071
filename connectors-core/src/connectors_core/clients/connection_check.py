# SPDX-License-Identifier: Apache-2.0
"""The ability of sources, sinks, and lookup tables to check their connection."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["SupportsConnectionCheck"]


class SupportsConnectionCheck(ABC):
    """Ability of a source, sink, or lookup table: checks that its system responds.

    A pipeline calls it first, so that a wrong address fails within seconds and not after the
    retries of the first request. Without this ability, the pipeline checks nothing.
    """

    @abstractmethod
    def check_connection(self, timeout: float) -> None:
        """Return when the system has responded. Driver.

        The pipeline calls it on a separate thread at every start, before it takes its lease. A
        response of one server is enough, and a denied permission is also a response. Do not retry,
        create anything, or read data.

        Args:
            timeout: Seconds within which it must return or raise an error.

        Raises:
            ConnectorError: There is no response; names the address and the cause.
        """
