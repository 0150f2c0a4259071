# SPDX-License-Identifier: Apache-2.0
"""Runs the sinks of Sink V1 (Flink's ``SinkV1Adapter``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, Final, TypeVar

import pyarrow as pa

from connectors_core.annotations import deprecated
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.errors import (
    ConfigurationError,
    FatalError,
    RetryableError,
    UnsupportedError,
)
from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.serialization import VersionedSerializer
from connectors_core.sink.committer import CommitRequest, Committer, CommitterInitContext
from connectors_core.sink.messages import CommittableMessage, committables_of
from connectors_core.sink.options import SINK_PARALLELISM
from connectors_core.sink.sink import (
    CommittingSinkWriter,
    Sink,
    TwoPhaseCommittingSink,
    WriterInitContext,
)
from connectors_core.sink.stateful_sink import StatefulSink, StatefulSinkWriter
from connectors_core.sink.topology import SupportsPostCommitTopology
from connectors_core.sink.v1 import interfaces as v1

AnySinkV1 = v1.Sink[Any, Any, Any]
_T = TypeVar("_T")

_NEVER_CALLED: Final = {
    "compatible_state_names": "the state of writers belongs to the uid of their sink",
    "end_of_input": "the end of the input is no event in a pipeline",
    "write_watermark": "no watermark reaches a writer",
}
"""The methods of Flink's Sink V1 that nothing would call, with the reason."""
_BATCH_CONTEXT: Final = v1.WriterContext()


