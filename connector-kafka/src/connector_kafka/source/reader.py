# SPDX-License-Identifier: Apache-2.0
"""Reads the partitions of a task: a thread fetches and decodes, and the task emits rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from connector_kafka.client.config import ClientConfig
from connector_kafka.client.fetch_api import FetchApi, open_fetcher
from connector_kafka.client.fetcher import Fetched, FetchSettings, PartitionRange
from connector_kafka.client.metadata import TopicPartition
from connector_kafka.source.bounds import Bounds
from connector_kafka.source.layout import Damaged, RecordLayout
from connector_kafka.source.split import (
    KafkaPartitionSplit,
    KafkaSplitState,
    OffsetsLost,
    PartitionPaused,
)
from connectors_core.errors import ConnectorError, RetryableError
from connectors_core.metrics import SourceMetric
from connectors_core.records import BadRecord
from connectors_core.source import (
    RecordEmitter,
    RecordsBySplits,
    SingleThreadMultiplexFetcherManager,
    SourceOutput,
    SourceReaderBase,
    SourceReaderContext,
    SplitReader,
    SplitsAddition,
)

__all__ = ["KafkaSourceReader"]

_logger = logging.getLogger(__name__)

_NOTHING: Final[RecordsBySplits[Fetched]] = RecordsBySplits()
_NO_LATER_RECORD: Final = 2**63 - 1


class KafkaSplitReader(SplitReader[Fetched, KafkaPartitionSplit]):
    """Fetches all partitions of a reader concurrently. Fetcher's thread.

    Args:
        config: Properties of the client.
        settings: The settings for reading.
        api: The API for reading records.
        bounds: The offsets outside of which no record needs to be read.
    """

    def __init__(
        self, config: ClientConfig, settings: FetchSettings, api: FetchApi, bounds: Bounds
    ) -> None:
        self._fetcher = open_fetcher(config, settings, api)
        self._bounds = bounds
        self._stops: dict[str, int] = {}  # of the splits whose range is narrower than planned
        self._came: Iterator[Fetched] = iter(())

    def fetch(self) -> RecordsBySplits[Fetched]:
        """Return the next batch, and wait if there is none."""
        fetched = next(self._came, None)
        if fetched is None:
            self._came = self._fetcher.poll()
            fetched = next(self._came, None)
        if fetched is None:
            return _NOTHING
        if fetched.finished and fetched.key in self._stops:
            fetched = replace(fetched, next_offset=self._stops.pop(fetched.key))
        records = [(fetched.key, fetched)]
        if fetched.lost is not None:  # a finished split has no position to identify it
            records.append((fetched.key, replace(fetched, lost=None, resume_at=None, cut_at=None)))
        finished = frozenset([fetched.key] if fetched.finished else ())
        return RecordsBySplits(records, finished)

    def handle_splits_changes(self, change: SplitsAddition[KafkaPartitionSplit]) -> None:
        """Add partitions."""
        sought = self._sought([each for each in change.splits if each.stop is not None])
        self._fetcher.add(self._range(split, sought) for split in change.splits)

    def _range(
        self, split: KafkaPartitionSplit, sought: Mapping[TopicPartition, int]
    ) -> PartitionRange:
        """Return the offsets to fetch of a split, at least one unless all are excluded.

        The fetch of the last one shows that the range still exists.
        """
        start, stop, bounds = split.offset, split.stop, self._bounds
        if stop is not None and not split.pauses and bounds != Bounds():
            self._stops[split.split_id] = stop
            if bounds.last is not None:
                stop = max(start, min(stop, bounds.last + 1))
            first = max(start, bounds.first or 0, sought.get(split.topic_partition, 0))
            start = max(start, min(first, stop - 1))
        return PartitionRange(
            key=split.split_id,
            partition=split.topic_partition,
            topic_id=split.topic_id,
            start=start,
            stop=stop,
            leader_epoch=split.leader_epoch if start == split.offset else -1,
        )

    def _sought(self, splits: Sequence[KafkaPartitionSplit]) -> dict[TopicPartition, int]:
        """Return the first offsets whose timestamps are not too early."""
        since = self._bounds.since
        partitions = {each.topic_partition for each in splits if not each.pauses}
        if since is None or not partitions:
            return {}
        try:
            found = self._fetcher.offsets_at(partitions, since)
        except RetryableError:
            raise
        except ConnectorError as error:  # old message formats have no timestamps
            _logger.warning("the reader fetches all records: %s", error)
            return {}
        return {each: found.get(each, _NO_LATER_RECORD) for each in partitions}

    def pause_or_resume_splits(self, pause: Sequence[str], resume: Sequence[str]) -> None:
        """Exclude these partitions from the next fetches, or include them again."""
        self._fetcher.pause_or_resume(pause, resume)

    def wake_up(self) -> None:
        """Stop waiting for records."""
        self._fetcher.wake_up()

    def close(self) -> None:
        """Close the connections."""
        self._fetcher.close()


class KafkaRecordEmitter(RecordEmitter[Fetched, KafkaSplitState]):
    """Converts records to rows. Task's thread.

    Args:
        context: The context of the reader.
        layout: The columns.
    """

    def __init__(self, context: SourceReaderContext, layout: RecordLayout) -> None:
        self._context = context
        self._layout = layout

    def emit_record(
        self, element: Fetched, output: SourceOutput, split_state: KafkaSplitState
    ) -> None:
        """See `RecordEmitter`."""
        split = split_state.split
        self._context.metric_group.inc(SourceMetric.NUM_BYTES_IN, element.raw_bytes)
        if element.lost is not None:
            resume_at = element.resume_at
            if resume_at is not None and split.last_stop is not None:
                resume_at = min(resume_at, split.last_stop)  # nothing is read after it
            self._context.send_source_event_to_coordinator(
                OffsetsLost(
                    split.topic,
                    split.partition,
                    element.lost.start,
                    element.lost.stop,
                    split.split_id,
                    resume_at,
                    element.cut_at,
                    split.cuts,
                )
            )
            split_state.pass_over(element.lost.stop - element.lost.start)
        if element.records is not None:
            made = self._layout.rows(element.records, split.topic, split.partition)
            for damaged in made.damaged:
                self._hand_over(damaged, split)
            output.pass_over(made.excluded_before)
            output.collect(made.rows)
            output.pass_over(made.excluded_after)
        split_state.move_to(element.next_offset, element.leader_epoch)

    def _hand_over(self, damaged: Damaged, split: KafkaPartitionSplit) -> None:
        cluster = self._layout.cluster
        position = f"topic {split.topic}, partition {split.partition}, offset {damaged.offset}"
        record = BadRecord(
            reason=damaged.reason,
            source_uid="",  # the runtime knows the split
            split_id=split.id_in(cluster),
            position=f"cluster {cluster}, {position}" if cluster else position,
            raw=damaged.raw,
        )
        self._context.record_errors.handle(record, cause=damaged.cause)


class KafkaSourceReader(SourceReaderBase[Fetched, KafkaPartitionSplit, KafkaSplitState]):
    """Reads all partitions of a task with one thread and one connection per broker.

    Args:
        context: The context of the reader.
        config: Properties of the client.
        settings: The settings for reading.
        layout: The columns.
        api: The API for reading records.
        bounds: The offsets outside of which no record needs to be read or counted.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        config: ClientConfig,
        settings: FetchSettings,
        layout: RecordLayout,
        api: FetchApi,
        bounds: Bounds,
    ) -> None:
        manager: SingleThreadMultiplexFetcherManager[Fetched, KafkaPartitionSplit] = (
            SingleThreadMultiplexFetcherManager(
                lambda: KafkaSplitReader(config, settings, api, bounds), name="kafka-fetcher"
            )
        )
        super().__init__(context, manager, KafkaRecordEmitter(context, layout))

    def initialized_state(self, split: KafkaPartitionSplit) -> KafkaSplitState:
        """The mutable position in a split."""
        return KafkaSplitState(split)

    def on_split_finished(self, finished: Mapping[str, KafkaSplitState]) -> None:
        """Tell the enumerator where a later run resumes."""
        for state in finished.values():
            split = state.to_split()
            if split.pauses:
                later = split.resumed_later(split.offset)
                self.context.send_source_event_to_coordinator(PartitionPaused(later))
