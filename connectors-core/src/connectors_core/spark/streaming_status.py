# SPDX-License-Identifier: Apache-2.0
"""The status of a streaming query, from any thread and without blocking it. Driver."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from connectors_core.engine.coordinator.query_coordinator import QueryCoordinator
from connectors_core.engine.coordinator.source_observation import SourceObservation
from connectors_core.engine.query.epochs import EpochRunner
from connectors_core.engine.query.status import (
    QueryStatus,
    SourceStatus,
    source_status,
    spark_watermark,
)

# Maximum wait for the coordinator before the last known status is shown.
_STATUS_SECONDS = 0.25


@dataclass(eq=False, repr=False)
class StreamingStatus:
    """Collects the status from coordinator, epochs, and Spark; caches it for slow responses.

    Args:
        name: Name of the query.
        coordinator: The coordinator of its sources.
        epochs: The epochs of its sinks.
        spark_progress: Returns Spark's own last progress.
    """

    name: str
    _: KW_ONLY
    coordinator: QueryCoordinator
    epochs: EpochRunner[Any]
    spark_progress: Callable[[], Mapping[str, Any] | None]

    def __post_init__(self) -> None:
        self._observed: dict[str, SourceObservation] = {}
        self._answer: threading.Event | None = None
        self._spark_watermark: int | None = None
        self._last: QueryStatus | None = None

    def now(
        self,
        *,
        ended: bool,
        started: bool,
        completed: bool,
        error: BaseException | None,
        batch: int,
    ) -> QueryStatus:
        """Return the current status, or the final one of an ended query.

        Args:
            ended: Whether the query has ended. The caller checks this first, so that the counts of
                an ended query are final.
            started: Whether its coordinator was started.
            completed: Whether all rows are read and written.
            error: Why it failed.
            batch: The last micro-batch, -1 for none.
        """
        if self._last is not None:
            return self._last
        observed = self._observe(started=started, ended=ended)
        with contextlib.suppress(Exception):  # the session may have ended
            self._spark_watermark = spark_watermark(self.spark_progress()) or self._spark_watermark
        status = QueryStatus.of(
            self.name,
            ended=ended,
            completed=completed,
            error=error,
            plan=self.coordinator.newest,
            epoch=self.epochs.last_decided,
            batch=batch,
            spark_watermark=self._spark_watermark,
            sources=(
                source_status(uid, observed[uid]) if uid in observed else SourceStatus(uid=uid)
                for uid in self.coordinator.sources
            ),
            sinks=self.epochs.sink_statuses(),
        )
        if ended:
            self._last = status
        return status

    def _observe(self, *, started: bool, ended: bool) -> Mapping[str, SourceObservation]:
        """Observe all sources at one moment, on the coordinator's thread while it runs."""
        if ended:
            self._look()
        elif started:
            answer = self._answer
            if answer is None or answer.is_set():
                answer = self._answer = threading.Event()

                def answered(answer: threading.Event = answer) -> None:
                    with contextlib.suppress(Exception):  # a status must not stop the coordinator
                        self._look()
                    answer.set()

                self.coordinator.execute(answered)
            answer.wait(_STATUS_SECONDS)
        return self._observed

    def _look(self) -> None:
        sources = self.coordinator.sources
        self._observed = {uid: source.observe() for uid, source in sources.items()}
