# SPDX-License-Identifier: Apache-2.0
"""The skeleton of a source reader: fetchers, and the position of every split."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from connectors_core.errors import FatalError
from connectors_core.source.base.element_queue import FetchedElement
from connectors_core.source.base.fetcher import SplitFetcherManager
from connectors_core.source.base.split_reader import E
from connectors_core.source.reader import (
    InputStatus,
    ReaderOutput,
    SourceOutput,
    SourceReader,
    SourceReaderContext,
)
from connectors_core.source.split import SplitState, SplitT

SplitStateT = TypeVar("SplitStateT", bound=SplitState[Any])


class RecordEmitter(ABC, Generic[E, SplitStateT]):
    """Converts a fetched element to a batch of the source's schema (Flink's FLIP-27).

    Runs on the task's thread. The same element and position must give the same rows.
    """

    @abstractmethod
    def emit_record(self, element: E, output: SourceOutput, split_state: SplitStateT) -> None:
        """Emit the rows of one element and advance the position past them.

        Args:
            element: The result of the split reader.
            output: Accepts at most one batch in this call, none if all rows were bad.
            split_state: The split's position; set it to the position after the element.
        """


class SourceReaderBase(SourceReader[SplitT], Generic[E, SplitT, SplitStateT]):
    """A source reader based on fetcher threads (Flink's FLIP-27). Executor, one per plan entry.

    Each poll takes exactly one fetched element, or one end of a split, so that the positions after
    a poll directly follow the emitted rows. A split leaves :meth:`snapshot_state` when its last
    element is emitted, however far ahead the fetchers are. Fetched elements of a paused split are
    held back.

    Args:
        context: The runtime.
        fetcher_manager: Runs the split readers; closed with this reader.
        record_emitter: Converts elements to batches.
        request_splits: Whether to ask the enumerator for a split when all splits are finished,
            or if the entry had none. Set it for sources whose enumerator assigns on request.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        fetcher_manager: SplitFetcherManager[E, SplitT],
        record_emitter: RecordEmitter[E, SplitStateT],
        *,
        request_splits: bool = False,
    ) -> None:
        self._context = context
        self._manager = fetcher_manager
        self._emitter = record_emitter
        self._request_splits = request_splits
        self._states: dict[str, SplitStateT] = {}  # the unfinished splits, in the order given
        self._moved: dict[str, None] = {}
        self._paused: set[str] = set()
        self._held: list[
            FetchedElement[E]
        ] = []  # taken from the queue while their split was paused
        self._no_more_splits = False
        self._requested = False
        self._closed = False

    @property
    def context(self) -> SourceReaderContext:
        """The runtime."""
        return self._context

    @abstractmethod
    def initialized_state(self, split: SplitT) -> SplitStateT:
        """Return the initial position state of an added split."""

    def on_split_finished(self, finished: Mapping[str, SplitStateT]) -> None:
        """Handle splits that were emitted to their end.

        Args:
            finished: Their last states by split id.
        """

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit the next element, at most one batch; never blocks.

        Raises:
            ConnectorError: A fetcher failed; `FetchError` if the cause is not a core error.
        """
        entry = self._next_entry()
        if entry is None:
            if self._no_more_splits and not self._states:
                return InputStatus.END_OF_INPUT
            return InputStatus.NOTHING_AVAILABLE
        self._moved[entry.split_id] = None
        if entry.element is not None:
            split_output = output.create_output_for_split(entry.split_id)
            self._emitter.emit_record(entry.element, split_output, self._states[entry.split_id])
        if entry.finished:
            self._finish(entry.split_id)
        return InputStatus.MORE_AVAILABLE

    def snapshot_state(self) -> list[SplitT]:
        """Return the unfinished splits at the positions after the last emitted element."""
        return [state.to_split() for state in self._states.values()]

    def moved_splits(self) -> Mapping[str, SplitT | None] | None:
        """Return the positions that moved since the last call, unless a subclass has its own."""
        if type(self).snapshot_state is not SourceReaderBase.snapshot_state:
            return None
        moved, self._moved = self._moved, {}
        states = ((split_id, self._states.get(split_id)) for split_id in moved)
        return {name: None if state is None else state.to_split() for name, state in states}

    def wait_available(self, timeout: float) -> bool:
        """Block until a poll can return something, for at most ``timeout`` seconds.

        It may return too early when an element of a paused split arrives; this is rare.
        """
        if any(entry.split_id not in self._paused for entry in self._held):
            return True
        if self._no_more_splits and not self._states:
            return True
        if self._held and self._manager.ordered:  # nothing overtakes the paused split
            time.sleep(timeout)
            return False
        return self._manager.queue.wait_available(timeout)

    def has_fetched(self) -> bool:
        """Return whether each thread has completed a fetch of its splits."""
        return self._manager.has_fetched

    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Add splits and start fetching them.

        Raises:
            FatalError: A split is already being read, or the reader is closed.
        """
        for split in splits:
            if self._closed or split.split_id in self._states:
                raise FatalError(
                    f"the split {split.split_id!r} cannot be added",
                    expected="an open reader, and each split only once",
                    found="a closed reader"
                    if self._closed
                    else "a split that is already being read",
                )
            self._states[split.split_id] = self.initialized_state(split)
            self._moved[split.split_id] = None
            self._requested = False
        self._manager.add_splits(splits)

    def notify_no_more_splits(self) -> None:
        """No more splits follow in this entry."""
        self._no_more_splits = True
        self._request_split_if_idle()

    def pause_or_resume_splits(
        self, splits_to_pause: Sequence[str], splits_to_resume: Sequence[str]
    ) -> None:
        """Pause or resume emitting and fetching these splits (ids).

        In an ordered reader, a paused split blocks later ones.

        Raises:
            NotImplementedError: One split reader reads several splits and cannot leave out
                single ones. Nothing has changed then.
        """
        to_pause = [split_id for split_id in splits_to_pause if split_id in self._states]
        self._manager.pause_or_resume_splits(to_pause, splits_to_resume)
        self._paused |= set(to_pause)
        self._paused -= set(splits_to_resume)

    def close(self) -> None:
        """Stop the fetchers. A second call has no effect."""
        if not self._closed:
            self._closed = True
            self._held.clear()
            self._manager.close()

    def _next_entry(self) -> FetchedElement[E] | None:
        for at, entry in enumerate(self._held):
            if entry.split_id not in self._paused:
                return self._held.pop(at)
            if self._manager.ordered:
                return None
        while (fetched := self._manager.queue.poll()) is not None:
            if fetched.split_id not in self._paused:
                return fetched
            self._held.append(fetched)
            if self._manager.ordered:
                return None
        return None

    def _finish(self, split_id: str) -> None:
        state = self._states.pop(split_id)
        self._paused.discard(split_id)
        self.on_split_finished({split_id: state})
        self._request_split_if_idle()

    def _request_split_if_idle(self) -> None:
        if self._request_splits and not self._states and not self._requested:
            self._requested = True
            self._context.send_split_request()
