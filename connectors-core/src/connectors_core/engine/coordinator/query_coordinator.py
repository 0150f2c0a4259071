# SPDX-License-Identifier: Apache-2.0
"""Creates the plans of one query: one at a time, for all its sources."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from connectors_core.engine._faults import fault_point
from connectors_core.engine.coordinator.fences import taken_by_another
from connectors_core.engine.coordinator.mailbox import Mailbox
from connectors_core.engine.coordinator.plan_log import (
    complete_reports,
    given_up_splits,
    newest_number,
    newest_plan,
    plans_since_snapshot,
    read_plan,
    starts_of_sources,
)
from connectors_core.engine.coordinator.source_coordinator import SourceCoordinator, source_history
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.protocol import PLANS, PLANS_FOLDER, Plan, Report, plan_path
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import StateCorruptedError
from connectors_core.source.alignment import CoordinatorStore

IDLE_SECONDS = 0.25
TICK_SECONDS = 0.05
SNAPSHOT_EVERY_PLANS = 16


@dataclass(frozen=True, kw_only=True)
class QueryCallbacks:
    """The coordinator's callbacks to the query; called on the coordinator's thread.

    Attributes:
        feed: Passes a new, durable plan to Spark.
        finished: Called when all sources are read and the last plan is reported.
        failed: Called when the coordinator stops with an error.
        decided: Returns the newest decided epoch; -1 for none, None if unknown.
    """

    feed: Callable[[Plan], None]
    finished: Callable[[], None]
    failed: Callable[[BaseException], None]
    decided: Callable[[], int | None] = lambda: None


class QueryCoordinator:
    """Plans for the sources of one query. Driver.

    The coordinator creates plan n+1 when all reports of plan n are durable, so at most one plan is
    unconsumed.

    Args:
        sources: The sources of the query.
        store: The state location of the query.
        pipeline_id: The pipeline.
        query: Folder of the query below the state location.
        lease: The lease of this driver.
        callbacks: Callbacks to the query.
        trigger_interval: Minimum time between two plans, in seconds.
        available_now: Read the data that is available at the start, then end.
        drain: Whether an end by ``available_now`` also moves the watermark to the end of time.
        only_windows: Whether only windows use Spark's watermark.
        groups: Alignment groups, shared by all queries of the pipeline.
        mailbox: Creates the coordinator's thread.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        sources: Sequence[SourceSettings],
        *,
        store: StateStore,
        pipeline_id: str,
        query: str,
        lease: Lease,
        callbacks: QueryCallbacks,
        trigger_interval: float = 0.0,
        available_now: bool = False,
        drain: bool = True,
        only_windows: bool = False,
        groups: CoordinatorStore | None = None,
        mailbox: Callable[[str, Callable[[BaseException], None]], Mailbox] = Mailbox,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._pipeline_id = pipeline_id
        self._query = query
        self._lease = lease
        self._callbacks = callbacks
        self._trigger_interval = trigger_interval
        self._mailbox = mailbox(f"coordinator-{pipeline_id[:8]}", callbacks.failed)
        self._clock = clock
        groups = CoordinatorStore(clock) if groups is None else groups
        self._sources = {
            settings.uid: SourceCoordinator(
                settings,
                mailbox=self._mailbox,
                store=groups,
                on_change=self._wake,
                available_now=available_now,
                drain=drain,
                only_windows=only_windows,
                clock=clock,
            )
            for settings in sources
        }
        self._newest = -1
        self._given_up: frozenset[tuple[str, str]] = frozenset()
        self._complete: deque[int] = deque()  # not yet passed to the sources
        self._outstanding: Plan | None = None
        self._earliest = clock()
        self._plans_since_snapshot = SNAPSHOT_EVERY_PLANS  # the first plan holds a snapshot
        self._timer_set = False
        self._wake_set = False
        self._started = False
        self._finished = False

    @property
    def newest(self) -> int:
        """Number of the newest plan, fences included; -1 for none."""
        return self._newest

    @property
    def sources(self) -> Mapping[str, SourceCoordinator]:
        """The coordinators of the sources, by uid."""
        return self._sources

    def recover(self) -> int:
        """Read the logs. Call it once, before :meth:`start` and after this driver's fence.

        Returns:
            Number of the newest plan that is not a fence, -1 for none.

        Raises:
            StateCorruptedError: A plan or report is missing.
            ConfigurationError: An earlier run drained a source that this run is to continue, or a
                source does not accept the position that a person set.
            LeaseError: A later driver has taken over.
        """
        self._newest = newest_number(self._store, PLANS_FOLDER)
        self._given_up = given_up_splits(self._store)
        newest = newest_plan(self._store)
        if newest >= 0:
            planned = read_plan(self._store, newest).sources
            for uid, source in self._sources.items():
                if uid in planned:
                    source.check_not_drained(planned[uid].watermark)
        else:
            for uid, position in starts_of_sources(self._store).items():
                if uid in self._sources:
                    self._sources[uid].check_position(position)
        self._lease.confirm()  # so a successor made none of these plans
        return newest

    def start(self) -> None:
        """Restore the enumerators and start to plan."""
        self._mailbox.start()
        self._mailbox.execute(self._begin)

    def _begin(self) -> None:
        plans = plans_since_snapshot(self._store, self._newest) if self._newest >= 0 else []
        reports: list[Mapping[str, Sequence[Report]] | None] = []
        for plan in plans:
            complete = complete_reports(self._store, plan)
            if complete is None and plan is not plans[-1]:
                raise StateCorruptedError(
                    f"a report of plan {plan.number} is missing although a later plan exists",
                )
            reports.append(complete)
        if plans and reports[-1] is None:
            self._outstanding = plans[-1]
        starts = {} if plans else starts_of_sources(self._store)
        for uid, source in self._sources.items():
            source.start(source_history(uid, plans, reports), at=starts.get(uid))
        self._started = True
        self._advance()

    def reports_durable(self, plan: int) -> None:
        """Record that all reports of a plan are durable. From any thread."""
        self._mailbox.execute(lambda: self._apply(plan))

    def notify_complete(self, plan: int) -> None:
        """Record that a plan's epoch is decided and committed by Spark. From any thread."""
        self._complete.append(plan)
        self._mailbox.execute(self._notify)

    def _notify(self) -> None:
        plan = self._complete.popleft()
        for source in self._sources.values():
            source.notify_complete(plan)

    def execute(self, action: Callable[[], None]) -> None:
        """Run an action on the coordinator's thread, soon; dropped after :meth:`stop`."""
        self._mailbox.execute(action)

    def stop(self) -> None:
        """Notify the enumerators of the last plan, close them, and stop."""
        self._mailbox.close()
        with ExitStack() as stack:  # closes all, even if one fails
            for source in self._sources.values():
                stack.callback(source.close)
            while self._started and self._complete:
                self._notify()

    def _apply(self, number: int) -> None:
        plan = self._outstanding
        if plan is None or plan.number != number:
            return  # a micro-batch that Spark ran again
        reports = complete_reports(self._store, plan)
        if reports is None:
            raise StateCorruptedError(f"a report of plan {number} has vanished")
        rows = 0
        for uid, source in self._sources.items():
            source.apply(plan.sources[uid], reports[uid])
            rows += sum(report.rows for report in reports[uid])
        self._outstanding = None
        if rows == 0 and any(source.live for source in self._sources.values()):
            self._earliest = max(self._earliest, self._clock() + IDLE_SECONDS)
        self._advance()

    def _wake(self) -> None:
        if not self._wake_set and self._started:
            self._wake_set = True
            self._mailbox.execute(self._on_wake)

    def _on_wake(self) -> None:
        self._wake_set = False
        self._advance()

    def _advance(self) -> None:
        """Create the next plan if it is due and there is work."""
        if self._outstanding is not None or self._finished:
            return
        wait = self._earliest - self._clock()
        if wait > 0:
            self._wait(wait)
            return
        for source in self._sources.values():
            source.align()
        for source in self._sources.values():
            source.prepare()
        self._let_idle_sources_follow()
        if any(source.has_work() for source in self._sources.values()):
            self._plan()
        elif all(source.finished for source in self._sources.values()):
            self._finished = True
            self._callbacks.finished()
        elif any(source.needs_time() for source in self._sources.values()):
            self._wait(TICK_SECONDS)

    def _let_idle_sources_follow(self) -> None:
        """Advance the watermarks of idle sources, since Spark uses the lowest one (see FLIP-27).

        An idle source follows the lowest watermark of the active sources. If all sources are idle,
        each follows the highest, whichever became idle first. Finished sources do not lead: their
        watermark is the end of time, which would make all remaining rows late.
        """
        unfinished = [
            source
            for source in self._sources.values()
            if source.settings.strategy is not None and not source.finished
        ]
        idle = [source for source in unfinished if source.idle]
        leading = [source.watermark for source in unfinished if not source.idle]
        known = [mark for mark in leading or [s.watermark for s in idle] if mark is not None]
        if not known or len(known) < len(leading):
            return
        for source in idle:
            source.follow(min(known) if leading else max(known))

    def _snapshot_due(self) -> bool:
        """Whether a source needs a snapshot, or the deltas have outgrown the last one."""
        sources = self._sources.values()
        return (
            self._plans_since_snapshot >= SNAPSHOT_EVERY_PLANS
            or any(source.needs_snapshot for source in sources)
            or sum(source.delta_bytes for source in sources)
            > sum(source.snapshot_bytes for source in sources)
        )

    def _wait(self, seconds: float) -> None:
        if not self._timer_set:
            self._timer_set = True
            self._mailbox.schedule(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer_set = False
        self._advance()

    def _plan(self) -> None:
        number = self._newest + 1
        nonce = secrets.token_hex(8)
        snapshot = self._snapshot_due()
        fault_point("before_plan", plan=number)
        plan = Plan(
            pipeline_id=self._pipeline_id,
            number=number,
            nonce=nonce,
            incarnation=self._lease.incarnation,
            sources={
                uid: source.plan(number, nonce, self._pipeline_id, self._query, snapshot=snapshot)
                for uid, source in self._sources.items()
            },
            last=all(source.finished for source in self._sources.values()),
            decided=self._callbacks.decided(),
        ).giving_up(self._given_up)
        if not PLANS.create(self._store, plan_path(number), plan):
            other = read_plan(self._store, number)
            if other.nonce != nonce:  # else a repeated request found our own file
                raise taken_by_another(f"plan {number}", other, incarnation=self._lease.incarnation)
        fault_point("after_plan", plan=number)
        self._newest = number
        self._outstanding = plan
        self._plans_since_snapshot = 0 if snapshot else self._plans_since_snapshot + 1
        self._earliest = self._clock() + self._trigger_interval
        self._callbacks.feed(plan)
        fault_point("after_feed", plan=number)
