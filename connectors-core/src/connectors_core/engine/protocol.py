# SPDX-License-Identifier: Apache-2.0
"""The documents that pass between driver and executors: plan, report, decision, rewrite, pins.

Each is created exclusively in the state store, so the first writer wins and nobody overwrites. The
rules behind them are in ``ARCHITECTURE.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import orjson

from connectors_core.engine.state import StateStore, documents
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source.events import EventDocument
from connectors_core.source.split import ReadLimits

FORMAT_VERSION = 1
PLANS_FOLDER = "plans"
DECISIONS_FOLDER = "decisions"
RUNS_FOLDER = "runs"
LOOKUP_PINS_FOLDER = "lookup-pins"


@dataclass(frozen=True, kw_only=True)
class Versioned:
    """Something of a connector's own, serialised by its ``VersionedSerializer``."""

    version: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class PlannedSplit:
    """A split in an entry: where to go on.

    Attributes:
        split_id: The split.
        state: The split at its position.
        skip: Rows behind that position that were emitted already and are dropped.
        watermark_state: State of its watermark generator.
        then: The split to go on from when this one is finished; None: it is finished for good.
    """

    split_id: str
    state: Versioned
    skip: int = 0
    watermark_state: dict[str, Any] | None = None
    then: Versioned | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What one reader does in one plan.

    Attributes:
        pipeline_id: The pipeline.
        query: Folder of the query below the state location.
        plan: Number of the plan.
        nonce: Random number of the plan: a report of an earlier life is not taken for one of this.
        source: Uid of the source.
        subtask: Number of the reader.
        parallelism: Number of readers of the source.
        splits: Queue of splits in the order to read.
        events: Events from the enumerator.
        limits: The reader's share of the limits.
        heartbeat: Event time (microseconds) of the row that drives Spark's watermark, if any.
        max_watermark: No row is emitted that lifts its split's watermark (microseconds) above this.
        claim: The reader must fix its stops in a report before it emits a row.
    """

    pipeline_id: str
    query: str
    plan: int
    nonce: str
    source: str
    subtask: int
    parallelism: int
    splits: tuple[PlannedSplit, ...] = ()
    events: tuple[EventDocument, ...] = ()
    limits: ReadLimits = field(default_factory=ReadLimits)
    heartbeat: int | None = None
    max_watermark: int | None = None
    claim: bool = False


@dataclass(frozen=True, kw_only=True)
class AssignedSplit:
    """A split that the enumerator gave to a reader since the plan before.

    Attributes:
        subtask: The reader.
        split: The split.
        found_at: See :class:`SplitRecord`.
    """

    subtask: int
    split: PlannedSplit
    found_at: int | None = None


@dataclass(frozen=True, kw_only=True)
class SplitRecord:
    """What the coordinator knows of an assigned, unfinished split; times are microseconds.

    Attributes:
        split: The split at its position.
        subtask: The reader it belongs to.
        read: Whether it was ever read.
        watermark: Its watermark.
        head: Where the first row that alignment holds would bring its watermark.
        found_at: How far the source had come when it was found; it holds the watermark no lower.
    """

    split: PlannedSplit
    subtask: int
    read: bool = False
    watermark: int | None = None
    head: int | None = None
    found_at: int | None = None


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """How far a source has come, for the splits that are found later; times are microseconds.

    Attributes:
        reached: The watermark of the splits that were read.
        drained: What it was when the enumerator last had no split left to give.
        found: Splits that were found since the plan before and wait, with what it was then.
    """

    reached: int | None = None
    drained: int | None = None
    found: dict[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SourceSnapshot:
    """All that is needed to go on with a source, as of the plan that holds it.

    Attributes:
        enumerator: Snapshot of the enumerator.
        splits: Assigned, unfinished splits.
        suppressed: Splits that were assigned after the enumerator's state was taken and that it may
            assign again after a restart.
        no_more_splits: Readers that get no more.
        highest_finished: Highest watermark (microseconds) of a finished split.
        found: Splits that wait, with how far the source had come when they were found.
    """

    enumerator: Versioned
    splits: tuple[SplitRecord, ...] = ()
    suppressed: tuple[str, ...] = ()
    no_more_splits: tuple[int, ...] = ()
    highest_finished: int | None = None
    found: dict[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SourcePlan:
    """The part of a plan that belongs to one source: a delta against the plan before.

    Attributes:
        entries: One per reader that has something to do, at least one.
        assigned: Splits new to the readers.
        no_more_splits: Readers that were told so, up to now.
        watermark: The source's watermark (microseconds) as of this plan.
        finished: All is read; nothing will come from this source any more.
        discovery: How far the source has come, for the splits that are found later.
        snapshot: Now and then the whole state, so that the plans before are not needed.
    """

    entries: tuple[Entry, ...]
    assigned: tuple[AssignedSplit, ...] = ()
    no_more_splits: tuple[int, ...] = ()
    watermark: int | None = None
    finished: bool = False
    discovery: Discovery = field(default_factory=Discovery)
    snapshot: SourceSnapshot | None = None

    @property
    def number(self) -> int:
        """Number of the plan."""
        return self.entries[0].plan

    def planned_splits(self) -> dict[str, PlannedSplit]:
        """All splits of its entries, by id."""
        return {split.split_id: split for entry in self.entries for split in entry.splits}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What all readers of a query do in one micro-batch, or a fence.

    A driver that takes a pipeline over creates a fence under the next number, so that no driver
    before it can make that plan. A fence has no sources; nothing is read under its number.

    Attributes:
        pipeline_id: The pipeline.
        number: Its number, without gaps.
        nonce: Random: tells it from a plan that another driver made under the same number.
        incarnation: The driver that made it.
        sources: The part of each source, by uid; none in a fence.
        last: All sources are read to their end.
        previous: Of a fence, the plan to continue from, -1 where there is none. That is the newest
            before it that is no fence, unless the query was taken back.
        decided: The newest epoch that was decided when it was made, -1 for none; proves that this
            decision is missing where it is. None in plans of early releases.
        starts: Of a fence that takes the query back to its start, and of fences after it, where
            sources begin, in their own terms, by uid.
    """

    pipeline_id: str
    number: int
    nonce: str
    incarnation: int
    sources: dict[str, SourcePlan]
    last: bool = False
    previous: int | None = None
    decided: int | None = None
    starts: dict[str, str] = field(default_factory=dict)

    @property
    def is_fence(self) -> bool:
        """Whether it only keeps former drivers from planning."""
        return self.previous is not None

    @property
    def holds_snapshot(self) -> bool:
        """Whether a restart can begin with it."""
        return bool(self.sources) and all(s.snapshot is not None for s in self.sources.values())


