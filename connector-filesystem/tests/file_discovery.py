# SPDX-License-Identifier: Apache-2.0
"""Enumerates the files of a source without a pipeline."""

from __future__ import annotations

import os
from datetime import timedelta

from connector_filesystem import FileSource
from connector_filesystem.listing import Listing
from connector_filesystem.source.enumerator import FileEnumerator
from connectors_core.metrics import MetricGroup


class Context:
    """A coordinator whose worker calls run when a test triggers them."""

    def __init__(self, readers=(0,), event_time_order=False):
        self.registered_readers = frozenset(readers)
        self.current_parallelism = len(readers)
        self.event_time_order = event_time_order
        self.metric_group = MetricGroup()
        self.assigned = []
        self.ended = []
        self.calls = []

    def call_async(self, call, handler, *, initial_delay=timedelta(0), period=None):
        self.calls.append((call, handler, period))

    def run_calls(self):
        pending, self.calls = self.calls, [each for each in self.calls if each[2] is not None]
        for call, handler, _ in pending:
            try:
                result = call()
            except Exception as exc:
                handler(None, exc)
            else:
                handler(result, None)

    def split_found(self, split):
        return split.event_time_lower_bound()

    def assign_split(self, split, subtask_id):
        self.assigned.append((subtask_id, split))

    def signal_no_more_splits(self, subtask_id):
        self.ended.append(subtask_id)

    @property
    def names(self):
        return [split.path.rpartition("/")[2] for _, split in self.assigned]


def write(path, mtime, content="x\n1\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (mtime, mtime))


def files(source):
    return [
        source._selection.relative(file.path)
        for file in source._selection.files(may_be_missing=False)
    ]


def take_all(enumerator, context, reader=0):
    """Request splits until none is left, and return the names of the assigned files."""
    before = len(context.assigned)
    while True:
        count = len(context.assigned)
        enumerator.handle_split_request(reader)
        if len(context.assigned) == count:
            return context.names[before:]


def monitored(path, **options):
    return FileSource(path, schema="x INT", monitor_interval=timedelta(seconds=1), **options)


def started(source, context):
    """Return an enumerator that has listed once."""
    enumerator = source.create_enumerator(context)
    enumerator.start()
    context.run_calls()
    return enumerator


def restored(source, enumerator, context):
    serializer = source.enumerator_state_serializer()
    data = serializer.serialize(enumerator.snapshot_state(1))
    again = source.restore_enumerator(context, serializer.deserialize(serializer.version, data))
    again.start()
    return again


def listed(files):
    newest = max((file.manifest or 0 for file in files), default=0)
    return Listing(
        {file.path: file for file in files}, complete=bool(files), manifests={"/data": newest}
    )


class MadeUp:
    """A selection with files that a test invents."""

    def __init__(self, source):
        self._source = source._selection
        self.found = []

    def listing(self, *, may_be_missing):
        return listed(self.found)

    def __getattr__(self, name):
        return getattr(self._source, name)


def enumerating(listing, context, order, *, seconds=1, **settings):
    """Return an enumerator that lists at an interval, and waits for no late files."""
    return FileEnumerator(
        context,
        listing,
        order=order,
        monitor_interval=timedelta(seconds=seconds),
        late_file_window=timedelta(0),
        **settings,
    )
