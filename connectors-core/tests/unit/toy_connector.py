# SPDX-License-Identifier: Apache-2.0
"""A correct source of a local folder of logs, from which broken ones derive."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import threading
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from toy_disk import available

from connectors_core.errors import ConfigurationError, DataLossError, FatalError
from connectors_core.lineage import LineageVertexProvider, file_dataset
from connectors_core.records import BadRecord
from connectors_core.secrets import Secret
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import (
    Boundedness,
    InputStatus,
    Source,
    SourceEvent,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
    SplitTraits,
    SupportsProjectionPushDown,
    skip_unreadable,
)
from connectors_core.source.enumerator import (
    SupportsAvailableNow,
    SupportsBatchSnapshot,
    SupportsCommittedPositions,
)
from connectors_core.testing import ROWS, Capability, SourceExternalContext, SplitDataWriter

BATCH_LINES = 7
TOKEN = "canary-7c1f"
LIVE = -1
SPOILED = b"spoiled"
NOT_COMMITTED = b" "
# The capabilities of the source in every suite.
ABILITIES = frozenset(
    {
        Capability.BOUNDED,
        Capability.UNBOUNDED,
        Capability.DISCOVERY,
        Capability.CUT_SPLITS,
        Capability.SKIPPED_SPLITS,
        Capability.REPLACED_SPLITS,
        Capability.ACKNOWLEDGED_READS,
        Capability.LATE_COMMITS,
        Capability.REFUSALS,
        Capability.INPUT_VERSION,
        Capability.POISON_READS,
        Capability.SECRETS,
    }
)


@dataclass(frozen=True)
class LogSplit(SourceSplit):
    """The lines of a file between two byte positions. A live split has no end yet."""

    split_id: str
    position: int
    end: int
    version: str = ""


@dataclass(frozen=True)
class LogState:
    """The unassigned splits, and the discovered files."""

    waiting: tuple[LogSplit, ...]
    known: tuple[str, ...]


@dataclass(frozen=True)
class EndAt(SourceEvent):
    """Sets the ends of live splits."""

    ends: dict[str, int]


def acknowledged(folder):
    """Return the acknowledged position of each file."""
    path = Path(folder) / "acknowledged"
    return json.loads(path.read_text()) if path.exists() else {}


def check_allowed(folder):
    if (Path(folder) / "refused").exists():
        raise ConfigurationError("the folder refuses the token", option="token")


class LogEnumerator(
    SplitEnumerator, SupportsAvailableNow, SupportsBatchSnapshot, SupportsCommittedPositions
):
    def __init__(self, context, source, state):
        self.context, self.source = context, source
        self.waiting, self.known = list(state.waiting), set(state.known)
        self.asking, self.frozen = set(), False

    @property
    def bounded(self):
        return self.source.boundedness() is Boundedness.BOUNDED

    def available(self):
        available()

    def start(self):
        if self.bounded:
            # The end is fixed at the first start, so a restart discovers nothing more.
            self.found(self.known or self.discover(), None)
        else:
            self.context.call_async(self.discover, self.found, period=self.source.interval)

    def discover(self):
        self.available()
        check_allowed(self.source.folder)
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
        if not self.bounded:
            return LogSplit(name, 0, LIVE)
        return LogSplit(name, 0, self.size(name), self.version(name))

    def size(self, name):
        return self.stat(name).st_size

    def version(self, name):
        return str(self.stat(name).st_mtime_ns)

    def stat(self, name):
        return (Path(self.source.folder) / name).stat()

    def handle_split_request(self, subtask_id):
        self.asking.add(subtask_id)
        self.assign()

    def assign(self):
        for subtask in sorted(self.asking):
            if self.waiting:
                self.context.assign_split(self.waiting.pop(0), subtask)
                self.asking.discard(subtask)
            elif self.frozen or self.bounded:
                self.context.signal_no_more_splits(subtask)
                self.asking.discard(subtask)

    def add_splits_back(self, splits, subtask_id):
        self.waiting[:0] = splits

    def snapshot_state(self, checkpoint_id):
        return LogState(tuple(self.waiting), tuple(sorted(self.known)))

    def positions_committed(self, checkpoint_id, splits, finished):
        ends = {split.split_id: split.end for split in finished}
        self.acknowledge(ends | {split.split_id: split.position for split in splits})

    def acknowledge(self, positions):
        found = acknowledged(self.source.folder) | positions
        (Path(self.source.folder) / "acknowledged").write_text(json.dumps(found))

    def freeze_end(self):
        self.found(self.discover(), None)
        self.frozen = True
        ends = {name: self.size(name) for name in self.known}
        self.waiting = [replace(split, end=ends[split.split_id]) for split in self.waiting]
        for subtask in range(self.context.current_parallelism):
            self.context.send_event_to_source_reader(subtask, EndAt(ends))
        self.assign()


class LogReader(SourceReader):
    batch_lines = BATCH_LINES

    def __init__(self, source, context):
        self.source, self.context, self.splits, self.closing = source, context, [], False
        self.ends, self.paused = {}, set()

    def handle_source_events(self, event):
        self.ends = event.ends

    def add_splits(self, splits):
        self.splits += (self.begun(split) for split in splits)

    def begun(self, split):
        end = self.ends.get(split.split_id, LIVE) if split.end == LIVE else split.end
        if self.source.skips and self.spoiled(split):
            self.skip(split)
            return replace(split, end=split.position)
        size = (Path(self.source.folder) / split.split_id).stat().st_size
        if size < max(split.position, end):
            return self.cut(split, size)
        # A plan from before the end was known may have read further.
        return replace(split, end=LIVE if end == LIVE else max(end, split.position))

    def spoiled(self, split):
        return (Path(self.source.folder) / split.split_id).read_bytes() == SPOILED

    def skip(self, split):
        skip_unreadable(self.context, split.split_id, FatalError("the file is spoiled"))

    def cut(self, split, size):
        raise DataLossError(f"{split.split_id} was cut", expected=str(split), found=f"{size} bytes")

    def notify_no_more_splits(self):
        self.closing = True

    def wait_available(self, timeout):
        if not self.ready():
            threading.Event().wait(min(timeout, 0.02))
        return self.ready()

    def ready(self):
        if not self.splits:
            return self.closing
        return any(split.position == split.end or self.read(split) for split in self.active)

    def pause_or_resume_splits(self, splits_to_pause, splits_to_resume):
        self.paused = (self.paused | set(splits_to_pause)) - set(splits_to_resume)

    @property
    def active(self):
        return [split for split in self.splits if split.split_id not in self.paused]

    def poll_next(self, output):
        for split in self.active:
            if split.position == split.end:
                self.splits.remove(split)
                return InputStatus.MORE_AVAILABLE
            lines = self.read(split)
            if lines:
                self.emit(split, lines, output)
                return InputStatus.MORE_AVAILABLE
        if self.closing and not self.splits:
            return InputStatus.END_OF_INPUT
        return InputStatus.NOTHING_AVAILABLE

    def available(self):
        available()

    def read(self, split):
        self.available()
        check_allowed(self.source.folder)
        end = float("inf") if split.end == LIVE else split.end
        lines, position = [], split.position
        with (Path(self.source.folder) / split.split_id).open("rb") as file:
            file.seek(position)
            while len(lines) < self.batch_lines and position < end:
                line = file.readline()
                if not line.endswith(b"\n") or line.startswith(NOT_COMMITTED):
                    break
                position += len(line)
                lines.append(line)
        return lines

    def emit(self, split, lines, output):
        rows, position = [], split.position
        for line in lines:
            try:
                rows.append(self.fitted(self.parse(line)))
            except ValueError as error:
                self.bad(split, position, line, error)
            position += len(line)
        if rows:
            (batch,) = pa.Table.from_pylist(rows, schema=self.source.schema()).to_batches()
            output.create_output_for_split(split.split_id).collect(batch)
        self.splits[self.splits.index(split)] = replace(split, position=position)

    def parse(self, line):
        row = json.loads(line)
        return row | {"at": datetime.fromisoformat(row["at"])} if "at" in row else row

    def fitted(self, row):
        for field in self.source.schema():
            value = row.get(field.name)
            try:
                pa.array([value], field.type)
                fits = not (pa.types.is_integer(field.type) and isinstance(value, float))
            except pa.ArrowException:
                fits = False
            if not fits:
                row = self.misfit(row, field)
        return row

    def misfit(self, row, field):
        raise ValueError(f"the value of {field.name} is no {field.type}")

    def bad(self, split, position, line, error):
        record = BadRecord(
            reason=str(error),
            source_uid="",
            split_id=split.split_id,
            position=f"byte {position}",
            raw=line,
        )
        self.context.record_errors.handle(record, cause=error)

    def snapshot_state(self):
        return [split for split in self.splits if split.position != split.end]

    def close(self):
        pass


class LogSource(Source, SupportsProjectionPushDown, LineageVertexProvider):
    """Reads files of JSON lines in a folder. An unbounded source follows the files as they grow."""

    reader, enumerator = LogReader, LogEnumerator
    event_types = (EndAt,)
    skips = False

    def __init__(self, folder, boundedness, interval, *, schema=ROWS, token=None):
        self.folder, self.interval = folder, interval
        self.token = None if token is None else Secret(token)
        self._boundedness, self._schema = boundedness, schema

    def __repr__(self):
        return f"LogSource({self.folder!r}, token={self.token!r})"

    def lineage_datasets(self):
        return (file_dataset(str(self.folder)),)

    def path_of(self, split):
        return Path(self.folder) / split.split_id

    def boundedness(self):
        return self._boundedness

    def schema(self):
        return self._schema

    def apply_projection(self, fields):
        projected = copy.copy(self)
        projected._schema = pa.schema([self._schema.field(name) for (name,) in fields])
        return projected

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
        bounded = self._boundedness is Boundedness.BOUNDED
        return SplitTraits(end=bounded, ordered=bounded, skips_unreadable=self.skips)

    def input_version(self, splits):
        return json.dumps(sorted((each.split_id, each.end, each.version) for each in splits))


class LogWriter(SplitDataWriter):
    """Writes one file, line by line."""

    def __init__(self, path):
        self.path = path
        path.touch()

    def write(self, rows):
        self.put(self.lines(rows))

    @staticmethod
    def lines(rows):
        return "".join(json.dumps(row, default=str) + "\n" for row in rows.to_pylist())

    @contextlib.contextmanager
    def late(self, rows):
        lines, position = self.lines(rows), self.path.stat().st_size
        self.put("".join(" " * (len(line) - 1) + "\n" for line in lines.splitlines(keepends=True)))
        yield
        with self.path.open("r+b") as file:
            file.seek(position)
            file.write(lines.encode())

    def cut(self, rows):
        lines = self.path.read_text().splitlines(keepends=True)
        self.path.write_text("".join(lines[:rows]))

    def spoil(self):
        self.path.write_bytes(SPOILED)

    def replace(self, rows):
        self.path.write_text("")
        self.write(rows)

    def write_poison(self):
        self.put("{\n")

    def put(self, text):
        with self.path.open("a") as file:
            file.write(text)


class LogFolder(SourceExternalContext):
    """A folder of logs."""

    def __init__(self, folder, source, interval):
        self.folder, self.source, self.interval = folder, source, interval
        self.splits = itertools.count()

    def create_split(self):
        return LogWriter(self.folder / f"{next(self.splits):03d}.log")

    def create_source(self, boundedness):
        return self.source(str(self.folder), boundedness, self.interval, token=TOKEN)

    def create_skipping_source(self, boundedness):
        source = self.create_source(boundedness)
        source.skips = True
        return source

    def changed_sources(self, boundedness):
        return {"interval": self.source(str(self.folder), boundedness, 2 * self.interval)}

    def unacknowledged(self):
        found = acknowledged(self.folder)
        logs = ((path, found.get(path.name, 0)) for path in self.folder.glob("*.log"))
        return sum(path.read_bytes()[position:].count(b"\n") for path, position in logs)

    @contextlib.contextmanager
    def refusal(self):
        marker = self.folder / "refused"
        marker.touch()
        yield
        marker.unlink()

    def create_typed_source(self, rows):
        return self.create_misfit_source(rows.schema, [rows])

    def create_misfit_source(self, schema, parts):
        split = self.create_split()
        for part in parts:
            split.write(part)
        return self.source(str(self.folder), Boundedness.BOUNDED, self.interval, schema=schema)

    def secrets(self):
        return [TOKEN]
