# SPDX-License-Identifier: Apache-2.0
"""The identity of a pipeline: recorded at its first start, compared at every later one. Driver.

Spark matches sources by their position in the plan, so swapped sources silently duplicate and lose
rows. A plan log without its Spark checkpoint, or the reverse, would silently start from the
beginning.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from connectors_core.engine.coordinator.document_numbers import document_numbers
from connectors_core.engine.protocol import DocumentCodec
from connectors_core.engine.state import StateStore
from connectors_core.errors import LOST_STATE_HINT, ConfigurationError, IdentityError

_UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_NO_PART_OF_A_UID: Final = re.compile(r"[^A-Za-z0-9_.-]")
_SHOWN: Final = 60
_DIGEST: Final = 16
_SPARK_STREAM: Final = "@"  # no uid begins with it


@dataclass(frozen=True, kw_only=True)
class QueryIdentity:
    """One query of a pipeline.

    Attributes:
        folder: Its folder below checkpoint and state location.
        sources: The streams in the order of Spark's offset log, once per branch: the uid of a
            source, or the mark of a stream of Spark.
        sinks: Uids of the sinks in order.
        spark_query_id: Spark's id of the query.
        generation: The number of its Spark checkpoint, from 0.
        first: The plan before the first one of the Spark checkpoint.
    """

    folder: str
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    spark_query_id: str
    generation: int = 0
    first: int = -1

    @property
    def uids(self) -> tuple[str, ...]:
        """The uids of its sources, each once."""
        return uids_of(self.sources)

    @property
    def reads_spark_stream(self) -> bool:
        """Whether Spark also reads a stream of its own, whose positions are in its checkpoint."""
        return any(map(is_spark_stream, self.sources))

    @property
    def spark_folder(self) -> str:
        """Folder of Spark's checkpoint below the checkpoint location."""
        return f"{self.folder}/spark-{self.generation}"


@dataclass(frozen=True, kw_only=True)
class PipelineIdentity:
    """A pipeline and its queries.

    Attributes:
        pipeline_id: Given at the first start.
        name: The user's name for it.
        streaming: Whether it runs as streaming queries.
        queries: Its queries.
        options: The recorded options of sources and sinks, by uid and name.
    """

    pipeline_id: str
    name: str
    streaming: bool
    queries: tuple[QueryIdentity, ...]
    options: dict[str, dict[str, str]] = field(default_factory=dict)

    def query_of(self, source: str) -> QueryIdentity:
        """Return the query that reads a source.

        Raises:
            IdentityError: No query reads it.
        """
        for query in self.queries:
            if source in query.uids:
                return query
        raise IdentityError(
            f"pipeline {self.name!r} has no source {source!r}",
            expected=[uid for query in self.queries for uid in query.uids],
            found=source,
            ways_out=["start the query through Pipeline.run or Pipeline.start"],
        )


IDENTITIES = DocumentCodec("pipeline", PipelineIdentity)
IDENTITIES_FOLDER = "pipeline"
FIRST_QUERY = "query-0"


def _path(generation: int) -> str:
    return f"{IDENTITIES_FOLDER}/{generation:010d}.json"


def newest_generation(store: StateStore) -> int:
    """Return the number of the newest identity, -1 for none."""
    return max(document_numbers(store, IDENTITIES_FOLDER), default=-1)


def read_identity(store: StateStore) -> PipelineIdentity | None:
    """Return the recorded identity, or None before the first start."""
    generation = newest_generation(store)
    return None if generation < 0 else IDENTITIES.read(store, _path(generation))


def record_identity(store: StateStore, identity: PipelineIdentity) -> None:
    """Record the identity of a first start or a new generation."""
    generation = newest_generation(store) + 1
    if not IDENTITIES.create(store, _path(generation), identity):
        raise IdentityError(
            f"pipeline {identity.name!r} was started by another driver at the same moment",
            ways_out=["let only one driver run this pipeline"],
        )


