# SPDX-License-Identifier: Apache-2.0
"""Acknowledges what a pipeline has read and committed. Driver."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from connectors_core.errors import ConnectorError
from connectors_core.source import SplitEnumeratorContext

__all__ = ["Acknowledgements"]

_logger = logging.getLogger(__name__)


class Acknowledgements:
    """Sends the newest position of each stream, one call after another. Coordinator's thread.

    A failure does not affect the pipeline, because a later position includes the earlier ones.

    Args:
        context: The context of the enumerator.
        acknowledge: Acknowledges all messages before a position of each stream. It can block, and
            ignores positions that are acknowledged already.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[Any],
        acknowledge: Callable[[Mapping[str, int]], None],
    ) -> None:
        self._context = context
        self._acknowledge = acknowledge
        self._newest: dict[str, int] = {}
        self._sending = False

    def send(self, positions: Mapping[str, int]) -> None:
        """Acknowledge these positions after the call in flight."""
        self._newest |= positions
        self._send()

    def close(self) -> None:
        """Acknowledge the last positions now, because pending calls no longer run."""
        try:
            if self._newest:
                self._acknowledge(self._newest)
        except ConnectorError as error:
            _warn(error)

    def _send(self) -> None:
        if self._sending or not self._newest:
            return
        self._sending = True
        positions = dict(self._newest)

        def sent(_: None, error: BaseException | None) -> None:
            self._sending = False
            if error is not None:
                _warn(error)
                return
            self._newest = dict(self._newest.items() - positions.items())
            self._send()

        self._context.call_async(lambda: self._acknowledge(positions), sent)


def _warn(error: BaseException) -> None:
    _logger.warning(
        "messages were not acknowledged; the next acknowledgement includes them", exc_info=error
    )