class SinkV1Adapter(Sink, SupportsConnectionCheck, LineageVertexProvider):
    """Deprecated since 1.1.0, removed in 2.0.0: a sink of Sink V1 as one for `Pipeline.sink_to`.

    The sink keeps its guarantee. With a committer or a global committer, it is exactly-once, as far
    as both are idempotent. Otherwise, it is at-least-once. Its abilities pass on: a
    `SupportsConnectionCheck` checks its connection, a `LineageVertexProvider` names its datasets.
    """

    def __init__(self, sink: AnySinkV1, writers: int | None) -> None:
        self._sink = sink
        self._writers = writers

    @staticmethod
    @deprecated(
        since="1.1.0",
        removal="2.0.0",
        instead="connectors_core.sink.Sink (docs/migrate/sink-v1.md)",
    )
    def wrap(sink: AnySinkV1, *, parallelism: int | None = None) -> SinkV1Adapter:
        """Return a sink of Sink V2 with the abilities of this sink. Driver.

        Like Flink, this creates the committers of the sink once, to see which it has.

        Args:
            sink: The sink.
            parallelism: The number of writers. A sink whose writers keep state needs it here or in
                ``sink_to(parallelism=...)``.

        Raises:
            ConfigurationError: It is no sink of Sink V1, or has a committer but no serializer of
                committables, or the number is not positive.
            UnsupportedError: It has a method that nothing would call.
        """
        if not isinstance(sink, v1.Sink):
            raise ConfigurationError(
                f"{type(sink).__name__} is not a sink of Sink V1",
                expected="a connectors_core.sink.v1.Sink",
                hint="pass a sink of Sink V2 to sink_to as it is",
            )
        if parallelism is not None:
            SINK_PARALLELISM.accept(parallelism)
        _check_methods(sink)
        with ExitStack() as created:
            if (committer := sink.create_committer()) is not None:
                created.callback(committer.close)
            if (global_committer := sink.create_global_committer()) is not None:
                created.callback(global_committer.close)
                _check_methods(global_committer)
        commits = committer is not None or global_committer is not None
        if commits and sink.committable_serializer() is None:
            raise ConfigurationError(
                f"{type(sink).__name__} has a committer, but its committables cannot be stored",
                expected="a serializer",
                option="committable_serializer",
            )
        kind = _KINDS[
            sink.writer_state_serializer() is not None, commits, global_committer is not None
        ]
        return kind(sink, parallelism)

    def writer_parallelism(self) -> int | None:
        """Return the number of writers; ``None`` keeps the input partitions."""
        return self._writers

    def check_connection(self, timeout: float) -> None:
        """Check the connection of the sink, if it supports this."""
        if isinstance(self._sink, SupportsConnectionCheck):
            self._sink.check_connection(timeout)

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Those of the sink, if it is a `LineageVertexProvider`."""
        sink = self._sink
        return sink.lineage_datasets() if isinstance(sink, LineageVertexProvider) else ()

    def __repr__(self) -> str:
        return f"SinkV1Adapter({self._sink!r})"

    def _create_writer(
        self, context: WriterInitContext, states: Sequence[Any]
    ) -> v1.Writer[Any, Any]:
        given = v1.InitContext(subtask_id=context.subtask_id, metric_group=context.metric_group)
        with ExitStack() as created:  # closes a writer that is refused
            writer = self._sink.create_writer(given, states)
            created.callback(writer.close)
            _check_methods(writer)
            created.pop_all()
        return writer


class _Writer(CommittingSinkWriter[Any]):
    def __init__(self, writer: v1.Writer[Any, Any], *, commits: bool) -> None:
        self._writer = writer
        self._commits = commits
        self._committables: Sequence[Any] = ()

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write(batch, _BATCH_CONTEXT)

    def flush(self) -> None:
        self._committables = self._writer.prepare_commit(True)
        if self._committables and not self._commits:
            raise FatalError(
                f"{type(self._writer).__name__} returned committables, and no one commits them",
                expected="none from a sink without a committer",
                found=f"{len(self._committables)} committables",
            )

    def prepare_commit(self) -> Sequence[Any]:
        return self._committables

    def close(self) -> None:
        self._writer.close()


class _StatefulWriter(_Writer, StatefulSinkWriter[Any]):
    def snapshot_state(self, checkpoint_id: int) -> Sequence[Any]:
        return self._writer.snapshot_state(checkpoint_id)


class _Stateless(SinkV1Adapter):
    def create_writer(self, context: WriterInitContext) -> _Writer:
        writer = self._create_writer(context, [])
        return _Writer(writer, commits=isinstance(self, TwoPhaseCommittingSink))


class _Stateful(SinkV1Adapter, StatefulSink[Any]):
    def create_writer(self, context: WriterInitContext) -> _StatefulWriter:
        return self.restore_writer(context, [])

    def restore_writer(self, context: WriterInitContext, states: Sequence[Any]) -> _StatefulWriter:
        writer = self._create_writer(context, states)
        return _StatefulWriter(writer, commits=isinstance(self, TwoPhaseCommittingSink))

    def writer_state_serializer(self) -> VersionedSerializer[Any]:
        return _existing(self._sink.writer_state_serializer())


class _Committing(SinkV1Adapter, TwoPhaseCommittingSink[Any]):
    def create_committer(self, context: CommitterInitContext) -> Committer[Any]:
        return _Committer(_existing(self._sink.create_committer()))

    def committable_serializer(self) -> VersionedSerializer[Any]:
        return _existing(self._sink.committable_serializer())


class _GloballyCommitting(_Committing, SupportsPostCommitTopology[Any]):
    def create_committer(self, context: CommitterInitContext) -> Committer[Any]:
        committer = self._sink.create_committer()
        return _NoCommitter() if committer is None else _Committer(committer)

    def add_post_commit_topology(self, messages: Iterable[CommittableMessage[Any]]) -> None:
        committables = committables_of(messages)
        if not committables:
            return
        with closing(_existing(self._sink.create_global_committer())) as committer:
            combined = committer.combine(committables)
            pending = committer.filter_recovered_committables([combined])
            if pending and committer.commit(pending):
                raise RetryableError(
                    f"{type(committer).__name__} asks to retry",
                    hint="see the sink's log for the reason",
                )


class _StatelessCommitting(_Stateless, _Committing):
    pass


class _StatefulCommitting(_Stateful, _Committing):
    pass


class _StatelessGloballyCommitting(_Stateless, _GloballyCommitting):
    pass


class _StatefulGloballyCommitting(_Stateful, _GloballyCommitting):
    pass


_KINDS: Final[Mapping[tuple[bool, bool, bool], type[SinkV1Adapter]]] = {
    (False, False, False): _Stateless,
    (False, True, False): _StatelessCommitting,
    (False, True, True): _StatelessGloballyCommitting,
    (True, False, False): _Stateful,
    (True, True, False): _StatefulCommitting,
    (True, True, True): _StatefulGloballyCommitting,
}
"""The adapters, by whether a sink is stateful, commits, and commits globally."""


class _Committer(Committer[Any]):
    def __init__(self, committer: v1.Committer[Any]) -> None:
        self._committer = committer

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        try:
            again = self._commit([each.committable for each in requests])
        except RetryableError:
            raise
        except Exception as error:
            for request in requests:
                request.signal_failed(error)
            return
        for request in requests:
            if id(request.committable) in again:
                request.retry_later()

    def _commit(self, committables: list[Any]) -> set[int]:
        """Return the ids of the objects to retry: equal committables can be different files."""
        given = {id(each) for each in committables}
        again = {id(each) for each in self._committer.commit(committables)}
        if not again <= given:
            raise FatalError(
                f"{type(self._committer).__name__} asks to retry a committable that it did not get",
                expected="the same objects, not copies",
            )
        return again

    def close(self) -> None:
        self._committer.close()


class _NoCommitter(Committer[Any]):
    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        """Do nothing: the global committer commits."""


def _existing(part: _T | None) -> _T:
    """Return a part that the sink had when it was wrapped.

    Raises:
        FatalError: The sink has it no longer.
    """
    if part is None:
        raise FatalError("a sink of Sink V1 lacks a part that it had when it was wrapped")
    return part


def _check_methods(part: object) -> None:
    """Refuse a part of a V1 sink with a method that nothing would call.

    Raises:
        UnsupportedError: It has one.
    """
    for method, why in _NEVER_CALLED.items():
        if hasattr(part, method):
            raise UnsupportedError(
                f"{type(part).__name__}.{method} would never be called: {why}",
                hint="remove the method if the sink works without it; otherwise, migrate the sink "
                "to Sink V2",
            )
