# SPDX-License-Identifier: Apache-2.0
"""The documents that pass between driver and executors: plan, report, decision, rewrite, pins.

Each is created exclusively in the state store: the first writer wins and no one overwrites it.
``ARCHITECTURE.md`` explains the rules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
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
GIVEN_UP_FOLDER = "given-up"


@dataclass(frozen=True, kw_only=True)
class Versioned:
    """A connector's own object, serialized by its ``VersionedSerializer``."""

    version: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class PlannedSplit:
    """A split in an entry, with the position to resume from.

    Attributes:
        split_id: The split.
        state: The split at its position.
        skip: Rows after that position that were already emitted; the reader drops them.
        watermark_state: State of its watermark generator.
        then: The split to continue with when this one is finished. None if nothing follows.
    """

    split_id: str
    state: Versioned
    skip: int = 0
    watermark_state: dict[str, Any] | None = None
    then: Versioned | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The work of one reader in one plan.

    Attributes:
        pipeline_id: The pipeline.
        query: Folder of the query below the state location.
        plan: Number of the plan.
        nonce: Random number of the plan. It exposes a report of an earlier plan of the same number.
        source: Uid of the source.
        subtask: Number of the reader.
        parallelism: Number of readers of the source.
        splits: Queue of splits, in reading order.
        events: Events from the enumerator.
        limits: The reader's share of the limits.
        heartbeat: Event time (microseconds) of the row that drives Spark's watermark, if any.
        max_watermark: The reader holds rows that would raise a split's watermark (microseconds)
            above this.
        claim: The reader must fix its stops in a report before it emits a row.
        given_up: Ids of splits that a person gave up. The reader ends them without reading.
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
    given_up: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AssignedSplit:
    """A split that the enumerator has assigned to a reader since the previous plan.

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
    """The coordinator's record of an assigned, unfinished split; times are microseconds.

    Attributes:
        split: The split at its position.
        subtask: The reader it belongs to.
        read: Whether a reader has read from it.
        watermark: Its watermark.
        head: The watermark that the first row held back by alignment would cause.
        found_at: The source's progress when the split was found; a lower bound of its watermark.
    """

    split: PlannedSplit
    subtask: int
    read: bool = False
    watermark: int | None = None
    head: int | None = None
    found_at: int | None = None


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """The progress of a source, for splits that are found later; times are microseconds.

    Attributes:
        reached: The watermark of the splits read so far.
        drained: The value of `reached` when the enumerator last ran out of splits.
        found: Waiting splits that were found since the previous plan, each with `reached` at that
            time.
    """

    reached: int | None = None
    drained: int | None = None
    found: dict[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SourceSnapshot:
    """All that a restart needs to resume a source from the plan that holds this snapshot.

    Attributes:
        enumerator: Snapshot of the enumerator.
        splits: Assigned, unfinished splits.
        suppressed: Splits assigned after the enumerator's state was taken. After a restart the
            enumerator may assign them again.
        no_more_splits: Readers that get no more splits.
        highest_finished: Highest watermark (microseconds) of a finished split.
        found: Waiting splits, each with the source's progress when it was found.
    """

    enumerator: Versioned
    splits: tuple[SplitRecord, ...] = ()
    suppressed: tuple[str, ...] = ()
    no_more_splits: tuple[int, ...] = ()
    highest_finished: int | None = None
    found: dict[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SourcePlan:
    """The part of a plan that belongs to one source: a delta against the previous plan.

    Attributes:
        entries: One per reader that has work to do; at least one.
        assigned: Splits new to the readers.
        no_more_splits: Readers that know that they get no more splits.
        watermark: The source's watermark (microseconds) as of this plan.
        finished: The source is read to its end.
        discovery: The progress of the source, for splits that are found later.
        snapshot: The whole state, in some plans only. A restart then needs no earlier plan.
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
    """The work of all readers of a query in one micro-batch, or a fence.

    A driver that takes over a pipeline creates a fence under the next number. Earlier drivers can
    then no longer create that plan. A fence has no sources, and no one reads rows under its number.

    Attributes:
        pipeline_id: The pipeline.
        number: Its number, without gaps.
        nonce: Random number that distinguishes it from another driver's plan of the same number.
        incarnation: The driver that made it.
        sources: The part of each source, by uid; none in a fence.
        last: All sources are read to their end after this plan.
        previous: Of a fence, the plan to continue from; -1 for none. This is the newest earlier
            plan that is not a fence, unless the query was rewound.
        decided: The newest decided epoch when the plan was created; -1 for none. It reveals a
            decision that has gone missing. None in plans of early releases.
        starts: Of a fence that rewinds the query to its start, and of later fences: the start of
            each source in its own terms, by uid.
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
        """Whether the plan only keeps former drivers from planning."""
        return self.previous is not None

    @property
    def holds_snapshot(self) -> bool:
        """Whether a restart can begin with this plan."""
        return bool(self.sources) and all(s.snapshot is not None for s in self.sources.values())

    def giving_up(self, splits: Collection[tuple[str, str]]) -> Plan:
        """The plan with these splits given up, each the uid of a source and the id of a split."""
        if not splits:
            return self

        def marked(entry: Entry) -> Entry:
            ids = (split.split_id for split in entry.splits)
            return replace(entry, given_up=tuple(i for i in ids if (entry.source, i) in splits))

        sources = {
            uid: replace(source, entries=tuple(map(marked, source.entries)))
            for uid, source in self.sources.items()
        }
        return replace(self, sources=sources)


@dataclass(frozen=True, kw_only=True)
class SplitReport:
    """The position that a reader reached in a split.

    Attributes:
        split_id: The split.
        state: The split at its new position, or at its last one when it is finished.
        skip: Rows that were emitted after that position, or after the end of a finished split.
        finished: The reader has read all of it.
        rows: Rows taken from it in this entry. Every later read of the entry takes the same number.
        asked: Whether it returned rows, or the reader waited for it without result. False if a
            limit ended the entry first.
        watermark: Its watermark (microseconds).
        head: Event time (microseconds) of the first row that alignment holds back.
        watermark_state: State of its watermark generator.
        ended: The record evaluator finished it, perhaps before its stop.
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
class KeptRows:
    """The emitted rows of an entry in the state location.

    Attributes:
        path: The file, below the folder of the entry's query.
        shape: The columns and conditions with which they were emitted.
    """

    path: str
    shape: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of one reader in one plan; it fixes where the reader's entry ends.

    Attributes:
        pipeline_id: The pipeline.
        plan: Number of the plan.
        nonce: The plan's nonce.
        source: Uid of the source.
        subtask: Number of the reader.
        attempt: Spark's attempt number of the task that wrote it.
        splits: The splits it touched, in order.
        events: Events to the enumerator.
        wants_splits: The reader has read all its splits.
        seconds: Time spent reading.
        rows: Rows emitted.
        bytes: Bytes of Arrow buffers emitted.
        skipped: Records dropped by the record policy.
        dead_letters: Records in the spool.
        spool: Name of the dead-letter spool.
        counters: The reader's counters.
        gauges: The reader's gauges.
        kept: The emitted rows, if the reader keeps them.
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
    kept: KeptRows | None = None


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A batch run, for a later driver that finishes or resumes it.

    Attributes:
        pipeline_id: The pipeline.
        run_id: The run.
        entries: The entries of all sources, if a later driver may have to read them again.
        tasks: The number of tasks that read the entries of each source, by uid. A source without a
            number has a task for each entry.
        enumerators: Of a run that can be resumed, the snapshots of all enumerators, by uid.
        started: When it started, as a person reads it.
        inputs: Digests of the inputs that have versions, by uid, and of Spark's own inputs.
    """

    pipeline_id: str
    run_id: str
    entries: tuple[Entry, ...]
    tasks: dict[str, int] = field(default_factory=dict)
    enumerators: dict[str, Versioned] = field(default_factory=dict)
    started: str = ""
    inputs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DecidedCommittable:
    """A committable and the writer that created it.

    Attributes:
        subtask: The writer.
        committable: The committable.
        rows: Rows that the writer wrote. A rewrite must write the same number.
    """

    subtask: int
    committable: Versioned
    rows: int = 0


@dataclass(frozen=True, order=True)
class HeldRef:
    """Names a held committable, or a request for its compaction, by the decision that has it.

    Attributes:
        epoch: The epoch of the decision.
        number: Its number within the decision.
    """

    epoch: int
    number: int

    def __str__(self) -> str:
        return f"{self.epoch:010d}-{self.number:05d}"


WriterStates = tuple[tuple[Versioned, ...], ...]
"""The states of a sink's writers, in the order of the writers."""


