# SPDX-License-Identifier: Apache-2.0
"""The enumerator of a hybrid source: that of the active member, and the switch to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from connectors_core.errors import FatalError, UnsupportedError
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source.enumerator import (
    AnySplitEnumerator,
    PlannedRead,
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsAvailableNow,
    SupportsBatchSnapshot,
    SupportsCommittedPositions,
    SupportsIntermediateNoMoreSplits,
    SupportsPlannedStops,
    SupportsUnassignedSplits,
)
from connectors_core.source.events import SourceEvent
from connectors_core.source.hybrid.chain import SourceChain
from connectors_core.source.hybrid.events import HybridSourceEvent
from connectors_core.source.hybrid.split import HybridSplit, members_splits
from connectors_core.source.hybrid.switches import (
    SupportsSwitchInfo,
    Switch,
    SwitchesSources,
)
from connectors_core.source.members import MemberEnumeratorContext
from connectors_core.source.source import AnySource, Boundedness
from connectors_core.source.split import ReadLimits


@dataclass(frozen=True, kw_only=True)
class MemberState:
    """State of the enumerator of one member.

    Attributes:
        version: Layout of ``data``.
        data: The state.
    """

    version: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class HybridState:
    """State of a hybrid source's enumerator.

    Attributes:
        switches: The past switches; as many as members have ended.
        version: Layout of ``data``.
        data: State of the active member's enumerator.
        ended: States of the members that have ended, in a batch run: its readers read all members
            after the last switch, so each enumerator still receives their events.
    """

    switches: tuple[Switch, ...]
    version: int
    data: bytes
    ended: tuple[MemberState, ...] = ()


@dataclass(eq=False, repr=False)
class _MemberContext(MemberEnumeratorContext[Any, HybridSplit]):
    """The context of the enumerator of one member."""

    chain: SourceChain
    switches: tuple[Switch, ...]
    is_told: bool = False
    """Whether the readers know from an earlier run that the member has no more splits."""

    def __post_init__(self) -> None:
        self.place = len(self.switches)
        self.limited: set[int] = set()

    def wrapped(self, split: Any) -> HybridSplit:
        return HybridSplit(self.place, self.switches, split)

    def assign_splits(self, assignment: Mapping[int, Sequence[Any]]) -> None:
        self._check_present("assigned splits")
        super().assign_splits(assignment)

    def signal_no_more_splits(self, subtask_id: int) -> None:
        if self.is_over or self.is_told:
            return
        another_follows = self.place + 1 < len(self.chain.members)
        if another_follows and isinstance(self.context, SupportsIntermediateNoMoreSplits):
            self.context.signal_intermediate_no_more_splits(subtask_id)
        else:
            self.context.signal_no_more_splits(subtask_id)

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        self._check_present("sent an event")
        wrapped = HybridSourceEvent.of(self.place, self.switches, event)
        wrapped.inner(self.chain)  # rejected here, not on an executor
        self.context.send_event_to_source_reader(subtask_id, wrapped)

    def set_reader_limit(self, subtask_id: int, limits: ReadLimits | None) -> None:
        if not self.is_over:
            self.limited.add(subtask_id)
            super().set_reader_limit(subtask_id, limits)

    def _check_present(self, what: str) -> None:
        if self.is_over:
            raise FatalError(
                f"an enumerator {what} after signal_no_more_splits()",
                expected="signal_no_more_splits() only after the last split",
            )


@dataclass(frozen=True)
class _Member:
    """A member with an open enumerator."""

    source: AnySource
    context: _MemberContext
    enumerator: AnySplitEnumerator

    def state(self, checkpoint_id: int) -> MemberState:
        """Return its stored state."""
        serializer = self.source.enumerator_state_serializer()
        state = self.enumerator.snapshot_state(checkpoint_id)
        return MemberState(version=serializer.version, data=serializer.serialize(state))


class HybridSplitEnumerator(
    SplitEnumerator[HybridSplit, HybridState],
    SwitchesSources,
    SupportsPlannedStops[HybridSplit],
    SupportsCommittedPositions[HybridSplit],
    SupportsAvailableNow,
    SupportsBatchSnapshot,
):
    """Delegates to the enumerator of the active member, and has its abilities. Driver.

    Args:
        context: The coordinator.
        chain: The members.
        state: Where to continue; None starts with the first member.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[HybridSplit],
        chain: SourceChain,
        state: HybridState | None = None,
    ) -> None:
        self._context = context
        self._chain = chain
        self._switches = () if state is None else state.switches
        self._frozen = False
        # Members that have ended, and the last plan of which they may have to be notified.
        self._ended: list[tuple[_Member, int | None]] = []
        if state is None:
            self._present = self._open(0)
            return
        for place, ended in enumerate(state.ended):
            self._ended.append((self._open(place, ended), None))
        active = MemberState(version=state.version, data=state.data)
        self._present = self._open(len(self._switches), active)

    def _open(self, place: int, state: MemberState | None = None) -> _Member:
        switches = self._switches[:place]
        source = self._chain.begin(place, switches)
        is_told = place < len(self._switches)
        context = _MemberContext(self._context, self._chain, switches, is_told)
        if state is None:
            return _Member(source, context, source.create_enumerator(context))
        stored = source.enumerator_state_serializer().deserialize(state.version, state.data)
        return _Member(source, context, source.restore_enumerator(context, stored))

    # --- the switch -----------------------------------------------------------------------------

    @property
    def has_next(self) -> bool:
        """Whether another member follows."""
        return len(self._switches) + 1 < len(self._chain.members)

    def switch(self, max_event_time: int | None) -> None:
        """Create and start the next member's enumerator."""
        ended = self._present
        ended.context.is_over = True
        for subtask in ended.context.limited:
            self._context.set_reader_limit(subtask, None)
        teller = ended.enumerator
        info = teller.switch_info() if isinstance(teller, SupportsSwitchInfo) else {}
        self._switches += (_recorded(Switch(max_event_time=max_event_time, info=dict(info))),)
        self._ended.append((ended, None))
        self._present = self._open(len(self._switches))
        self._present.enumerator.start()
        for subtask in sorted(self._context.registered_readers):
            self._present.enumerator.add_reader(subtask)
        if self._frozen:
            self._freeze()

    def freeze_end(self) -> None:
        """The last member is read up to the data available when it starts; the others end anyway.

        Raises:
            UnsupportedError: The last member does not support this.
        """
        self._frozen = True
        self._freeze()

    def _freeze(self) -> None:
        if self._present.source.boundedness() is Boundedness.BOUNDED:
            return
        enumerator = self._present.enumerator
        if not isinstance(enumerator, SupportsAvailableNow):
            raise UnsupportedError(
                "the last member of a hybrid source does not support available_now",
                expected="an enumerator with SupportsAvailableNow",
                found=type(enumerator).__name__,
                hint="use Pipeline.start()",
            )
        enumerator.freeze_end()

    # --- delegation to the active member ------------------------------------------------------

    def handle_split_request(self, subtask_id: int) -> None:
        """Delegate."""
        self._present.enumerator.handle_split_request(subtask_id)

    def add_splits_back(self, splits: Sequence[HybridSplit], subtask_id: int) -> None:
        """Delegate: all splits belong to the active member."""
        self._present.enumerator.add_splits_back(members_splits(splits), subtask_id)

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """Delegate to the member of the reader; in a batch run, later members may have started."""
        assert isinstance(event, HybridSourceEvent)
        member = next(each for each in self._open_members() if each.context.place == event.member)
        member.enumerator.handle_source_event(subtask_id, event.inner(self._chain))

    def unassigned_splits(self) -> Iterable[HybridSplit]:
        """Return the unassigned splits of the active member, if it reports them."""
        enumerator = self._present.enumerator
        if isinstance(enumerator, SupportsUnassignedSplits):
            yield from map(self._present.context.wrapped, enumerator.unassigned_splits())

    @property
    def plans_stops(self) -> bool:
        """Whether the active member supports it."""
        enumerator = self._present.enumerator
        return isinstance(enumerator, SupportsPlannedStops) and enumerator.plans_stops

    def plan_reads(
        self, splits: Sequence[HybridSplit], limits: ReadLimits
    ) -> Mapping[str, PlannedRead[HybridSplit]]:
        """Delegate."""
        enumerator, wrapped = self._present.enumerator, self._present.context.wrapped
        assert isinstance(enumerator, SupportsPlannedStops)
        reads = enumerator.plan_reads(members_splits(splits), limits)
        return {
            wrapped(read.split).split_id: PlannedRead(
                split=wrapped(read.split),
                then=None if read.then is None else wrapped(read.then),
                empty=read.empty,
            )
            for read in reads.values()
        }

    def snapshot_state(self, checkpoint_id: int) -> HybridState:
        """Return the active member's state and the switches before it.

        Raises:
            UnsupportedError: A member cannot resume the batch run of which this is the snapshot.
        """
        ended: tuple[MemberState, ...] = ()
        if checkpoint_id == SupportsBatchSnapshot.BATCH_CHECKPOINT_ID:
            self._check_resumable()
            ended = tuple(member.state(checkpoint_id) for member, _ in self._ended)
        else:
            # The first snapshot after a switch is that of the plan with the switch.
            self._ended = [
                (member, checkpoint_id - 1 if last is None else last)
                for member, last in self._ended
            ]
        active = self._present.state(checkpoint_id)
        return HybridState(
            switches=self._switches, version=active.version, data=active.data, ended=ended
        )

    def _check_resumable(self) -> None:
        for member in self._open_members():
            if not isinstance(member.enumerator, SupportsBatchSnapshot):
                raise UnsupportedError(
                    "a member of a hybrid source cannot resume a batch run",
                    expected="enumerators with SupportsBatchSnapshot",
                    found=type(member.enumerator).__name__,
                    option="resume_batch_runs",
                    hint="use Pipeline(..., streaming=True), which resumes from every source",
                )

    # --- what ended members also receive -----------------------------------------------------

    def start(self) -> None:
        """Start the active member; when a batch run resumes, also those before it."""
        for member in self._open_members():
            member.enumerator.start()

    def add_reader(self, subtask_id: int) -> None:
        """Delegate, as `start` does."""
        for member in self._open_members():
            member.enumerator.add_reader(subtask_id)

    def positions_committed(
        self, checkpoint_id: int, splits: Sequence[HybridSplit], finished: Sequence[HybridSplit]
    ) -> None:
        """Notify each member of its own splits."""
        for member in self._open_members():
            place = member.context.place
            own = [split for split in splits if split.member == place]
            own_finished = [split for split in finished if split.member == place]
            enumerator = member.enumerator
            if (own or own_finished) and isinstance(enumerator, SupportsCommittedPositions):
                enumerator.positions_committed(
                    checkpoint_id, members_splits(own), members_splits(own_finished)
                )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Delegate; close an ended member when its last plan is complete."""
        for member in self._open_members():
            member.enumerator.notify_checkpoint_complete(checkpoint_id)
        for member, last in list(self._ended):
            if last is not None and checkpoint_id >= last:
                self._ended.remove((member, last))
                member.enumerator.close()

    def close(self) -> None:
        """Close all open members."""
        with ExitStack() as stack:
            for member in self._open_members():
                stack.callback(member.enumerator.close)

    def _open_members(self) -> list[_Member]:
        return [*(member for member, _ in self._ended), self._present]


def _recorded(switch: Switch) -> Switch:
    """Return the switch as a plan stores it, so that a factory gets the same after a restart."""
    serializer = JsonDataclassSerializer(Switch)
    return serializer.deserialize(serializer.version, serializer.serialize(switch))
