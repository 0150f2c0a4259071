# SPDX-License-Identifier: Apache-2.0
"""A correct source and sink on a local folder; broken ones are derived from them."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from connectors_core.records import BadRecord
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import (
    Boundedness,
    InputStatus,
    Source,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
    SplitTraits,
)
from connectors_core.source.enumerator import SupportsAvailableNow
from connectors_core.testing import ROWS, SourceExternalContext, SplitDataWriter

BATCH_LINES = 7


@dataclass(frozen=True)
class LogSplit(SourceSplit):
    """Lines of one file from a position to an end."""

    split_id: str
    position: int
    end: int


@dataclass(frozen=True)
class LogState:
    """What is not assigned, and the files that were found."""

    waiting: tuple[LogSplit, ...]
    known: tuple[str, ...]


class LogEnumerator(SplitEnumerator, SupportsAvailableNow):
    def __init__(self, context, source, state):
        self.context, self.source = context, source
        self.waiting, self.known = list(state.waiting), set(state.known)
        self.asking, self.frozen = set(), False

    def start(self):
        if self.source.boundedness() is Boundedness.BOUNDED:
            self.found(self.discover(), None)
        else:
            self.context.call_async(self.discover, self.found, period=self.source.interval)

    def discover(self):
        return sorted(path.name for path in Path(self.source.folder).glob("[!.]*.log"))

    def found(self, names, error):
        if error is not None:
            raise error
        if not self.frozen:
            for name in names:
                if name not in self.known:
                    self.known.add(name)
                    self.waiting.append(self.split_of(name))
        self.assign()

    def split_of(self, name):
        lines = len((Path(self.source.folder) / name).read_text().splitlines())
        return LogSplit(name, 0, lines)

    def handle_split_request(self, subtask_id):
        self.asking.add(subtask_id)
        self.assign()

    def assign(self):
        for subtask in sorted(self.asking):
            if self.waiting:
                self.context.assign_split(self.waiting.pop(0), subtask)
                self.asking.discard(subtask)
            elif self.frozen or self.source.boundedness() is Boundedness.BOUNDED:
                self.context.signal_no_more_splits(subtask)
                self.asking.discard(subtask)

    def add_splits_back(self, splits, subtask_id):
        self.waiting[:0] = splits

    def snapshot_state(self, checkpoint_id):
        return LogState(tuple(self.waiting), tuple(sorted(self.known)))

    def freeze_end(self):
        self.found(self.discover(), None)
        self.frozen = True
        self.assign()


class LogReader(SourceReader):
    def __init__(self, source, context):
        self.source, self.context, self.splits, self.closing = source, context, [], False

    def add_splits(self, splits):
        self.splits += splits

    def notify_no_more_splits(self):
        self.closing = True

    def wait_available(self, timeout):
        return True

    def poll_next(self, output):
        if not self.splits:
            return InputStatus.END_OF_INPUT
        split = self.splits[0]
        end = min(split.position + BATCH_LINES, split.end)
        lines = (Path(self.source.folder) / split.split_id).read_text().splitlines()
        rows = []
        for number, line in enumerate(lines[split.position : end], split.position):
            try:
                rows.append(self.parse(line))
            except ValueError as error:
                self.bad(split, number, line, error)
        if rows:
            output.create_output_for_split(split.split_id).collect(batch_of(rows))
        self.move(split, end)
        return InputStatus.MORE_AVAILABLE

    def parse(self, line):
        row = json.loads(line)
        return row | {"at": datetime.fromisoformat(row["at"])}

    def bad(self, split, number, line, error):
        record = BadRecord(
            reason=str(error),
            source_uid="",
            split_id=split.split_id,
            position=f"line {number}",
            raw=line.encode(),
        )
        self.context.record_errors.handle(record, cause=error)

    def move(self, split, end):
        if end < split.end:
            self.splits[0] = replace(split, position=end)
        else:
            self.splits.pop(0)

    def snapshot_state(self):
        return list(self.splits)

    def close(self):
        pass


def batch_of(rows):
    (batch,) = pa.Table.from_pylist(rows, schema=ROWS).to_batches()
    return batch


class LogSource(Source):
    """Files of JSON lines in a folder."""

    reader, enumerator = LogReader, LogEnumerator

    def __init__(self, folder, boundedness, interval):
        self.folder, self.interval = folder, interval
        self._boundedness = boundedness

    def boundedness(self):
        return self._boundedness

    def schema(self):
        return ROWS

    def create_enumerator(self, context):
        return self.restore_enumerator(context, LogState((), ()))

    def restore_enumerator(self, context, state):
        return self.enumerator(context, self, state)

    def create_reader(self, context):
        return self.reader(self, context)

    def split_serializer(self):
        return JsonDataclassSerializer(LogSplit)

    def enumerator_state_serializer(self):
        return JsonDataclassSerializer(LogState)

    def split_traits(self):
        return SplitTraits(end=True, ordered=True)


class LogWriter(SplitDataWriter):
    """Every write is a file, which appears at once."""

    def __init__(self, folder, split):
        self.folder = folder
        self.names = (f"{split:03d}-{number:03d}.log" for number in itertools.count())

    def write(self, rows):
        self.put("".join(json.dumps(row, default=str) + "\n" for row in rows.to_pylist()))

    def write_poison(self):
        self.put("{\n")

    def put(self, text):
        name = next(self.names)
        hidden = self.folder / f".{name}"
        hidden.write_text(text)
        hidden.rename(self.folder / name)


class LogFolder(SourceExternalContext):
    """A folder of logs."""

    def __init__(self, folder, source, interval):
        self.folder, self.source, self.interval = folder, source, interval
        self.splits = itertools.count()

    def create_split(self):
        return LogWriter(self.folder, next(self.splits))

    def create_source(self, boundedness):
        return self.source(str(self.folder), boundedness, self.interval)