@dataclass(frozen=True, kw_only=True)
class SinkDecision:
    """The part of a decision that belongs to one sink.

    Attributes:
        committables: What to commit.
        number_of_subtasks: Tasks of the job that wrote it, including those without rows.
        rows: Rows written.
        bytes: Bytes of Arrow buffers written.
        skipped: Rows dropped by the record policy.
        dead_letters: Rows in the spools of the record policy.
        spools: Of a dead-letter sink, the spools that it wrote.
        writer_states: Of a stateful sink, the states that the writers of the next epoch restore.
        held: Committables that a later decision commits, alone or merged with others.
        requests: The held committables to merge, for each request.
        compacted: The requests whose result is among the committables.
    """

    committables: tuple[DecidedCommittable, ...] = ()
    number_of_subtasks: int = 0
    rows: int = 0
    bytes: int = 0
    skipped: int = 0
    dead_letters: int = 0
    spools: tuple[str, ...] = ()
    writer_states: WriterStates = ()
    held: tuple[DecidedCommittable, ...] = ()
    requests: tuple[tuple[HeldRef, ...], ...] = ()
    compacted: tuple[HeldRef, ...] = ()

    def rewritten(self, rewrite: SinkRewrite) -> SinkDecision:
        """The decision with the rewritten committables in place of the lost ones."""
        kept = [each for each in self.committables if each.subtask not in rewrite.subtasks]
        committables = sorted((*kept, *rewrite.committables), key=lambda each: each.subtask)
        return replace(self, committables=tuple(committables))


