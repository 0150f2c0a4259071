# SPDX-License-Identifier: Apache-2.0
"""Reads slices one after another, and the next page while the last one is processed. Executor."""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass, replace

from connector_elasticsearch.source.errors import PointInTimeLostError
from connector_elasticsearch.source.pages import Page, PageDecoder, Piece
from connector_elasticsearch.source.searcher import Searcher, SearchSettings
from connector_elasticsearch.source.split import SliceSplit, SliceSplitState
from connectors_core.errors import RetryableError
from connectors_core.records import BadRecord
from connectors_core.source import (
    RecordEmitter,
    RecordsBySplits,
    SingleThreadSequentialFetcherManager,
    SourceOutput,
    SourceReaderBase,
    SourceReaderContext,
    SplitReader,
    SplitsAddition,
)

__all__ = ["SliceReader"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SlicePiece:
    """The result of one fetch.

    Attributes:
        piece: Rows, or a document that cannot be read.
        split: The split to resume from after it.
    """

    piece: Piece
    split: SliceSplit

    @property
    def nbytes(self) -> int:
        """The memory in bytes."""
        batch, damaged = self.piece.batch, self.piece.damaged
        return int(batch.nbytes) if batch is not None else len(damaged.raw) if damaged else 0


class SliceSplitReader(SplitReader[SlicePiece, SliceSplit]):
    """Requests one page after another. Fetcher's thread.

    Args:
        settings: The settings of the searches.
    """

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings
        self._woken = threading.Event()
        self._searcher = Searcher(settings, self._woken)
        self._decoder = PageDecoder(settings.projected_decoder())
        self._projects = settings.projection is not None and settings.projection.is_exact
        self._waiting: deque[SliceSplit] = deque()
        self._pieces: deque[SlicePiece] = deque()
        self._is_last = False  # no pages remain after the pieces

    def fetch(self) -> RecordsBySplits[SlicePiece]:
        """Return the next piece, and request a page if there is none."""
        if not self._waiting:
            return RecordsBySplits()
        split = self._waiting[0]
        if not self._pieces:
            try:
                self._ask(split)
            except RetryableError:
                if not self._woken.is_set():
                    raise
                self._woken.clear()  # the next fetch, if any, requests it again
                return RecordsBySplits()
        if not self._pieces:
            self._waiting.popleft()
            return RecordsBySplits(finished_splits=frozenset([split.split_id]))
        piece = self._pieces.popleft()
        if self._pieces or not self._is_last:
            self._waiting[0] = piece.split
            return RecordsBySplits([(split.split_id, piece)])
        self._waiting.popleft()
        return RecordsBySplits([(split.split_id, piece)], frozenset([split.split_id]))

    def handle_splits_changes(self, change: SplitsAddition[SliceSplit]) -> None:
        """Add slices."""
        self._waiting.extend(change.splits)

    def wake_up(self) -> None:
        """Stop waiting for a response or a retry."""
        self._woken.set()
        self._searcher.cancel()

    def close(self) -> None:
        """Close the connections."""
        self._searcher.close()

    def _ask(self, split: SliceSplit) -> None:
        if split.left == 0:
            self._is_last = True
            return
        try:
            page = self._page(split)
        except PointInTimeLostError as error:
            if self._settings.sort_field is None:
                raise
            _logger.warning("the reader continues in a new point in time", exc_info=error)
            # The field's value stays valid, but the tiebreaker belongs to the lost point in time.
            split = replace(split, point_in_time=self._searcher.open().id, after=split.after[:1])
            page = self._page(split)
        for piece in page.pieces:
            piece = self._restored(piece)
            split = split.behind(
                page.point_in_time or split.point_in_time, piece.after, piece.documents
            )
            self._pieces.append(SlicePiece(piece, split))
        self._is_last = page.hits < self._settings.page_size or split.left == 0

    def _page(self, split: SliceSplit) -> Page:
        """Request a page, if possible with only the needed fields.

        The server rewrites the documents of such a page. If the documents match the mapping, their
        values stay the same. Otherwise, the text of a number could differ, for example.
        """
        if self._projects:
            page = self._searcher.page(split, self._decoder.decode_at_once, projected=True)
            if page is not None:
                return page
            self._projects = False
        return self._searcher.page(split, self._decoder.decode)

    def _restored(self, piece: Piece) -> Piece:
        projection = self._settings.projection
        if projection is None or piece.batch is None:
            return piece
        return replace(piece, batch=projection.restored(piece.batch))


class SliceEmitter(RecordEmitter[SlicePiece, SliceSplitState]):
    """Emits rows and reports documents that cannot be read. Task's thread.

    Args:
        context: The context of the reader.
    """

    def __init__(self, context: SourceReaderContext) -> None:
        self._context = context

    def emit_record(
        self, element: SlicePiece, output: SourceOutput, split_state: SliceSplitState
    ) -> None:
        """See `RecordEmitter`."""
        if (damaged := element.piece.damaged) is not None:
            record = BadRecord(
                reason=damaged.reason,
                source_uid="",
                split_id=element.split.split_id,
                position=damaged.document,
                raw=damaged.raw,
            )
            self._context.record_errors.handle(record)
        if element.piece.batch is not None:
            output.collect(element.piece.batch)
        split_state.move_to(element.split)


class SliceReader(SourceReaderBase[SlicePiece, SliceSplit, SliceSplitState]):
    """Reads slices one after another.

    Args:
        context: The context of the reader.
        settings: The settings of the searches.
    """

    def __init__(self, context: SourceReaderContext, settings: SearchSettings) -> None:
        manager: SingleThreadSequentialFetcherManager[SlicePiece, SliceSplit] = (
            SingleThreadSequentialFetcherManager(
                lambda: SliceSplitReader(settings), name="elasticsearch-reader"
            )
        )
        super().__init__(context, manager, SliceEmitter(context), request_splits=True)

    def initialized_state(self, split: SliceSplit) -> SliceSplitState:
        """The mutable position in a slice."""
        return SliceSplitState(split)
