# SPDX-License-Identifier: Apache-2.0
"""Sources and sinks with known rows, for tests of whole pipelines on Spark."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.engine.coordinator.identity import read_identity
from connectors_core.engine.coordinator.plan_log import newest_plan, read_plan, read_reports
from connectors_core.engine.protocol import Plan, Report
from connectors_core.engine.state import StateStore
from connectors_core.records import BadRecord
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.sink import CommittingSinkWriter, WriterInitContext
from connectors_core.source import (
    Boundedness,
    InputStatus,
    Source,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
    SplitTraits,
)
from connectors_core.testing import ROWS, Capability, SinkExternalContext
from connectors_core.testing.directory_sink import DirectorySink, DirectoryWriter, StagedFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from connectors_core import Pipeline

DEADLINE = 60.0
# Capabilities that suites cannot show with sinks that derive from `DirectorySink`.
CANNOT_IN_A_FOLDER = {
    Capability.COMMITTED_EPOCHS: "shown by the sink that it derives from",
    Capability.LEASES: "everyone stages files of their own",
    Capability.REWRITING: "a staged file is not given up by itself",
    Capability.DATA_TYPES: "shown by the sink that it derives from",
    Capability.SCHEMA_CHANGE: "shown by the sink that it derives from",
    Capability.SECRETS: "a local folder needs none",  # pragma: allowlist secret
    Capability.OUTAGES: "a local folder is always there",
}
NATIVE = importlib.util.find_spec("pyspark.sql.datasource") is not None
BASE = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
SECOND = 1_000_000
HOUR = 3600 * SECOND
EVENTS = pa.schema([pa.field("n", pa.int64()), pa.field("ts", pa.timestamp("us", tz="UTC"))])


def travel_with_closures(module: str) -> None:
    """Pickle this module by value for executors, which cannot import it."""
    from pyspark import cloudpickle

    for name in (module, __name__):
        cast(Any, cloudpickle).register_pickle_by_value(sys.modules[name])


def wait_until(
    condition: Callable[[], bool],
    what: str,
    pipeline: Pipeline | None = None,
    *,
    seconds: float = DEADLINE,
) -> None:
    """Wait for a condition with a deadline, and raise if the pipeline fails first."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        if pipeline is None:
            time.sleep(0.05)
        else:
            pipeline.await_termination(0.05)


def counts(sink: DirectorySink, column: str = "n") -> Counter[Any]:
    """Return how often each value was committed."""
    rows = sink.read()
    return Counter(rows[column].to_pylist() if rows.num_columns else [])


def once(values: Any) -> Counter[Any]:
    """Check that each of these values was committed exactly once."""
    return Counter(dict.fromkeys(values, 1))


def event_rows(numbers: pa.Array) -> pa.RecordBatch:
    """Create row n at n seconds after the base."""
    times = pc.add(pc.multiply(numbers, SECOND), BASE).cast(EVENTS.field("ts").type)
    return pa.RecordBatch.from_arrays([numbers, times], schema=EVENTS)


# --- A source of append-only files ----------------------------------------------------------------


@dataclass(frozen=True)
class LogSplit(SourceSplit):
    """Reads the lines of a file, without an end if the file can grow."""

    split_id: str
    position: int
    end: int | None


@dataclass(frozen=True)
class LogState:
    assigned: tuple[str, ...] = ()


class LogSource(Source):
    """Reads lines `number seconds-after-the-base`. Any other line is a bad record.

    A file `broken` makes every reader fail, and a file `gate` makes it wait. Each reader creates a
    file below `reads`.
    """

    def __init__(self, folder: Path, *, live: bool = False, batch_rows: int = 10) -> None:
        self.folder = folder
        self.live = live
        self.batch_rows = batch_rows
        (folder / "reads").mkdir(parents=True, exist_ok=True)

    def write(self, name: str, lines: Sequence[object]) -> None:
        """Append lines. A plain number is also its own time."""
        with open(self.folder / f"{name}.log", "a") as file:
            for line in lines:
                file.write(f"{line} {line}\n" if isinstance(line, int) else f"{line}\n")

    def lines(self, name: str) -> list[str]:
        text = (self.folder / f"{name}.log").read_text()
        return text[: text.rfind("\n") + 1].splitlines()

    @property
    def reads(self) -> int:
        """Return how many readers were created."""
        return len(list((self.folder / "reads").iterdir()))

    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED if self.live else Boundedness.BOUNDED

    def schema(self) -> pa.Schema:
        return EVENTS

    def create_enumerator(self, context):
        return self.restore_enumerator(context, LogState())

    def restore_enumerator(self, context, state):
        return _LogEnumerator(self, context, state)

    def create_reader(self, context):
        return _LogReader(self, context)

    def split_serializer(self):
        return JsonDataclassSerializer(LogSplit)

    def enumerator_state_serializer(self):
        return JsonDataclassSerializer(LogState)

    def split_traits(self) -> SplitTraits:
        return SplitTraits(end=not self.live, ordered=not self.live)


