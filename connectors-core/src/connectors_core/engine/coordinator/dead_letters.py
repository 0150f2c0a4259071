# SPDX-License-Identifier: Apache-2.0
"""Writes the dead letters of an epoch to their sinks, as part of its decision. Driver."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from connectors_core.engine.execution.claims import Claims
from connectors_core.engine.execution.closing import closed_after
from connectors_core.engine.execution.dead_letter_spools import read_spool
from connectors_core.engine.execution.writer_task import Leases, encode_committables
from connectors_core.engine.protocol import DecidedCommittable, SinkDecision, claims_path
from connectors_core.engine.state import StateStore
from connectors_core.errors import ConfigurationError
from connectors_core.records import (
    DEAD_LETTER_SCHEMA,
    RecordErrorHandler,
    RecordPolicy,
    RecordPolicyMode,
)
from connectors_core.sink.sink import CommittingSinkWriter, Sink, WriterInitContext
from connectors_core.sink.stateful_sink import StatefulSink
from connectors_core.sink.topology import SupportsPreCommitTopology

UID_SUFFIX = ".dead-letters"
_NOT_SUPPORTED: Final = (
    (StatefulSink, "whose writers keep state"),
    (SupportsPreCommitTopology, "with a pre-commit topology"),
)


def check_dead_letters(policies: Mapping[str, RecordPolicy], sinks: Collection[str]) -> None:
    """Refuse dead letters that no sink can write, or whose uid another sink has.

    Args:
        policies: Record policies by the uid of their source or sink.
        sinks: The uids of the other sinks.

    Raises:
        ConfigurationError: A policy has no suitable sink, or a sink has the uid of dead letters.
    """
    for uid, policy in policies.items():
        if policy.mode is not RecordPolicyMode.DEAD_LETTER:
            continue
        if not isinstance(policy.sink, Sink):
            raise ConfigurationError(
                f"the dead letters of {uid!r} need a sink",
                expected="a Sink",
                found=type(policy.sink).__name__,
                option="record_policy",
            )
        for ability, having in _NOT_SUPPORTED:
            if isinstance(policy.sink, ability):
                raise ConfigurationError(
                    f"the dead letters of {uid!r} have a sink {having}; this is not supported for "
                    "dead letters",
                    expected="a sink without this ability",
                    found=type(policy.sink).__name__,
                    option="record_policy",
                )
        if uid + UID_SUFFIX in sinks:
            raise ConfigurationError(
                f"a sink has the uid of the dead letters of {uid!r}",
                found=uid + UID_SUFFIX,
                option="uid",
                hint="give the sink another uid",
            )


class DeadLetters:
    """Writes spools with the writers of the dead-letter sinks.

    Readers and writers spool their bad records. Only the spools that a winning report or summary
    names arrive here, so dead letters have the guarantee of the epoch.

    Args:
        policies: Record policies by the uid of their source or sink.
        store: The state location of the query, which holds the spools.
        pipeline_id: The pipeline.
        reader_stores: The stores with the spools of sources, by uid, if they differ from `store`.
    """

    def __init__(
        self,
        policies: Mapping[str, RecordPolicy],
        *,
        store: StateStore,
        pipeline_id: str,
        reader_stores: Mapping[str, StateStore] | None = None,
    ) -> None:
        self.policies = dict(policies)
        self._store = store
        self._reader_stores = dict(reader_stores or {})
        self._pipeline_id = pipeline_id
        self.sinks: dict[str, Sink] = {
            uid + UID_SUFFIX: policy.sink
            for uid, policy in policies.items()
            if isinstance(policy.sink, Sink)
        }

    def write(
        self, epoch: int, spools: Sequence[tuple[str, str]], leases: Leases | None = None
    ) -> dict[str, SinkDecision]:
        """Stage the dead letters of an epoch.

        Args:
            epoch: The epoch.
            spools: Uid of the source or sink, and the name of its spool.
            leases: Leases for the sinks that use them.

        Returns:
            The sink decisions, by uid of the dead-letter sink.
        """
        by_sink: dict[str, list[str]] = {}
        for uid, spool in spools:
            by_sink.setdefault(uid + UID_SUFFIX, []).append(spool)
        return self.write_again(epoch, by_sink, leases or {})

    def write_again(
        self, epoch: int, spools: Mapping[str, Sequence[str]], leases: Leases
    ) -> dict[str, SinkDecision]:
        """Stage the dead letters of an epoch again, for sinks that lost them.

        Args:
            epoch: The epoch.
            spools: Names of the spools to write, by uid of the dead-letter sink.
            leases: Leases for the sinks that use them.

        Returns:
            The sink decisions, by uid of the dead-letter sink.
        """
        return {
            uid: self._write_sink(uid, self.sinks[uid], epoch, names, leases)
            for uid, names in spools.items()
        }

    def _write_sink(
        self, uid: str, sink: Sink, epoch: int, names: Sequence[str], leases: Leases
    ) -> SinkDecision:
        nonce = secrets.token_hex(8)
        context = WriterInitContext(
            pipeline_id=self._pipeline_id,
            sink_uid=uid,
            checkpoint_id=epoch,
            subtask_id=0,
            attempt_number=0,
            nonce=nonce,
            schema=DEAD_LETTER_SCHEMA,
            record_errors=RecordErrorHandler(RecordPolicy.fail()),
            lease=leases[uid](1) if uid in leases else None,
            claim=Claims(store=self._store, folder=claims_path(epoch, uid, nonce)),
        )
        rows = size = 0
        with closed_after(sink.create_writer(context)) as writer:
            for name in names:
                for batch in read_spool(self._store_of(uid.removesuffix(UID_SUFFIX)), name):
                    writer.write(batch)
                    rows += batch.num_rows
                    size += batch.nbytes
            writer.flush()
            committables = (
                writer.prepare_commit() if isinstance(writer, CommittingSinkWriter) else ()
            )
        return SinkDecision(
            committables=tuple(
                DecidedCommittable(subtask=0, committable=each, rows=rows)
                for each in encode_committables(sink, committables)
            ),
            number_of_subtasks=1,
            rows=rows,
            bytes=size,
            spools=tuple(names),
        )

    def discard(self, spools: Sequence[tuple[str, str]]) -> None:
        """Remove spools whose dead letters are committed."""
        for uid, name in spools:
            self._store_of(uid).delete(name)

    def _store_of(self, uid: str) -> StateStore:
        return self._reader_stores.get(uid, self._store)