@dataclass(frozen=True, kw_only=True)
class SinkRewrite:
    """The committables that replace lost ones of one sink.

    Attributes:
        subtasks: Writers whose rows were rewritten.
        committables: The new committables of these writers.
    """

    subtasks: tuple[int, ...]
    committables: tuple[DecidedCommittable, ...]


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """New committables of a decided epoch whose lost rows were rewritten.

    Attributes:
        pipeline_id: The pipeline.
        epoch: The decided epoch.
        number: Number of the rewrite within the epoch, from 0. A later rewrite replaces an earlier
            one.
        incarnation: The driver that ran the rewrite.
        sinks: The new committables, by sink uid.
    """

    pipeline_id: str
    epoch: int
    number: int
    incarnation: int
    sinks: dict[str, SinkRewrite]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The commit point of an epoch, for all sinks of the query; or a fence.

    A driver that takes over a pipeline creates a fence under the next number. Earlier drivers can
    then no longer decide on that epoch. A fence has no sinks.

    Attributes:
        pipeline_id: The pipeline.
        epoch: The number of the epoch; sinks see it as ``checkpoint_id``.
        incarnation: The driver that decided.
        spark_query_id: Spark's id of the query (or of the batch run).
        batch_id: Number of the micro-batch that this epoch decides; Spark's word is batch id.
        plan: The last plan whose rows the epoch holds; -1 for none.
        sinks: The decision of each sink, by uid.
        skipped: Records dropped by the sources' record policies.
        dead_letters: Dead letters of the sources.
        bad_records: Bad records since the pipeline's first start, by uid of source or sink. Record
            policies compare them with their limits.
        previous: Of a fence, the newest earlier decision that is not a fence; -1 for none.
        between: The decision holds no rows of a micro-batch, only results of compactions. It
            repeats the batch and plan of the decision before it.
        holds_since: The oldest epoch of a held committable or of an open request after this
            decision; None if there is none. A restart needs all decisions since then.
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
    between: bool = False
    holds_since: int | None = None

    @property
    def is_fence(self) -> bool:
        """Whether the decision only keeps former drivers from deciding."""
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
    """One load of a fully cached table.

    Attributes:
        pipeline_id: The pipeline.
        number: Number of the version, from 1.
        file: Its rows, an Arrow stream next to this document.
        rows: Number of rows.
        bytes: Size of the file.
        read_at: Time of the load, in microseconds since the Unix epoch.
    """

    pipeline_id: str
    number: int
    file: str
    rows: int
    bytes: int
    read_at: int


