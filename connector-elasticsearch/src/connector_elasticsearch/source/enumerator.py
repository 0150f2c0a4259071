# SPDX-License-Identifier: Apache-2.0
"""Opens the point in time, assigns its slices, and keeps it alive until all are read. Driver."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Final

from connector_elasticsearch.source.errors import PointInTimeLostError
from connector_elasticsearch.source.searcher import (
    PointInTime,
    Searcher,
    SearchSettings,
    with_point_in_time,
)
from connector_elasticsearch.source.split import SliceSplit
from connectors_core.errors import ConnectorError
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import (
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsBatchSnapshot,
    SupportsCommittedPositions,
)

__all__ = ["SliceEnumerator", "SliceEnumeratorState", "state_serializer"]

_logger = logging.getLogger(__name__)

# More slices than readers, so that a reader that ends early finds another slice.
_SLICES_PER_READER: Final = 2
_KEEPING_PER_LIFE: Final = 3


@dataclass(frozen=True, kw_only=True)
class SliceEnumeratorState:
    """The state to resume from.

    Attributes:
        point_in_time: The server's ID of the point in time, or None before it is opened.
        waiting: Unassigned slices.
        unread: IDs of the slices that are not read completely.
    """

    point_in_time: str | None = None
    waiting: tuple[SliceSplit, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(eq=False, repr=False)
class SliceEnumerator(
    SplitEnumerator[SliceSplit, SliceEnumeratorState],
    SupportsCommittedPositions[SliceSplit],
    SupportsBatchSnapshot,
):
    """Assigns slices on request.

    A batch run does not keep its point in time alive. The point in time expires when it is not used
    for its keep-alive time.

    Args:
        context: The coordinator.
        settings: The settings of the searches.
        slices: The number of slices, or None for twice the number of readers.
        limit: The maximum number of documents to read, or None for no limit.
        state: The state to resume from.
    """

    context: SplitEnumeratorContext[SliceSplit]
    settings: SearchSettings
    _: KW_ONLY
    slices: int | None
    limit: int | None
    state: InitVar[SliceEnumeratorState]

    def __post_init__(self, state: SliceEnumeratorState) -> None:
        self._point_in_time = state.point_in_time
        self._waiting = list(state.waiting)
        self._unread = set(state.unread)
        self._asking: list[int] = []

    def start(self) -> None:
        """Open the point in time, or keep the existing one."""
        if self._point_in_time is None:
            self.context.call_async(self._open, self._take)
        else:
            self._keep()

    def handle_split_request(self, subtask_id: int) -> None:
        """Assign the next slice."""
        self._asking.append(subtask_id)
        self._assign()

    def add_reader(self, subtask_id: int) -> None:
        """Do nothing: a reader requests a slice when it has nothing to read."""

    def add_splits_back(self, splits: Sequence[SliceSplit], subtask_id: int) -> None:
        """Return the slices of a failed reader for reassignment."""
        self._waiting.extend(splits)
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> SliceEnumeratorState:
        """See `SplitEnumerator`."""
        return SliceEnumeratorState(
            point_in_time=self._point_in_time,
            waiting=tuple(self._waiting),
            unread=tuple(sorted(self._unread)),
        )

    def positions_committed(
        self, checkpoint_id: int, splits: Sequence[SliceSplit], finished: Sequence[SliceSplit]
    ) -> None:
        """Record which slices were read completely."""
        self._unread -= {split.split_id for split in finished}

    def close(self) -> None:
        """Close the point in time when no reader will read it again."""
        name = self._point_in_time
        if name is None or self._unread or self._waiting:
            return
        try:
            with_point_in_time(self.settings, lambda searcher: searcher.close_point_in_time(name))
        except ConnectorError as error:  # it expires by itself
            _logger.warning("the point in time could not be closed", exc_info=error)

    def _open(self) -> PointInTime:
        return with_point_in_time(self.settings, Searcher.open)

    def _take(self, opened: PointInTime | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        assert opened is not None
        self._point_in_time = opened.id
        number = self.slices or self.context.current_parallelism * _SLICES_PER_READER
        if self.limit is not None or self.settings.sort_field != self.settings.slice_field:
            number = 1
        self._waiting = [
            SliceSplit(
                split_id=f"{slice_number}/{number}",
                point_in_time=opened.id,
                slice=slice_number,
                slices=number,
                documents=opened.documents // number,
                limit=self.limit,
            )
            for slice_number in range(number)
        ]
        self._unread = {split.split_id for split in self._waiting}
        self._keep()
        self._assign()

    def _keep(self) -> None:
        """Extend the point in time at intervals, because readers only extend it while they read."""
        name = self._point_in_time
        assert name is not None
        self.context.call_async(
            lambda: with_point_in_time(self.settings, lambda searcher: searcher.keep(name)),
            self._kept,
            initial_delay=self.settings.keep_alive / _KEEPING_PER_LIFE,
            period=self.settings.keep_alive / _KEEPING_PER_LIFE,
        )

    def _kept(self, _: None, error: BaseException | None) -> None:
        if error is None or not self._unread:
            return
        if isinstance(error, PointInTimeLostError) and self.settings.sort_field is None:
            raise error
        _logger.warning("the point in time could not be kept", exc_info=error)

    def _assign(self) -> None:
        if self._point_in_time is None:
            return
        asking, self._asking = self._asking, []
        for subtask in asking:
            if self._waiting:
                self.context.assign_split(self._waiting.pop(0), subtask)
            else:
                self.context.signal_no_more_splits(subtask)


def state_serializer() -> JsonDataclassSerializer[SliceEnumeratorState]:
    """JSON."""
    return JsonDataclassSerializer(SliceEnumeratorState, version=1)
