# SPDX-License-Identifier: Apache-2.0
"""Reads the partitions of a task: a thread fetches and decodes, and the task emits rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from connector_kafka.client.config import ClientConfig
from connector_kafka.client.fetch_api import FetchApi, open_fetcher
from connector_kafka.client.fetcher import Fetched, FetchSettings, PartitionRange
from connector_kafka.source.layout import Damaged, RecordLayout
from connector_kafka.source.split import (
    KafkaPartitionSplit,
    KafkaSplitState,
    OffsetsLost,
    PartitionPaused,
)
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

_NOTHING: Final[RecordsBySplits[Fetched]] = RecordsBySplits()


class KafkaSplitReader(SplitReader[Fetched, KafkaPartitionSplit]):
    """Fetches all partitions of a reader concurrently. Fetcher's thread.

    Args:
        config: Properties of the client.
        settings: The settings for reading.
        api: The API for reading records.
    """

    def __init__(self, config: ClientConfig, settings: FetchSettings, api: FetchApi) -> None:
        self._fetcher = open_fetcher(config, settings, api)
        self._came: Iterator[Fetched] = iter(())

    def fetch(self) -> RecordsBySplits[Fetched]:
        """Return the next batch, and wait if there is none."""
        fetched = next(self._came, None)
        if fetched is None:
            self._came = self._fetcher.poll()
            fetched = next(self._came, None)
        if fetched is None:
            return _NOTHING
        records = [(fetched.key, fetched)]
        if fetched.lost is not None:  # a finished split has no position to identify it
            records.append((fetched.key, replace(fetched, lost=None, resume_at=None)))
        finished = frozenset([fetched.key] if fetched.finished else ())
        return RecordsBySplits(records, finished)

    def handle_splits_changes(self, change: SplitsAddition[KafkaPartitionSplit]) -> None:
        """Add partitions."""
        self._fetcher.add(
            PartitionRange(
                key=split.split_id,
                partition=split.topic_partition,
                topic_id=split.topic_id,
                start=split.offset,
                stop=split.stop,
            )
            for split in change.splits
        )

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
        split_state.move_to(element.next_offset)

    def _hand_over(self, damaged: Damaged, split: KafkaPartitionSplit) -> None:
        record = BadRecord(
            reason=damaged.reason,
            source_uid="",  # the runtime knows the split
            split_id=split.split_id,
            position=f"topic {split.topic}, partition {split.partition}, offset {damaged.offset}",
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
    """

    def __init__(
        self,
        context: SourceReaderContext,
        config: ClientConfig,
        settings: FetchSettings,
        layout: RecordLayout,
        api: FetchApi,
    ) -> None:
        manager: SingleThreadMultiplexFetcherManager[Fetched, KafkaPartitionSplit] = (
            SingleThreadMultiplexFetcherManager(
                lambda: KafkaSplitReader(config, settings, api), name="kafka-fetcher"
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