@dataclass(frozen=True, kw_only=True)
class SplitReport:
    """Where a reader left a split.

    Attributes:
        split_id: The split.
        state: The split at its new position, or at its last one when it is finished.
        skip: Rows behind that position, or behind its end when it is finished, that were emitted.
        finished: Nothing is left of it.
        rows: Rows taken from it in this entry; whoever reads the entry again takes as many.
        asked: Whether it gave rows or was waited for in vain; not so where a limit came before it.
        watermark: Its watermark (microseconds).
        head: Event time (microseconds) of the first row that alignment held back.
        watermark_state: State of its watermark generator.
        ended: The record evaluator finished it, wherever its stop was.
    """

    split_id: str
    state: Versioned
    skip: int
    finished: bool
    rows: int
    asked: bool = True
    watermark: int | None = None
    head: int | None = None
    watermark_state: dict[str, Any] | None = None
    ended: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """What one reader did in one plan; fixes where its entry ends.

    Attributes:
        pipeline_id: The pipeline.
        plan: Number of the plan.
        nonce: The plan's nonce.
        source: Uid of the source.
        subtask: Number of the reader.
        attempt: Spark's attempt number of the task that wrote it.
        splits: The splits it touched, in order.
        events: Events to the enumerator.
        wants_splits: The reader read all it was given.
        seconds: Time spent reading.
        rows: Rows emitted.
        bytes: Bytes of Arrow buffers emitted.
        skipped: Records dropped by the record policy.
        dead_letters: Records in the spool.
        spool: Name of the dead-letter spool.
        counters: The reader's counters.
        gauges: The reader's gauges.
    """

    pipeline_id: str
    plan: int
    nonce: str
    source: str
    subtask: int
    attempt: int
    splits: tuple[SplitReport, ...] = ()
    events: tuple[EventDocument, ...] = ()
    wants_splits: bool = False
    seconds: float = 0.0
    rows: int = 0
    bytes: int = 0
    skipped: int = 0
    dead_letters: int = 0
    spool: str | None = None
    counters: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What a batch run reads, kept while it may have to be written again.

    Attributes:
        pipeline_id: The pipeline.
        run_id: The run.
        entries: Its entries, of all sources.
    """

    pipeline_id: str
    run_id: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, kw_only=True)
class DecidedCommittable:
    """A committable and the writer that made it.

    Attributes:
        subtask: The writer.
        committable: The committable.
        rows: Rows that the writer wrote; who writes them again must write as many.
    """

    subtask: int
    committable: Versioned
    rows: int = 0


WriterStates = tuple[tuple[Versioned, ...], ...]
"""The states of a sink's writers, in the order of the writers."""