def check_uid(uid: str, taken: Collection[str], name: str) -> None:
    """Refuse a uid that is invalid or already used in the pipeline.

    Args:
        uid: The uid of a source, sink, or lookup.
        taken: The uids of the pipeline.
        name: The pipeline's name.

    Raises:
        ConfigurationError: It cannot be used.
    """
    if not _UID.fullmatch(uid):
        raise ConfigurationError(
            f"{uid!r} cannot be a uid",
            expected="letters, digits, '_', '.' and '-', at most 100",
            option="uid",
        )
    if uid in taken:
        raise ConfigurationError(
            f"the uid {uid!r} is used twice in pipeline {name!r}", option="uid"
        )


def uid_of(name: str) -> str:
    """Return the uid of a table: its name, or a text with a digest if the name is no valid uid."""
    if _UID.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"t-{_NO_PART_OF_A_UID.sub('-', name)[:_SHOWN]}-{digest}"


def spark_stream(kind: str) -> str:
    """Return the mark of a stream that Spark reads itself, such as "@kafka"."""
    return f"{_SPARK_STREAM}{kind}"


def is_spark_stream(source: str) -> bool:
    """Return whether this is the mark of a stream that Spark reads itself."""
    return source.startswith(_SPARK_STREAM)


def uids_of(streams: Iterable[str]) -> tuple[str, ...]:
    """Return the uids among uids and marks, each once."""
    return tuple(dict.fromkeys(each for each in streams if not is_spark_stream(each)))


def shown(streams: Iterable[str]) -> str:
    """Return uids and marks as users read them, each once: "orders, kafka"."""
    return ", ".join(dict.fromkeys(each.removeprefix(_SPARK_STREAM) for each in streams))


