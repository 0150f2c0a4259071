# SPDX-License-Identifier: Apache-2.0
"""The reader skeleton after Flink's ``SourceReaderBase`` (FLIP-27), on Arrow batches."""

from connectors_core.source.base.element_queue import ElementQueue, FetchedElement, FetchError
from connectors_core.source.base.fetcher import (
    SingleThreadMultiplexFetcherManager,
    SingleThreadSequentialFetcherManager,
    SplitFetcher,
    SplitFetcherManager,
    ThreadPerSplitFetcherManager,
)
from connectors_core.source.base.source_reader_base import RecordEmitter, SourceReaderBase
from connectors_core.source.base.split_reader import (
    PositionedBatch,
    RecordsBySplits,
    SplitReader,
    SplitsAddition,
)

__all__ = [
    "ElementQueue",
    "FetchError",
    "FetchedElement",
    "PositionedBatch",
    "RecordEmitter",
    "RecordsBySplits",
    "SingleThreadMultiplexFetcherManager",
    "SingleThreadSequentialFetcherManager",
    "SourceReaderBase",
    "SplitFetcher",
    "SplitFetcherManager",
    "SplitReader",
    "SplitsAddition",
    "ThreadPerSplitFetcherManager",
]