@dataclass(frozen=True, kw_only=True)
class LookupPins:
    """The versions of fully cached tables that a micro-batch or a batch run uses.

    Attributes:
        pipeline_id: The pipeline.
        versions: Number of the version, by uid of the lookup.
    """

    pipeline_id: str
    versions: dict[str, int]


class DocumentCodec(Generic[DocumentT]):
    """Stores one kind of document; a read checks the kind, version, and checksum."""

    def __init__(self, kind: str, cls: type[DocumentT]) -> None:
        self._kind = kind
        self._serializer = JsonDataclassSerializer(cls, version=FORMAT_VERSION)

    def create(self, store: StateStore, path: str, document: DocumentT) -> bool:
        """Create the document exclusively; return False if it exists."""
        return store.create(path, self.encode(document))

    def read(self, store: StateStore, path: str) -> DocumentT | None:
        """Return the document, or None if it does not exist."""
        data = store.read_or_none(path)
        return None if data is None else self.decode(data, path)

    def encode(self, document: DocumentT) -> bytes:
        """Return the stored form of a document."""
        return documents.encode(self._kind, orjson.loads(self._serializer.serialize(document)))

    def decode(self, data: bytes, path: str) -> DocumentT:
        """Return the document of a stored form; errors name ``path``."""
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
    """Return the entry in the form that the carrier transports."""
    return _ENTRIES.serialize(entry).decode()


def decode_entry(text: str) -> Entry:
    """Return the entry that a reader received."""
    return _ENTRIES.deserialize(FORMAT_VERSION, text.encode())


def plan_path(number: int) -> str:
    """Return the path of a plan."""
    return f"{PLANS_FOLDER}/{number:010d}.json"


def report_path(plan: int, source: str, subtask: int) -> str:
    """Return the path of an entry's report."""
    return f"reports/{plan:010d}/{source}/{subtask:05d}.json"


def kept_path(plan: int, source: str, subtask: int, nonce: str) -> str:
    """Return the path of the rows that a reader of an entry keeps."""
    return f"kept/{plan:010d}/{source}/{subtask:05d}-{nonce}.arrow"


def decision_path(epoch: int) -> str:
    """Return the path of a decision."""
    return f"{DECISIONS_FOLDER}/{epoch:010d}.json"


def run_path(run_id: str) -> str:
    """Return the folder of a batch run."""
    return f"{RUNS_FOLDER}/{run_id}"


def run_record_path(run_id: str) -> str:
    """Return the path of the record of a batch run."""
    return f"{run_path(run_id)}/run.json"


def rewrite_path(epoch: int, number: int) -> str:
    """Return the path of a rewrite of an epoch."""
    return f"{rewrites_path(epoch)}/{number:04d}.json"


def rewrites_path(epoch: int) -> str:
    """Return the folder of the rewrites of an epoch."""
    return f"rewrites/{epoch:010d}"


def claims_path(epoch: int, sink: str = "", job: str = "") -> str:
    """Return the folder in which a job's attempts claim names, or that of the whole epoch."""
    return "/".join(part for part in (f"claims/{epoch:010d}", sink, job) if part)


def decided_path(epoch: int) -> str:
    """Return the path of the mark of a batch run that has decided on an epoch."""
    return f"decided/{epoch:010d}/run"


def done_path(epoch: int, sink: str) -> str:
    """Return the path of the mark of a sink that has committed an epoch."""
    return f"done/{epoch:010d}/{sink}"


def accepted_replay_path(epoch: int) -> str:
    """Return the path of the mark that the rows of a replay may differ from those of the epoch."""
    return f"replays/{epoch:010d}/accepted"


def given_up_path(source: str, split_id: str) -> str:
    """Return the path of the mark of a split that a person gave up."""
    digest = hashlib.sha256(f"{source}\n{split_id}".encode()).hexdigest()
    return f"{GIVEN_UP_FOLDER}/{digest}.json"


def lookup_path(uid: str) -> str:
    """Return the folder of a fully cached table."""
    return f"lookup/{uid}"


def lookup_version_path(number: int) -> str:
    """Return the path of a table version, relative to the table's folder."""
    return f"versions/{number:010d}.json"


def lookup_pins_path(batch: str) -> str:
    """Return the path of the table versions that a batch of a query uses."""
    return f"{LOOKUP_PINS_FOLDER}/{batch}.json"
