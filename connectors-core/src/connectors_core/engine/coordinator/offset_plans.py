# SPDX-License-Identifier: Apache-2.0
"""Plans of a source whose whole state fits into Spark's offset log. Driver, no pyspark.

A plan contains the positions of all splits, the state of the enumerator, and the reads of one
micro-batch, each with its stop. Whoever has the plan can read its rows and create the next plan, so
neither a state location nor reports are needed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import orjson

from connectors_core.engine._faults import fault_point
from connectors_core.engine.coordinator.mailbox import Mailbox
from connectors_core.engine.coordinator.source_coordinator import SourceCoordinator
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.protocol import (
    FORMAT_VERSION,
    Entry,
    PlannedSplit,
    Report,
    SourcePlan,
    SplitReport,
)
from connectors_core.errors import InvalidOptionError, RetryableError, UnsupportedError
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source.alignment import CoordinatorStore
from connectors_core.source.event_codec import encode_event
from connectors_core.source.events import EventDocument
from connectors_core.source.rate_limiter import RateLimiterStrategy
from connectors_core.source.source import Boundedness, SupportsForetoldEvents
from connectors_core.source.split import ReadLimits

_PLANS: Final = JsonDataclassSerializer(SourcePlan, version=FORMAT_VERSION)
_TICK_SECONDS: Final = 0.05

T = TypeVar("T")


def encode_plan(plan: SourcePlan) -> dict[str, Any]:
    """Return a plan as plain JSON values."""
    document: dict[str, Any] = orjson.loads(_PLANS.serialize(plan))
    return document


def decode_plan(document: dict[str, Any]) -> SourcePlan:
    """Return the plan of plain JSON values."""
    return _PLANS.deserialize(FORMAT_VERSION, orjson.dumps(document))


def check_stops(settings: SourceSettings) -> None:
    """Refuse a source whose plans do not determine the rows of a micro-batch.

    Raises:
        UnsupportedError: Its splits have no end or cannot be read again, or its rate is limited.
    """
    traits = settings.source.split_traits()
    if settings.rate_limiter != RateLimiterStrategy.none():
        raise UnsupportedError(
            f"{type(settings.source).__name__} cannot limit its rate without a pipeline",
            hint="read it with Pipeline.from_source",
        )
    if traits.end and traits.replayable:
        return
    raise UnsupportedError(
        f"{type(settings.source).__name__} cannot be read without a pipeline: only a read shows "
        "where its micro-batches end",
        expected="splits that end and can be read again",
        found="splits without an end" if not traits.end else "splits that cannot be read again",
        hint="read it with Pipeline.from_source",
    )


class OffsetPlanner:
    """Creates one plan after another for one source.

    The enumerator runs on its own thread from the first plan until :meth:`close`.

    Args:
        settings: The source. Its limits apply to whole splits: a plan has at least one split, and
            only an enumerator that plans stops can limit rows.
        pipeline_id: Names the source in the context of its readers.
        available_now: End with the data that is available now.
    """

    def __init__(
        self, settings: SourceSettings, *, pipeline_id: str, available_now: bool = False
    ) -> None:
        self._settings = settings
        self._pipeline_id = pipeline_id
        self._available_now = available_now
        self._changed = threading.Event()
        self._error: BaseException | None = None
        self._mailbox = Mailbox(f"enumerator-{settings.uid}", self._failed)
        self._coordinator: SourceCoordinator | None = None
        self._newest: SourcePlan | None = None
        self._outstanding = False
        self._mailbox.start()

    def plan_after(self, start: SourcePlan | None) -> SourcePlan | None:
        """Return the next plan, or None if there is nothing to read now.

        With ``available_now``, it waits until it knows that nothing remains.

        Args:
            start: The previous plan, whose rows Spark has read or will read; None for the first.

        Raises:
            ConnectorError: The enumerator failed.
        """
        while True:
            self._changed.clear()
            plan = self._on_thread(lambda: self._plan(start))
            if plan is not None or not self._available_now or self._on_thread(self._is_finished):
                return plan
            self._changed.wait(_TICK_SECONDS)

    def unfinished_splits(self) -> int:
        """Return the number of splits that are assigned and not read to their end."""
        if self._coordinator is None:
            return 0
        return self._on_thread(lambda: len(self._started.positions()))

    def committed(self, number: int) -> None:
        """Notify the enumerator that Spark has committed the rows of a plan."""
        if self._coordinator is not None:
            self._on_thread(lambda: self._started.notify_complete(number))

    def close(self) -> None:
        """Close the enumerator."""
        self._mailbox.close()
        self._error = self._error or RetryableError(
            f"the enumerator of source {self._settings.uid!r} has stopped",
            hint="restart the query",
        )
        if self._coordinator is not None:
            self._coordinator.close()

    # --- the enumerator's thread ----------------------------------------------------------------

    @property
    def _started(self) -> SourceCoordinator:
        assert self._coordinator is not None
        return self._coordinator

    def _is_finished(self) -> bool:
        return self._started.finished

    def _plan(self, start: SourcePlan | None) -> SourcePlan | None:
        if self._coordinator is None or _number(start) != _number(self._newest):
            self._restart(start)
        elif self._outstanding and start is not None:
            self._started.apply(start, self._whole_reports(start))
        self._outstanding = False
        source = self._started
        source.align()
        source.prepare()
        if not source.has_work():
            return None
        number = _number(start) + 1
        plan = source.plan(
            number, secrets.token_hex(8), self._pipeline_id, self._settings.uid, snapshot=True
        )
        plan = dataclasses.replace(plan, entries=self._within_limits(plan.entries))
        fault_point("after_plan", plan=number)
        self._newest, self._outstanding = plan, True
        return plan

    def _restart(self, start: SourcePlan | None) -> None:
        if self._coordinator is not None:
            self._coordinator.close()
        self._coordinator = SourceCoordinator(
            self._settings,
            mailbox=self._mailbox,
            store=CoordinatorStore(),
            on_change=self._changed.set,
            available_now=self._available_now,
            drain=False,
        )
        self._newest = start
        self._coordinator.start([] if start is None else [(start, self._whole_reports(start))])
        self._check_limits(self._coordinator.plans_stops)
        self._check_available_now(self._coordinator.plans_stops)

    def _check_available_now(self, plans_stops: bool) -> None:
        source = self._settings.source
        unbounded = source.boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
        foretold = isinstance(source, SupportsForetoldEvents)
        if self._available_now and unbounded and plans_stops and not foretold:
            raise UnsupportedError(
                f"{type(source).__name__} cannot be read with the trigger availableNow without a "
                "pipeline",
                expected="a source with SupportsForetoldEvents",
                found=type(source).__name__,
                hint="use another trigger, or Pipeline.run(available_now=True)",
            )

    def _check_limits(self, plans_stops: bool) -> None:
        limits, source = self._settings.limits, type(self._settings.source).__name__
        kept = "rows or splits" if plans_stops else "splits or bytes"
        for name in ("bytes", "seconds") if plans_stops else ("rows", "seconds"):
            limit = getattr(limits, name)
            if limit is not None:
                raise InvalidOptionError(
                    f"without a pipeline, {source} cannot limit the {name} of a micro-batch",
                    expected=f"a limit of {kept}",
                    found=limit,
                    option=f"limits.{name}",
                    hint=f"limit {kept}, or read with Pipeline.from_source",
                )

    def _within_limits(self, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        """Leave splits above the limits for later plans; readers read the others to their end."""
        limits = self._settings.limits
        serializer = self._settings.source.split_serializer()
        queues: dict[int, list[PlannedSplit]] = {entry.subtask: [] for entry in entries}
        weight = 0
        for splits, (subtask, planned) in enumerate(_in_turns(entries)):
            full = (limits.splits is not None and splits >= limits.splits) or (
                limits.bytes is not None and weight >= limits.bytes
            )
            if splits and full:
                break
            queues[subtask].append(planned)
            if limits.bytes is not None:
                state = planned.state
                weight += serializer.deserialize(state.version, state.data).weight()
        return tuple(
            dataclasses.replace(
                entry, splits=tuple(queues[entry.subtask]), limits=ReadLimits(), claim=False
            )
            for entry in entries
        )

    def _whole_reports(self, plan: SourcePlan) -> list[Report]:
        """Return the reports of readers that have read all splits of a plan to their end."""
        return [
            Report(
                pipeline_id=entry.pipeline_id,
                plan=entry.plan,
                nonce=entry.nonce,
                source=entry.source,
                subtask=entry.subtask,
                attempt=0,
                splits=tuple(
                    SplitReport(
                        split_id=split.split_id, state=split.state, skip=0, finished=True, rows=0
                    )
                    for split in entry.splits
                ),
                events=self._foretold(entry),
            )
            for entry in plan.entries
        ]

    def _foretold(self, entry: Entry) -> tuple[EventDocument, ...]:
        source = self._settings.source
        if not isinstance(source, SupportsForetoldEvents):
            return ()
        serializer = source.split_serializer()
        splits = [
            serializer.deserialize(each.state.version, each.state.data) for each in entry.splits
        ]
        return tuple(encode_event(event) for event in source.events_after(splits))

    # --- threads --------------------------------------------------------------------------------

    def _on_thread(self, action: Callable[[], T]) -> T:
        """Run an action on the enumerator's thread and wait for its result.

        Raises:
            ConnectorError: The action or an earlier one failed.
            RetryableError: The planner is closed.
        """
        result: Future[T] = Future()

        def run() -> None:
            try:
                result.set_result(action())
            except BaseException as error:
                result.set_exception(error)
                raise

        self._mailbox.execute(run)
        while not result.done():
            if self._error is not None:
                raise self._error
            with contextlib.suppress(TimeoutError):
                return result.result(_TICK_SECONDS)
        return result.result()

    def _failed(self, error: BaseException) -> None:
        self._error = error
        self._changed.set()


def _number(plan: SourcePlan | None) -> int:
    return -1 if plan is None else plan.number


def _in_turns(entries: Sequence[Entry]) -> Iterator[tuple[int, PlannedSplit]]:
    """Yield the splits of all readers: the first ones, then the second ones, and so on."""
    longest = max((len(entry.splits) for entry in entries), default=0)
    for index in range(longest):
        for entry in entries:
            if index < len(entry.splits):
                yield entry.subtask, entry.splits[index]