@dataclass(frozen=True, kw_only=True)
class SinkDecision:
    """The part of a decision that belongs to one sink.

    Attributes:
        committables: What to commit.
        number_of_subtasks: Tasks of the job that wrote it, those without rows too.
        rows: Rows written.
        bytes: Bytes of Arrow buffers written.
        skipped: Rows dropped by the record policy.
        dead_letters: Rows in the spools of the record policy.
        spools: Of a dead-letter sink, what it wrote.
        writer_states: Of a stateful sink, what the writers of the next epoch go on from.
    """

    committables: tuple[DecidedCommittable, ...] = ()
    number_of_subtasks: int = 0
    rows: int = 0
    bytes: int = 0
    skipped: int = 0
    dead_letters: int = 0
    spools: tuple[str, ...] = ()
    writer_states: WriterStates = ()

    def rewritten(self, rewrite: SinkRewrite) -> SinkDecision:
        """The decision with what was written again in the place of what was lost."""
        kept = [each for each in self.committables if each.subtask not in rewrite.subtasks]
        committables = sorted((*kept, *rewrite.committables), key=lambda each: each.subtask)
        return replace(self, committables=tuple(committables))


@dataclass(frozen=True, kw_only=True)
class SinkRewrite:
    """What takes the place of lost committables of one sink.

    Attributes:
        subtasks: Writers whose rows were written again.
        committables: Theirs, instead of the ones they had.
    """

    subtasks: tuple[int, ...]
    committables: tuple[DecidedCommittable, ...]


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """New committables of a decided epoch, whose lost rows were written again.

    Attributes:
        pipeline_id: The pipeline.
        epoch: The decided epoch.
        number: Number of the rewrite within the epoch, from 0; a later one replaces an earlier.
        incarnation: The driver that had them written.
        sinks: Per sink uid.
    """

    pipeline_id: str
    epoch: int
    number: int
    incarnation: int
    sinks: dict[str, SinkRewrite]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One per epoch, for all sinks: the commit point of the query. Or a fence.

    A driver that takes a pipeline over creates a fence under the next number, so that no driver
    before it can decide on that epoch. A fence has no sinks.

    Attributes:
        pipeline_id: The pipeline.
        epoch: Our own number, the checkpoint id that sinks see.
        incarnation: The driver that decided.
        spark_query_id: Spark's id of the query (or of the batch run).
        batch_id: Spark's batch, decided by this epoch.
        plan: Last plan whose rows the epoch holds, -1 for none.
        sinks: Per sink uid.
        skipped: Records dropped by the sources' record policies.
        dead_letters: Dead letters of the sources.
        bad_records: Bad records since the pipeline's first start, by uid of source or sink; what
            the limits of record policies count.
        previous: Of a fence, the newest decision before it that is none, -1 where there is none.
    """

    pipeline_id: str
    epoch: int
    incarnation: int
    spark_query_id: str
    batch_id: int
    plan: int
    sinks: dict[str, SinkDecision]
    skipped: int = 0
    dead_letters: int = 0
    bad_records: dict[str, int] = field(default_factory=dict)
    previous: int | None = None

    @property
    def is_fence(self) -> bool:
        """Whether it only keeps former drivers from deciding."""
        return self.previous is not None

    def rewritten(self, rewrite: Rewrite) -> Decision:
        """The decision with the committables of a rewrite."""
        sinks = {
            uid: sink.rewritten(rewrite.sinks[uid]) if uid in rewrite.sinks else sink
            for uid, sink in self.sinks.items()
        }
        return replace(self, sinks=sinks)


DocumentT = TypeVar("DocumentT")


@dataclass(frozen=True, kw_only=True)
class LookupVersion:
    """One reading of a table that is cached as a whole.

    Attributes:
        pipeline_id: The pipeline.
        number: Of the version, from 1.
        file: Its rows, an Arrow stream beside this document.
        rows: How many there are.
        bytes: Size of the file.
        read_at: When it was read, microseconds since the epoch.
    """

    pipeline_id: str
    number: int
    file: str
    rows: int
    bytes: int
    read_at: int


@dataclass(frozen=True, kw_only=True)
class LookupPins:
    """Which versions of such tables a micro-batch, or a batch run, sees.

    Attributes:
        pipeline_id: The pipeline.
        versions: Number of the version by uid of the lookup.
    """

    pipeline_id: str
    versions: dict[str, int]


class DocumentCodec(Generic[DocumentT]):
    """Stores one kind of document; it is checked on reading for kind, version and checksum."""

    def __init__(self, kind: str, cls: type[DocumentT]) -> None:
        self._kind = kind
        self._serializer = JsonDataclassSerializer(cls, version=FORMAT_VERSION)

    def create(self, store: StateStore, path: str, document: DocumentT) -> bool:
        """Create it exclusively; False when there is one already."""
        return store.create(path, self.encode(document))

    def read(self, store: StateStore, path: str) -> DocumentT | None:
        """The document, or None where there is none."""
        data = store.read_or_none(path)
        return None if data is None else self.decode(data, path)

    def encode(self, document: DocumentT) -> bytes:
        """Its stored form."""
        return documents.encode(self._kind, orjson.loads(self._serializer.serialize(document)))

    def decode(self, data: bytes, path: str) -> DocumentT:
        """The document of a stored form; ``path`` is named in errors."""
        payload = documents.decode(self._kind, data, path=path)
        return self._serializer.deserialize(FORMAT_VERSION, orjson.dumps(payload))


PLANS = DocumentCodec("plan", Plan)
REPORTS = DocumentCodec("report", Report)
DECISIONS = DocumentCodec("decision", Decision)
REWRITES = DocumentCodec("rewrite", Rewrite)
RUNS = DocumentCodec("run", RunRecord)
LOOKUP_VERSIONS = DocumentCodec("lookup-version", LookupVersion)
LOOKUP_PINS = DocumentCodec("lookup-pins", LookupPins)
_ENTRIES = JsonDataclassSerializer(Entry, version=FORMAT_VERSION)


def encode_entry(entry: Entry) -> str:
    """The entry as it travels in the carrier."""
    return _ENTRIES.serialize(entry).decode()


def decode_entry(text: str) -> Entry:
    """The entry that a reader was given."""
    return _ENTRIES.deserialize(FORMAT_VERSION, text.encode())


def plan_path(number: int) -> str:
    """Where a plan is stored."""
    return f"{PLANS_FOLDER}/{number:010d}.json"


def report_path(plan: int, source: str, subtask: int) -> str:
    """Where the report of an entry is stored."""
    return f"reports/{plan:010d}/{source}/{subtask:05d}.json"


def decision_path(epoch: int) -> str:
    """Where a decision is stored."""
    return f"{DECISIONS_FOLDER}/{epoch:010d}.json"


def run_path(run_id: str) -> str:
    """The folder of a batch run."""
    return f"{RUNS_FOLDER}/{run_id}"


def run_record_path(run_id: str) -> str:
    """Where it is stored what a batch run reads."""
    return f"{run_path(run_id)}/run.json"


def rewrite_path(epoch: int, number: int) -> str:
    """Where a rewrite of an epoch is stored."""
    return f"{rewrites_path(epoch)}/{number:04d}.json"


def rewrites_path(epoch: int) -> str:
    """The folder of the rewrites of an epoch."""
    return f"rewrites/{epoch:010d}"


def claims_path(epoch: int, sink: str = "", job: str = "") -> str:
    """Where the attempts of a job claim names; without sink and job, the folder of the epoch."""
    return "/".join(part for part in (f"claims/{epoch:010d}", sink, job) if part)


def decided_path(epoch: int) -> str:
    """Where a batch run marks that it has decided on this epoch."""
    return f"decided/{epoch:010d}/run"


def done_path(epoch: int, sink: str) -> str:
    """Where it is marked that a sink has committed an epoch."""
    return f"done/{epoch:010d}/{sink}"


def lookup_path(uid: str) -> str:
    """The folder of a table that is cached as a whole."""
    return f"lookup/{uid}"


def lookup_version_path(number: int) -> str:
    """Where a version of such a table is recorded, below its folder."""
    return f"versions/{number:010d}.json"


def lookup_pins_path(batch: str) -> str:
    """Where it is stored which versions a batch of a query sees."""
    return f"{LOOKUP_PINS_FOLDER}/{batch}.json"