class _LogEnumerator(SplitEnumerator):
    def __init__(self, source, context, state):
        self.source, self.context = source, context
        self.assigned = list(state.assigned)

    def handle_split_request(self, subtask_id):
        for path in sorted(self.source.folder.glob("*.log")):
            if path.stem not in self.assigned:
                self.assigned.append(path.stem)
                end = None if self.source.live else len(self.source.lines(path.stem))
                self.context.assign_split(LogSplit(path.stem, 0, end), subtask_id)
                return
        if not self.source.live:
            self.context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits, subtask_id):
        self.assigned = [name for name in self.assigned if name not in {s.split_id for s in splits}]

    def snapshot_state(self, checkpoint_id):
        return LogState(tuple(self.assigned))


class _LogReader(SourceReader):
    def __init__(self, source, context):
        self.source, self.context = source, context
        self.splits: dict[str, LogSplit] = {}
        self.paused: set[str] = set()
        self.no_more = False

    def start(self):
        (self.source.folder / "reads" / uuid.uuid4().hex).touch()

    def poll_next(self, output):
        if (self.source.folder / "broken").exists():
            raise OSError("the log cannot be read")
        if (self.source.folder / "gate").exists():
            return InputStatus.NOTHING_AVAILABLE
        for split in list(self.splits.values()):
            if split.split_id not in self.paused and self._emit(split, output):
                return InputStatus.MORE_AVAILABLE
        if self.no_more and not self.splits:
            return InputStatus.END_OF_INPUT
        return InputStatus.NOTHING_AVAILABLE

    def _emit(self, split, output):
        stop = split.position + self.source.batch_rows
        lines = self.source.lines(split.split_id)[: split.end][split.position : stop]
        position = split.position + len(lines)
        if position == split.end:
            del self.splits[split.split_id]
        else:
            self.splits[split.split_id] = replace(split, position=position)
        rows = []
        for number, line in enumerate(lines, split.position):
            try:
                n, seconds = line.split()
                rows.append((int(n), BASE + int(seconds) * SECOND))
            except ValueError:
                record = BadRecord(
                    reason="not a number",
                    source_uid="log",
                    split_id=split.split_id,
                    position=str(number),
                    raw=line.encode(),
                )
                self.context.record_errors.handle(record)
        columns = [[n for n, _ in rows], [ts for _, ts in rows]]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, EVENTS, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=EVENTS)
        output.create_output_for_split(split.split_id).collect(batch)
        return bool(lines) or split.end is not None

    def snapshot_state(self):
        return list(self.splits.values())

    def wait_available(self, timeout):
        threading.Event().wait(timeout)
        return False

    def add_splits(self, splits):
        self.splits.update((split.split_id, split) for split in splits)

    def notify_no_more_splits(self):
        self.no_more = True

    def pause_or_resume_splits(self, splits_to_pause, splits_to_resume):
        self.paused |= set(splits_to_pause)

    def close(self):
        pass


class PickySink(DirectorySink):
    """Rejects rows whose number ends in 3."""

    def create_writer(self, context: WriterInitContext) -> CommittingSinkWriter[StagedFile]:
        return _PickyWriter(self.path, context)


class _PickyWriter(DirectoryWriter):
    def __init__(self, path, context):
        super().__init__(path, context)
        self.context = context

    def write(self, batch):
        good = [n % 10 != 3 for n in batch.column("n").to_pylist()]
        for n, fits in zip(batch.column("n").to_pylist(), good, strict=True):
            if not fits:
                record = BadRecord(
                    reason="unlucky", source_uid=self.context.sink_uid, raw=b"%d" % n
                )
                self.context.record_errors.handle(record)
        super().write(batch.filter(pa.array(good)))


class FolderContext(SinkExternalContext):
    """The folder of a `DirectorySink`, for one case of a suite."""

    def __init__(self, sink: DirectorySink) -> None:
        self.sink = sink

    def create_sink(self):
        return self.sink

    def read_back(self, schema=ROWS):
        found = self.sink.read()
        return found.select(schema.names) if found.num_columns else schema.empty_table()

    def leftovers(self):
        return [path.name for path in self.sink.staged()]


# --- State of a pipeline -------------------------------------------------------------------------


def query_store(checkpoint: Path, query: int = 0) -> StateStore:
    return StateStore(str(checkpoint)).child(f"query-{query}")


def plans_and_reports(
    checkpoint: Path, query: int = 0
) -> list[tuple[Plan, dict[str, list[Report | None]]]]:
    """Return all plans of a query with their reports, without fences."""
    store = query_store(checkpoint, query)
    plans = [read_plan(store, number) for number in range(newest_plan(store) + 1)]
    return [(plan, read_reports(store, plan)) for plan in plans if not plan.is_fence]


def identity(checkpoint: Path):
    found = read_identity(StateStore(str(checkpoint)))
    assert found is not None
    return found


def new_pipeline(spark: SparkSession, root: Path, name: str = "p", **options: Any) -> Pipeline:
    """Create a streaming pipeline, with two readers by default."""
    from connectors_core import Pipeline

    options = {"streaming": True, "parallelism": 2} | options
    return Pipeline(spark, name, checkpoint_location=root / "checkpoint", **options)
