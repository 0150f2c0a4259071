# SPDX-License-Identifier: Apache-2.0
"""Converts rows to records that a broker accepts. Others become bad records here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connector_kafka.client.errors import missing_topic
from connector_kafka.records import measured, refused_rows, wrong_partitions
from connector_kafka.sink.changelog import UpsertMode, last_of_each_key
from connector_kafka.sink.partition_assigner import PartitionAssigner
from connector_kafka.sink.record_serialization import KafkaRecordSerializationSchema
from connectors_core.records import BadRecord
from connectors_core.sink import (
    ROW_KIND_COLUMN,
    WriterInitContext,
    is_deletion,
    is_replaced,
    is_unknown_row_kind,
)

__all__ = ["PreparedRecords", "RecordPreparation"]

_ROW: Final = "row"
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")

_Mask = npt.NDArray[np.bool_]
_RowsOf = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, kw_only=True)
class PreparedRecords:
    """Records of one topic.

    Attributes:
        topic: The topic.
        partitions: The partition of each record.
        records: The input of `Encoder.encode`, which ignores other columns.
    """

    topic: str
    partitions: npt.NDArray[np.int32]
    records: pa.RecordBatch


@dataclass(eq=False, repr=False)
class RecordPreparation:
    """Converts the rows of one writer to records, and reports bad ones to the record policy.

    Executor.

    Args:
        schema: Maps columns to the parts of a record.
        upsert: How to write row kinds, or None if rows are only inserted.
        max_request_size: The maximum size of a record. A larger one is a bad record.
        assigner: Assigns each record to a partition.
        partitions_of: Returns the number of partitions of topics, without those that do not exist.
        context: The context of the writer.
    """

    schema: KafkaRecordSerializationSchema
    _: KW_ONLY
    upsert: UpsertMode | None
    max_request_size: int
    assigner: PartitionAssigner
    partitions_of: Callable[[Iterable[str]], Mapping[str, int]]
    context: WriterInitContext
    _rows_seen: int = field(default=0, init=False)

    def prepare(self, batch: pa.RecordBatch) -> Iterator[PreparedRecords]:
        """Convert a batch of rows to records, topic by topic.

        Raises:
            BadRecordError: The record policy is `fail` and a row cannot become a record.
            ConfigurationError: The topic does not exist.
        """
        has_kinds = self.upsert is not None and ROW_KIND_COLUMN in batch.schema.names
        kinds = batch.column(ROW_KIND_COLUMN) if has_kinds else None
        deleted = None if kinds is None else is_deletion(kinds)
        serialized = self.schema.serialize(batch, deleted=deleted)
        numbers = np.arange(self._rows_seen, self._rows_seen + batch.num_rows)
        self._rows_seen += batch.num_rows
        records = measured(serialized.records).append_column(_ROW, pa.array(numbers))
        good = np.ones(batch.num_rows, np.bool_)
        refused = refused_rows(records, max_request_size=self.max_request_size)
        bad = {each.at: (each.reason, each.cause) for each in serialized.bad}
        bad |= {at: (reason, None) for at, reason in refused.items()}
        for at, (reason, cause) in sorted(bad.items()):
            good[at] = False
            self._refuse_row(records, at, reason, cause)
        if self.upsert is not None:
            no_key = _mask(records.column("key").is_null())
            self._refuse(records, good, no_key, "the record of an upsert has no key")
            if kinds is not None:
                self._refuse(
                    records,
                    good,
                    _mask(is_unknown_row_kind(kinds)),
                    f"unknown row kind in {ROW_KIND_COLUMN!r}",
                )
                good &= ~_mask(is_replaced(kinds, records.column("key")))
        records = _filtered(records, good)
        if self.upsert is UpsertMode.LAST_OF_EACH_KEY:
            records = last_of_each_key(records)

        def rows_of(chosen: pa.RecordBatch) -> pa.RecordBatch:
            return batch.take(pc.subtract(chosen.column(_ROW), int(numbers[0])))

        yield from self._by_topic(records, rows_of)

    def _by_topic(self, records: pa.RecordBatch, rows_of: _RowsOf) -> Iterator[PreparedRecords]:
        fixed = self.schema.topic
        if not records.num_rows:
            return
        if fixed is not None:
            counts = self.partitions_of([fixed])
            if fixed not in counts:
                raise missing_topic(fixed)
            yield from self._partitioned(fixed, records, counts[fixed], rows_of)
            return
        topics = records.column("topic").dictionary_encode()
        names = topics.dictionary.to_pylist()
        counts = self.partitions_of([name for name in names if _is_topic_name(name)])
        codes = topics.indices.fill_null(len(names)).to_numpy()
        good = np.ones(len(codes), np.bool_)
        pattern = self.schema.topic_pattern or ".*"
        matches = np.array([*(re.fullmatch(pattern, name) is not None for name in names), False])
        exists = np.array([*(name in counts for name in names), False])
        self._refuse(records, good, codes == len(names), "the record has no topic")
        self._refuse(records, good, ~matches[codes], "the topic does not match the pattern")
        self._refuse(records, good, ~exists[codes], "the topic does not exist")
        for code in np.unique(codes[good]).tolist():
            chosen = records.filter(pa.array(codes == code))
            yield from self._partitioned(names[code], chosen, counts[names[code]], rows_of)

    def _partitioned(
        self, topic: str, records: pa.RecordBatch, count: int, rows_of: _RowsOf
    ) -> Iterator[PreparedRecords]:
        if "partition" in records.schema.names:
            good = np.ones(records.num_rows, np.bool_)
            wrong = np.zeros(records.num_rows, np.bool_)
            wrong[wrong_partitions(records.column("partition"), count)] = True
            self._refuse(records, good, wrong, "the topic does not have this partition")
            records = _filtered(records, good)
        if records.num_rows:
            yield PreparedRecords(
                topic=topic,
                partitions=self.assigner.assign(topic, records, count, rows_of),
                records=records,
            )

    # --- Bad records ------------------------------------------------------------------------------

    def _refuse(self, records: pa.RecordBatch, good: _Mask, bad: _Mask, reason: str) -> None:
        """Report the rows that have become bad, and mark them as bad."""
        for at in np.flatnonzero(bad & good).tolist():
            self._refuse_row(records, at, reason)
        good &= ~bad

    def _refuse_row(
        self, records: pa.RecordBatch, at: int, reason: str, cause: Exception | None = None
    ) -> None:
        row = records.column(_ROW)[at].as_py()
        self.context.metric_group.inc("numRecordsSendErrors")
        self.context.record_errors.handle(
            BadRecord(
                reason=reason,
                source_uid=self.context.sink_uid,
                code="KAFKA_RECORD",
                position=f"row {row} of subtask {self.context.subtask_id}",
                raw=records.column("value")[at].as_py(),
            ),
            cause=cause,
        )


def _is_topic_name(name: str) -> bool:
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


def _filtered(records: pa.RecordBatch, good: _Mask) -> pa.RecordBatch:
    return records if good.all() else records.filter(pa.array(good))


def _mask(column: pa.Array) -> _Mask:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
