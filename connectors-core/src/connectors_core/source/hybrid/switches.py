# SPDX-License-Identifier: Apache-2.0
"""What passes from a source that has ended to the next one of a chain (Flink's FLIP-150)."""

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
    """All that is recorded of a switch: the next source is made from this and from nothing else.

    Attributes:
        max_event_time: Highest event time so far, microseconds since the epoch; None: not known.
        info: What the enumerator that ended had to say.
    """

    max_event_time: int | None = None
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SourceSwitchContext:
    """What the source that has ended knows, for the factory of the next one.

    The factory runs on the driver and in tasks, and again after a restart, always with the same
    context: that of the plan in which the switch was recorded. What it makes must follow from the
    context alone.

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
            ConfigurationError: It is not known.
        """
        micros = self.switch.max_event_time
        if micros is None:
            raise ConfigurationError(
                "the last event time before the switch is unknown",
                expected="a streaming pipeline with a watermark strategy that uses event times",
                hint="pass watermark_strategy= to from_source(), and stream; or create the next "
                "source from something else, such as the info of the switch",
            )
        return _EPOCH + timedelta(microseconds=micros)

    @property
    def info(self) -> Mapping[str, Any]:
        """What the enumerator that ended gave as :meth:`SupportsSwitchInfo.switch_info`."""
        return self.switch.info


class SupportsSwitchInfo(ABC):
    """Ability of an enumerator that knows something the source after it should start from."""

    @abstractmethod
    def switch_info(self) -> Mapping[str, Any]:
        """Plain JSON values, no secrets: they are recorded. Called when all its splits are read."""


class SwitchesSources(ABC):
    """Ability of an enumerator that stands for several sources, one after another.

    The coordinator knows when all splits are read; so it is the one who says when to switch, right
    before a plan, and stores that plan with a snapshot.
    """

    @property
    @abstractmethod
    def has_next(self) -> bool:
        """Whether another source follows."""

    @abstractmethod
    def switch(self, max_event_time: int | None) -> None:
        """Go on to the next source: all readers know that there are no more splits, all are read.

        Args:
            max_event_time: Highest event time so far in microseconds; None where it is not known.
        """
