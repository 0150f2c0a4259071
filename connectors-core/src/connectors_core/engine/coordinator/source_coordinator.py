# SPDX-License-Identifier: Apache-2.0
"""The coordinator of one source: its enumerator, its splits, its part of every plan. Driver.

A snapshot, the later plans, and their reports determine its state. Planning and a restart run the
same two steps: :meth:`SourceCoordinator.plan` and :meth:`SourceCoordinator.apply`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from connectors_core.engine.coordinator.committed_positions import CommittedPositions
from connectors_core.engine.coordinator.enumerator_context import EnumeratorContext
from connectors_core.engine.coordinator.mailbox import Mailbox
from connectors_core.engine.coordinator.source_observation import SourceCounts, SourceObservation
from connectors_core.engine.coordinator.source_planner import SourcePlanner
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.coordinator.source_start import check_position, enumerator_at
from connectors_core.engine.coordinator.split_ledger import SplitLedger
from connectors_core.engine.coordinator.watermark_tracker import WatermarkTracker
from connectors_core.engine.protocol import Plan, Report, SourcePlan, SplitRecord, Versioned
from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.metrics import MetricGroup
from connectors_core.secrets import mask_text
from connectors_core.source.alignment import CoordinatorStore
from connectors_core.source.enumerator import (
    AnySplitEnumerator,
    SupportsAvailableNow,
    SupportsBatchSnapshot,
    SupportsCommittedPositions,
)
from connectors_core.source.event_codec import decode_event
from connectors_core.source.events import EventDocument
from connectors_core.source.hybrid.switches import SwitchesSources
from connectors_core.source.source import Boundedness
from connectors_core.source.split import SourceSplit
from connectors_core.source.watermarks import END_OF_TIME

_LOGGER: Final = logging.getLogger(__name__)

_WARN_AFTER_PLANS: Final = frozenset(3 * 10**exponent for exponent in range(9))

History = Sequence[tuple[SourcePlan, Sequence[Report] | None]]


class SourceCoordinator:
    """Runs the enumerator of one source and keeps the positions of its splits.

    All methods run on the mailbox's thread.

    Args:
        settings: The source.
        mailbox: The coordinator's thread.
        store: Alignment groups, shared by the sources of the pipeline.
        on_change: Called when a new plan may have become possible.
        available_now: Read the data that is available at the start, then end.
        drain: Whether an end by ``available_now`` also moves the watermark to the end of time.
        only_windows: Whether only windows use Spark's watermark.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        settings: SourceSettings,
        *,
        mailbox: Mailbox,
        store: CoordinatorStore,
        on_change: Callable[[], None],
        available_now: bool = False,
        drain: bool = True,
        only_windows: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self._source = settings.source
        self._traits = settings.source.split_traits()
        self._state_serializer = settings.source.enumerator_state_serializer()
        self._bounded = settings.source.boundedness() is Boundedness.BOUNDED
        self._available_now = available_now
        self._drain = drain
        self._ledger = ledger = SplitLedger(settings, clock=clock)
        self._context = context = EnumeratorContext(
            settings, ledger=ledger, mailbox=mailbox, on_change=on_change
        )
        self._watermark = WatermarkTracker(
            settings, context=context, ledger=ledger, groups=store, only_windows=only_windows
        )
        self._planner = SourcePlanner(
            settings, context=context, ledger=ledger, watermark=self._watermark, clock=clock
        )
        self._counts = SourceCounts(context.metrics, strategy=settings.strategy, clock=clock)
        self._committed_positions: CommittedPositions[Any] | None = None
        self._plans_without_response = 0

    # --- lifecycle ----------------------------------------------------------------------------

    def start(self, history: History = (), *, at: str | None = None) -> None:
        """Create or restore the enumerator and start it.

        Args:
            history: This source's part of the plans since the last snapshot, with their reports.
                The reports of the newest plan may be missing (None) if it has not been read yet.
            at: Without a history, the start position in the source's own terms; None to use its
                options.

        Raises:
            UnsupportedError: The source cannot start at a given position.
        """
        enumerator = self._create_enumerator(history, at)
        if isinstance(enumerator, SupportsCommittedPositions):
            self._committed_positions = CommittedPositions(enumerator, self._ledger.serializer)
            for plan, reports in history:
                if reports:
                    self._committed_positions.reported(plan, reports)
        if self._was_drained():
            return
        if not self._bounded and not self._context.has_next:
            self._ledger.no_more.clear()  # set by an earlier run with available_now
        enumerator.start()
        for subtask, splits in self._ledger.give_back_of_missing_readers():
            enumerator.add_splits_back(splits, subtask)
        for subtask in range(self.settings.parallelism):
            self._context.registered.add(subtask)
            enumerator.add_reader(subtask)
        for _, reports in history:
            for report in reports or ():
                self.deliver_events(report)
        if self._available_now and not self._bounded:
            if not isinstance(enumerator, SupportsAvailableNow):
                raise UnsupportedError(
                    f"source {self.settings.uid!r} cannot be read with available_now",
                    expected="a bounded source, or an enumerator with SupportsAvailableNow",
                    found=type(enumerator).__name__,
                    hint="use Pipeline.start()",
                )
            enumerator.freeze_end()

    def _create_enumerator(self, history: History, at: str | None) -> AnySplitEnumerator:
        context = self._context
        if history:
            state = self._restore(history)
            enumerator = self._source.restore_enumerator(context, state)
            context.enumerator = enumerator
            self._watermark.ask_what_waits(before=True)
        elif at is not None:
            enumerator = enumerator_at(self.settings, context, at)
        else:
            enumerator = self._source.create_enumerator(context)
        context.enumerator = enumerator
        return enumerator

    def _restore(self, history: History) -> Any:
        """Take over plans and reports; return the enumerator's state at their snapshot."""
        snapshot = history[0][0].snapshot
        assert snapshot is not None
        self._ledger.restore(snapshot, history)
        # An enumerator that found splits before has already responded, and may not do so again.
        self._context.answered = bool(self._ledger.splits or self._ledger.no_more)
        for plan, reports in history:
            self._watermark.watermark = plan.watermark
            self._watermark.planned(plan.watermark)
            self._ledger.expect(plan)
            if reports is not None:
                self._ledger.apply(plan, reports)
        return self._state_serializer.deserialize(
            snapshot.enumerator.version, snapshot.enumerator.data
        )

    def _was_drained(self) -> bool:
        """Return whether an unbounded source was drained; if so, finish it."""
        self.check_not_drained(self.watermark)
        if self._bounded or self.watermark != END_OF_TIME:
            return False
        _LOGGER.warning(
            "source %r reads no further data: an earlier run drained it, and all later rows would "
            "be late. Use another checkpoint location, or drain=False (in SQL, another "
            "pipeline.name, or execution.drain=false)",
            self.settings.uid,
        )
        self._context.answered = True
        self._ledger.no_more.update(range(self.settings.parallelism))
        return True

    def check_not_drained(self, watermark: int | None) -> None:
        """Refuse to continue an unbounded source that was drained.

        Args:
            watermark: Its watermark in the newest plan.

        Raises:
            ConfigurationError: It was drained, and the pipeline is to continue.
        """
        ended = not self._bounded and watermark == END_OF_TIME
        if ended and not (self._available_now and self._drain):
            raise ConfigurationError(
                f"source {self.settings.uid!r} was drained: its watermark is at the end of time, "
                "and all later rows would be late",
                hint="start with another checkpoint location; to continue after a run with "
                "available_now, use run(available_now=True, drain=False)",
            )

    def check_position(self, position: str) -> None:
        """Refuse a start position that the source does not accept.

        Args:
            position: The position from `connectors state rewind`.

        Raises:
            UnsupportedError: The source does not support start positions.
            ConfigurationError: The position is not valid for the source.
        """
        check_position(self.settings, position)

    def close(self) -> None:
        """Close the enumerator and leave the alignment group."""
        self._watermark.close()
        enumerator, self._context.enumerator = self._context.enumerator, None
        if enumerator is not None:
            enumerator.close()

    @property
    def _enumerator(self) -> AnySplitEnumerator:
        enumerator = self._context.enumerator
        assert enumerator is not None
        return enumerator

    # --- status ---------------------------------------------------------------------------------

    @property
    def metrics(self) -> MetricGroup:
        """The metrics of the source."""
        return self._context.metrics

    @property
    def finished(self) -> bool:
        """Whether all splits are assigned and read, and no other source follows."""
        return self._context.finished

    @property
    def needs_snapshot(self) -> bool:
        """Whether the next plan must hold a snapshot."""
        return self._context.needs_snapshot

    @property
    def snapshot_bytes(self) -> int:
        """Size of the last snapshot."""
        return self._ledger.snapshot_bytes

    @property
    def delta_bytes(self) -> int:
        """Size of the plans since the last snapshot."""
        return self._ledger.delta_bytes

    @property
    def live(self) -> bool:
        """Whether only a read shows if a split has rows."""
        return not self._traits.end and bool(self._ledger.splits)

    @property
    def plans_stops(self) -> bool:
        """Whether the enumerator plans a stop for its splits in every plan."""
        return self._planner.plans_stops

    @property
    def watermark(self) -> int | None:
        """The source's watermark in microseconds."""
        return self._watermark.watermark

    @property
    def idle(self) -> bool:
        """Whether it had neither rows nor splits for the idle timeout of its strategy.

        An idle source does not hold back the watermarks of others.
        """
        return self._watermark.idle and not self.finished

    @property
    def events(self) -> Mapping[int, Sequence[EventDocument]]:
        """The events for readers that are not sent yet, by reader."""
        return self._context.events

    def positions(self) -> list[SplitRecord]:
        """Return the unfinished splits in the form of a snapshot."""
        return self._ledger.positions()

    def splits(self) -> list[SourceSplit]:
        """Return the unfinished splits as the source knows them, in the same order."""
        return self._ledger.source_splits()

    def observe(self) -> SourceObservation:
        """Return the current state of the source, for status and metrics."""
        return self._counts.observe(
            self._ledger,
            watermark=self.watermark,
            finished=self.finished,
            replayable=self._traits.replayable,
        )

    # --- planning -------------------------------------------------------------------------------

    def align(self) -> None:
        """Report the progress since the last plan to the alignment group.

        All sources do this before the first one requests splits, since a request depends on the
        group's current maximum. With the previous plan's maximum, every second plan would find
        hardly any rows.
        """
        self._watermark.align()

    def prepare(self) -> None:
        """Request splits, advance the watermark, and update the alignment group."""
        context, ledger = self._context, self._ledger
        none_waits = self._request_splits()
        while (
            context.answered and not ledger.splits and ledger.no_more_to_come and context.has_next
        ):
            context.events.clear()  # the readers of the previous source have ended
            self._switch(self._watermark.max_event_time)
            none_waits = self._request_splits()
        if none_waits and not context.asynchronous:
            context.answer()  # that it has no splits
        self._planner.note_empty_splits()
        self._watermark.advance(none_waits=none_waits, ends_time=self._bounded or self._drain)

    def follow(self, watermark: int) -> None:
        """Follow the watermark of other sources while this one is idle."""
        self._watermark.follow(watermark)

    def _request_splits(self) -> bool:
        """Request splits until no reader wants more; return whether they all got none."""
        context, no_more = self._context, self._ledger.no_more
        hungry = [s for s in range(self.settings.parallelism) if s not in no_more]
        unanswered, readers = 0, len(hungry)
        while hungry:
            still_hungry = []
            for subtask in hungry:
                before = context.assignments
                if self._planner.wants_split(subtask):
                    self._enumerator.handle_split_request(subtask)
                    if context.assignments == before:
                        unanswered += 1
                    elif subtask not in no_more:
                        still_hungry.append(subtask)
            hungry = still_hungry
        return unanswered == readers

    def take_all_splits(self) -> bool:
        """Request all splits; return whether there are no more (batch mode)."""
        context, ledger = self._context, self._ledger
        for subtask in range(self.settings.parallelism):
            before = -1
            while subtask not in ledger.no_more and before != context.assignments:
                before = context.assignments
                self._enumerator.handle_split_request(subtask)
        if ledger.no_more_to_come and context.has_next:
            self._switch(None)  # a batch run plans all splits before it reads
            return self.take_all_splits()
        return ledger.no_more_to_come

    def _switch(self, max_event_time: int | None) -> None:
        """Switch to the next source and reset the state of the previous one."""
        enumerator = self._enumerator
        assert isinstance(enumerator, SwitchesSources)
        self._ledger.switch(self.watermark)
        self._context.switch()
        self._watermark.switch()
        enumerator.switch(max_event_time)

    def has_work(self) -> bool:
        """Return whether a plan would now read rows or move the watermark."""
        return self._planner.has_work or self._watermark.is_new

    def needs_time(self) -> bool:
        """Return whether the passing of time alone may create work (rate limit, idleness)."""
        return bool(self._ledger.splits) or (self._watermark.may_become_idle and not self.finished)

    def plan(
        self, number: int, nonce: str, pipeline_id: str, query: str, *, snapshot: bool
    ) -> SourcePlan:
        """Return this source's part of a plan, after :meth:`prepare` of all sources."""
        ledger = self._ledger
        plan = SourcePlan(
            entries=self._planner.entries(number, nonce, pipeline_id, query),
            assigned=ledger.newly_assigned,
            no_more_splits=tuple(sorted(ledger.no_more)),
            watermark=self.watermark,
            finished=self.finished,
            discovery=ledger.found.planned(snapshot=snapshot),
            snapshot=ledger.snapshot(self._enumerator_state(number)) if snapshot else None,
        )
        self._watermark.planned(plan.watermark)
        ledger.planned(plan)
        self._context.events = {}
        if plan.snapshot is not None:
            self._context.needs_snapshot = False
        return plan

    def _enumerator_state(self, number: int) -> Versioned:
        serializer = self._state_serializer
        state = self._enumerator.snapshot_state(number)
        return Versioned(version=serializer.version, data=serializer.serialize(state))

    def batch_snapshot(self) -> Versioned:
        """Return the state of the enumerator after it has assigned all splits of a batch run.

        Raises:
            UnsupportedError: The enumerator cannot resume a batch run.
        """
        if not isinstance(self._enumerator, SupportsBatchSnapshot):
            raise UnsupportedError(
                f"source {self.settings.uid!r} cannot resume a batch run",
                expected="an enumerator with SupportsBatchSnapshot",
                found=type(self._enumerator).__name__,
                option="resume_batch_runs",
                hint="use Pipeline(..., streaming=True), which resumes from every source",
            )
        return self._enumerator_state(SupportsBatchSnapshot.BATCH_CHECKPOINT_ID)

    # --- reports --------------------------------------------------------------------------------

    def apply(self, plan: SourcePlan, reports: Sequence[Report]) -> None:
        """Take over the reports of the newest plan."""
        ledger = self._ledger
        splits_before = len(ledger.splits)
        for report in reports:
            self._planner.consumed(report.rows)
            self._counts.report(report, ledger)
        ledger.apply(plan, reports)
        self._counts.finished_splits(splits_before - len(ledger.splits))
        if self._committed_positions is not None:
            self._committed_positions.reported(plan, reports)
        ledger.expect_none()
        if not self._planner.plans_stops:
            read = {split.split_id for report in reports for split in report.splits}
            for split_id in ledger.splits.keys() - read:
                ledger.idleness.observe(split_id, False, 0)  # not read: its idle time does not grow
        self._warn_if_nothing_responds(reports)
        for report in reports:
            self.deliver_events(report)

    def _warn_if_nothing_responds(self, reports: Sequence[Report]) -> None:
        """Warn if plan after plan ends before the first response for a split."""
        if self._traits.end:
            return
        waiting = [
            split.split_id
            for report in reports
            for split in report.splits
            if not (split.asked or split.finished) and split.head is None
        ]
        self._plans_without_response = self._plans_without_response + 1 if waiting else 0
        if self._plans_without_response in _WARN_AFTER_PLANS:
            _LOGGER.warning(
                "source %r: %d plans in a row ended before the first response for %s. Raise "
                "first_fetch_timeout of from_source (now %s), raise the limits of a plan, or check "
                "why the external system does not respond",
                self.settings.uid,
                self._plans_without_response,
                mask_text(waiting[0])
                + (f" and {len(waiting) - 1} more splits" if len(waiting) > 1 else ""),
                self.settings.first_fetch_timeout,
            )

    def deliver_events(self, report: Report) -> None:
        """Pass the events of a reader, and its request for splits, to the enumerator."""
        enumerator = self._enumerator
        for event in report.events:
            enumerator.handle_source_event(report.subtask, decode_event(self._source, event))
        if (
            report.wants_splits
            and report.subtask in self._context.registered - self._ledger.no_more
            and self._planner.wants_split(report.subtask)
        ):
            enumerator.handle_split_request(report.subtask)

    def notify_complete(self, plan: int) -> None:
        """Notify the enumerator that the epoch of a plan is decided and committed by Spark."""
        if self._committed_positions is not None:
            self._committed_positions.committed(plan)
        if self._context.enumerator is not None:
            self._context.enumerator.notify_checkpoint_complete(plan)


def source_history(
    uid: str, plans: Sequence[Plan], reports: Sequence[Mapping[str, Sequence[Report]] | None]
) -> list[tuple[SourcePlan, Sequence[Report] | None]]:
    """Return one source's part of plans and their reports."""
    return [
        (plan.sources[uid], own[uid] if own is not None else None)
        for plan, own in zip(plans, reports, strict=True)
    ]
