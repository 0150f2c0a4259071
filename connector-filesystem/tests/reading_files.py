# SPDX-License-Identifier: Apache-2.0
"""Reads files as the runtime does, without a pipeline."""

from __future__ import annotations

import time

import pyarrow as pa

from connector_filesystem.source.reader import read_split
from connectors_core.metrics import MetricGroup
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.source import InputStatus


def splits_of(source):
    source.schema()
    enumerator_files = source._selection.files(may_be_missing=False)
    return [split for file in enumerator_files for split in source._selection.splits_of(file)]


def chunks_of(source, splits=None):
    settings = source.read_settings()
    return [chunk for split in splits or splits_of(source) for chunk in read_split(settings, split)]


def table_of(source, splits=None):
    """Return the good rows, and skip bad records."""
    batches = [chunk.batch for chunk in chunks_of(source, splits) if chunk.batch is not None]
    return pa.Table.from_batches(batches, schema=source.schema())


def rows_of(source, splits=None):
    return table_of(source, splits).to_pylist()


class Context:
    index_of_subtask = 0
    current_parallelism = 1

    def __init__(self, policy=None, open_spool=None):
        self.metric_group = MetricGroup()
        self.record_errors = RecordErrorHandler(policy or RecordPolicy.fail(), open_spool)
        self.requests = 0

    def send_split_request(self):
        self.requests += 1


class Output:
    def __init__(self):
        self.batches = []

    def create_output_for_split(self, split_id):
        return self

    def collect(self, batch):
        self.batches.append(batch)


def poll_all(source, context, splits=None, polls=None):
    """Read as the runtime does, and return the rows and the remaining splits."""
    reader, output = source.create_reader(context), Output()
    try:
        reader.start()
        reader.add_splits(splits_of(source) if splits is None else splits)
        reader.notify_no_more_splits()
        deadline = time.monotonic() + 20
        done = 0
        while polls is None or done < polls:
            assert time.monotonic() < deadline
            status = reader.poll_next(output)
            if status is InputStatus.END_OF_INPUT:
                break
            if status is InputStatus.NOTHING_AVAILABLE:
                reader.wait_available(0.1)
            else:
                done += 1
        rest = reader.snapshot_state()
    finally:
        reader.close()
    return [row for batch in output.batches for row in batch.to_pylist()], rest