def new_pipeline_id() -> str:
    """Return an id for a new pipeline."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class QueryShape:
    """The sources and sinks of one query as the user built it."""

    sources: tuple[str, ...]
    sinks: tuple[str, ...]


def first_identity(
    pipeline_id: str, name: str, *, streaming: bool, shapes: Sequence[QueryShape]
) -> PipelineIdentity:
    """Return the identity of a pipeline that starts for the first time."""
    return PipelineIdentity(
        pipeline_id=pipeline_id,
        name=name,
        streaming=streaming,
        queries=tuple(
            QueryIdentity(
                folder=f"query-{number}",
                sources=shape.sources,
                sinks=shape.sinks,
                spark_query_id=str(uuid.uuid4()),
            )
            for number, shape in enumerate(shapes)
        ),
    )


def assert_unchanged(
    identity: PipelineIdentity, name: str, *, streaming: bool, shapes: Sequence[QueryShape]
) -> None:
    """Refuse a pipeline whose shape differs from the recorded one.

    Raises:
        IdentityError: The shape changed; with the remedies.
    """
    if identity.name != name:
        raise IdentityError(
            "the checkpoint location belongs to another pipeline",
            expected=identity.name,
            found=name,
            ways_out=["give each pipeline its own checkpoint location"],
        )
    recorded = [QueryShape(query.sources, query.sinks) for query in identity.queries]
    if identity.streaming != streaming or recorded != list(shapes):
        changed = "the sources or sinks of pipeline {!r} changed, or are in another order"
        way_back = "build the sources and sinks in the recorded order, with the recorded uids"
        if recorded == list(shapes):
            changed = "pipeline {!r} changed between batch and streaming"
            way_back = (
                "use Pipeline(streaming=True)"
                if identity.streaming
                else "use bounded sources, without Pipeline(streaming=True)"
            )
        raise IdentityError(
            changed.format(name),
            expected=_described(identity.streaming, recorded),
            found=_described(streaming, shapes),
            ways_out=[
                way_back,
                "for a query without Spark state, Pipeline(on_changed_query='new-generation') "
                "keeps the source positions",
                "start with another checkpoint location; the pipeline then reads everything again",
            ],
        )


def next_generation(
    identity: PipelineIdentity, shapes: Sequence[QueryShape], written: Mapping[str, int]
) -> PipelineIdentity:
    """Return the identity with which changed queries keep their source positions.

    A changed query gets a new Spark checkpoint, which begins after the last written plan.

    Args:
        identity: The recorded identity.
        shapes: The queries as the user built them. Each reads the sources of a recorded query.
        written: The last plan whose rows each recorded query has written, by folder.

    Raises:
        IdentityError: The sources of the queries differ.
    """
    recorded = {frozenset(query.sources): query for query in identity.queries}
    if {frozenset(shape.sources) for shape in shapes} != recorded.keys():
        raise IdentityError(
            f"the sources of pipeline {identity.name!r} changed, or it joins them differently",
            expected="; ".join(", ".join(sorted(sources)) for sources in recorded),
            found="; ".join(", ".join(sorted(set(shape.sources))) for shape in shapes),
            ways_out=[
                "keep the sources of each query; you may change the sinks",
                "start with another checkpoint location; the pipeline then reads everything again",
            ],
            option="on_changed_query",
        )
    if any(query.reads_spark_stream for query in identity.queries):
        raise IdentityError(
            f"a new generation of pipeline {identity.name!r} would lose the positions of Spark's "
            "own streams, which are in Spark's checkpoint",
            found="; ".join(", ".join(query.sources) for query in identity.queries),
            ways_out=[
                "keep the original query",
                "start with another checkpoint location; the pipeline then reads everything again",
            ],
            option="on_changed_query",
        )
    queries = []
    for shape in shapes:
        query = recorded[frozenset(shape.sources)]
        if shape != QueryShape(query.sources, query.sinks):
            query = dataclasses.replace(
                query,
                sources=shape.sources,
                sinks=shape.sinks,
                spark_query_id=str(uuid.uuid4()),
                generation=query.generation + 1,
                first=written[query.folder],
            )
        queries.append(query)
    return dataclasses.replace(identity, queries=tuple(queries))


def _described(streaming: bool, shapes: Sequence[QueryShape]) -> str:
    kind = "streaming" if streaming else "batch"
    queries = "; ".join(f"{', '.join(s.sources)} -> {', '.join(s.sinks)}" for s in shapes)
    return f"{kind}: {queries}"


def assert_same_life(
    query: QueryIdentity, *, found_query_id: str | None, newest_plan: int, logged_batch: int
) -> None:
    """Refuse a Spark checkpoint and a pipeline state that do not belong together.

    Args:
        query: The recorded query.
        found_query_id: Spark's id in its checkpoint, None if there is no checkpoint.
        newest_plan: Number of the newest plan.
        logged_batch: Newest batch in Spark's offset log.

    Raises:
        IdentityError: One of them was deleted or replaced.
    """
    ways_out = [
        LOST_STATE_HINT,
        "start with another checkpoint location; the pipeline then reads and writes everything "
        "again",
    ]
    if found_query_id is None:
        raise IdentityError(
            "Spark's checkpoint of the pipeline is missing",
            expected=f"{query.spark_folder} with query id {query.spark_query_id}",
            found="no Spark checkpoint",
            ways_out=ways_out,
        )
    if found_query_id != query.spark_query_id:
        raise IdentityError(
            "Spark's checkpoint is not the one that this pipeline wrote",
            expected=query.spark_query_id,
            found=found_query_id,
            ways_out=ways_out,
        )
    if newest_plan < query.first or (query.uids and newest_plan < 0 <= logged_batch):
        raise IdentityError(
            "the plans of the pipeline are missing, but Spark's checkpoint exists",
            expected=f"plans below {query.folder}",
            found=f"{logged_batch + 1} micro-batches in Spark's log and no plan",
            ways_out=ways_out,
        )
