# SPDX-License-Identifier: Apache-2.0
"""Information from an ended source for the next one of a chain (Flink's FLIP-150)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from connectors_core.errors import ConfigurationError
from connectors_core.source.source import AnySource

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Switch:
    """The record of a switch: the only input of the next source.

    Attributes:
        max_event_time: Highest event time so far, microseconds since the epoch; None if
            unknown.
        info: Information from the enumerator of the ended source.
    """

    max_event_time: int | None = None
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SourceSwitchContext:
    """Information about the ended source, for the factory of the next one.

    The factory runs on the driver and in tasks, and again after a restart, always with the same
    context: that of the plan in which the switch was recorded. Its result must depend only on the
    context.

    Attributes:
        previous_source: The source that has ended.
        switch: The record.
    """

    previous_source: AnySource
    switch: Switch

    @property
    def max_event_time(self) -> datetime:
        """Highest event time of all rows so far.

        Raises:
            ConfigurationError: It is unknown.
        """
        micros = self.switch.max_event_time
        if micros is None:
            raise ConfigurationError(
                "the last event time before the switch is unknown",
                expected="a streaming pipeline with a watermark strategy that uses event times",
                hint="stream, and pass watermark_strategy= to from_source(); or create the next "
                "source from other information, such as the info of the switch",
            )
        return _EPOCH + timedelta(microseconds=micros)

    @property
    def info(self) -> Mapping[str, Any]:
        """The result of :meth:`SupportsSwitchInfo.switch_info` of the ended enumerator."""
        return self.switch.info


class SupportsSwitchInfo(ABC):
    """Ability of an enumerator that has information for the next source."""

    @abstractmethod
    def switch_info(self) -> Mapping[str, Any]:
        """Return plain JSON without secrets, which is recorded. Called after the last row."""


class SwitchesSources(ABC):
    """Ability of an enumerator that represents several sources, one after another.

    Only the coordinator knows when all splits are read. It therefore triggers the switch,
    immediately before a plan, and stores that plan with a snapshot.
    """

    @property
    @abstractmethod
    def has_next(self) -> bool:
        """Return whether another source follows."""

    @abstractmethod
    def switch(self, max_event_time: int | None) -> None:
        """Switch to the next source: all splits are read, and all readers know this.

        Args:
            max_event_time: Highest event time so far in microseconds; None if unknown.
        """
