# SPDX-License-Identifier: Apache-2.0
"""The reader of a hybrid source, which delegates to the reader of each member. Executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from connectors_core.source.events import SourceEvent
from connectors_core.source.hybrid.chain import SourceChain
from connectors_core.source.hybrid.events import HybridSourceEvent
from connectors_core.source.hybrid.split import HybridSplit, split_id_of
from connectors_core.source.hybrid.switches import Switch
from connectors_core.source.members import MemberReaderContext
from connectors_core.source.reader import (
    InputStatus,
    ReaderOutput,
    SourceOutput,
    SourceReader,
    SourceReaderContext,
)


@dataclass(eq=False, repr=False)
class _MemberContext(MemberReaderContext):
    """The context of the reader of a member."""

    member: int
    switches: tuple[Switch, ...]

    def wrapped(self, event: SourceEvent) -> HybridSourceEvent:
        return HybridSourceEvent.of(self.member, self.switches, event)


@dataclass(eq=False, repr=False)
class _MemberOutput:
    """Output for the rows of a member's splits."""

    member: int
    output: ReaderOutput

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        return self.output.create_output_for_split(split_id_of(self.member, split_id))


@dataclass(eq=False, repr=False)
class _Member:
    """A member's reader, created when needed, and the calls stored for it until then."""

    chain: SourceChain
    context: SourceReaderContext
    place: int
    switches: tuple[Switch, ...]
    no_more_splits: bool

    def __post_init__(self) -> None:
        self.ended = False
        self._waiting: list[Any] = []
        self._told = False
        self._reader: SourceReader[Any] | None = None

    def reader(self) -> SourceReader[Any]:
        """The reader; created on first access."""
        if self._reader is None:
            source = self.chain.source(self.place, self.switches)
            context = _MemberContext(self.context, self.place, self.switches)
            self._reader = source.create_reader(context)
            self._reader.start()
            self.hand_over()
        return self._reader

    def add(self, split: Any) -> None:
        self._waiting.append(split)

    def hand_over(self) -> None:
        """Pass the stored calls to the reader, if it exists."""
        if self._reader is None:
            return
        if self._waiting:
            self._reader.add_splits(self._waiting)
            self._waiting = []
        if self.no_more_splits and not self._told:
            self._told = True
            self._reader.notify_no_more_splits()

    def splits(self) -> list[HybridSplit]:
        """Its unfinished splits."""
        splits = self._waiting
        if self._reader is not None:
            splits = self._reader.snapshot_state() + splits
        return [HybridSplit(self.place, self.switches, split) for split in splits]

    def moved_splits(self) -> dict[str, HybridSplit | None] | None:
        """Its splits that moved, or None if its reader does not tell."""
        moved = {} if self._reader is None else self._reader.moved_splits()
        if moved is None:
            return None
        return {
            split_id_of(self.place, name): (
                None if split is None else HybridSplit(self.place, self.switches, split)
            )
            for name, split in moved.items()
        }

    def output(self, output: ReaderOutput) -> ReaderOutput:
        return _MemberOutput(self.place, output)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


class HybridSourceReader(SourceReader[HybridSplit]):
    """Reads the splits of one member after those of another. Executor.

    A plan has splits of one member; a task of a batch run may have some of several.

    Args:
        context: The runtime.
        chain: The members.
    """

    def __init__(self, context: SourceReaderContext, chain: SourceChain) -> None:
        self._context = context
        self._chain = chain
        self._members: dict[int, _Member] = {}
        self._paused: set[str] = set()
        self._no_more_splits = False

    def _member(self, place: int, switches: tuple[Switch, ...]) -> _Member:
        member = self._members.get(place)
        if member is None:
            member = _Member(self._chain, self._context, place, switches, self._no_more_splits)
            self._members[place] = member
        return member

    def _present(self) -> _Member | None:
        """Return the first unfinished member that can continue."""
        for member in self._members.values():
            if not (member.ended or (self._paused and self._all_paused(member))):
                return member
        return None

    def _all_paused(self, member: _Member) -> bool:
        splits = [split.split_id for split in member.splits()]
        return bool(splits) and self._paused.issuperset(splits)

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Poll the active member."""
        while (member := self._present()) is not None:
            status = member.reader().poll_next(member.output(output))
            if status is not InputStatus.END_OF_INPUT:
                return status
            member.ended = True
        ended = self._no_more_splits and all(each.ended for each in self._members.values())
        return InputStatus.END_OF_INPUT if ended else InputStatus.NOTHING_AVAILABLE

    def snapshot_state(self) -> list[HybridSplit]:
        """The unfinished splits of all members."""
        return [split for member in self._members.values() for split in member.splits()]

    def moved_splits(self) -> Mapping[str, HybridSplit | None] | None:
        """Ask all members."""
        moved: dict[str, HybridSplit | None] = {}
        for member in self._members.values():
            of_member = member.moved_splits()
            if of_member is None:
                return None
            moved |= of_member
        return moved

    def wait_available(self, timeout: float) -> bool:
        """Wait for the active member."""
        member = self._present()
        return self._no_more_splits if member is None else member.reader().wait_available(timeout)

    def has_fetched(self) -> bool:
        """Ask the active member."""
        member = self._present()
        return member is None or member.reader().has_fetched()

    def add_splits(self, splits: Sequence[HybridSplit]) -> None:
        """Store the splits for their members."""
        for split in splits:
            self._member(split.member, split.switches).add(split.split)
        for member in self._members.values():
            member.hand_over()

    def notify_no_more_splits(self) -> None:
        """Delegate."""
        self._no_more_splits = True
        for member in self._members.values():
            member.no_more_splits = True
            member.hand_over()

    def handle_source_events(self, event: SourceEvent) -> None:
        """Delegate to its member."""
        assert isinstance(event, HybridSourceEvent)
        member = self._member(event.member, event.switches)
        member.reader().handle_source_events(event.inner(self._chain))

    def pause_or_resume_splits(
        self, splits_to_pause: Sequence[str], splits_to_resume: Sequence[str]
    ) -> None:
        """Delegate to the members of the splits, if they support pausing."""
        for member in self._members.values():
            own = {split.split_id for split in member.splits()}
            to_pause = [_members_id(each) for each in splits_to_pause if each in own]
            to_resume = [_members_id(each) for each in splits_to_resume if each in own]
            if to_pause or to_resume:
                member.reader().pause_or_resume_splits(to_pause, to_resume)
        self._paused = (self._paused | set(splits_to_pause)) - set(splits_to_resume)

    def close(self) -> None:
        """Close the created readers."""
        with ExitStack() as stack:
            for member in self._members.values():
                stack.callback(member.close)


def _members_id(split_id: str) -> str:
    return split_id.partition(":")[2]
