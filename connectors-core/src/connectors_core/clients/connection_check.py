# SPDX-License-Identifier: Apache-2.0
"""The ability of sources, sinks and lookup tables to say whether their system can be reached."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["SupportsConnectionCheck"]


class SupportsConnectionCheck(ABC):
    """Ability of a source, a sink or a lookup table: asks its system for an answer.

    A pipeline calls it before anything else, so that a wrong address fails within seconds and not
    after the retries of the first request. Without this ability nothing is checked.
    """

    @abstractmethod
    def check_connection(self, timeout: float) -> None:
        """Return when the system has answered, whatever it has answered about data. Driver.

        Called on a thread of its own, before the pipeline takes its lease, with every start. One
        server of several is enough. Does not retry, creates nothing and reads no data; a missing
        right to ask is an answer too.

        Args:
            timeout: Seconds until it must have returned or raised.

        Raises:
            ConnectorError: There is no answer; names the address and the cause.
        """
