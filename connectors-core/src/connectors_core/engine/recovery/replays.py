# SPDX-License-Identifier: Apache-2.0
"""Accepts that a repeated micro-batch has other rows than those that its epoch wrote."""

from __future__ import annotations

from dataclasses import dataclass

from connectors_core.engine.coordinator.identity import QueryIdentity
from connectors_core.engine.coordinator.plan_log import decisions_since
from connectors_core.engine.protocol import accepted_replay_path
from connectors_core.engine.recovery.locations import Locations
from connectors_core.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A micro-batch that Spark runs again although its epoch is decided.

    Attributes:
        query: Folder of the query.
        epoch: The epoch.
        batch: The micro-batch.
        rows: Rows that the epoch wrote, by sink.
    """

    query: str
    epoch: int
    batch: int
    rows: dict[str, int]


def pending_replay(locations: Locations, query: QueryIdentity, epoch: int) -> Replay:
    """Return the replay that the next start runs. Read-only.

    Args:
        locations: The locations of the pipeline.
        query: One of its queries.
        epoch: The epoch to replay.

    Raises:
        ConfigurationError: The next start does not replay the epoch.
    """
    log = locations.spark(query)
    decided = {
        number: decision
        for number, decision in decisions_since(locations.state.child(query.folder), 0).items()
        if decision.spark_query_id == query.spark_query_id
        and decision.batch_id > log.last_committed
        and not decision.between
        and not decision.is_fence
    }
    if epoch not in decided:
        raise ConfigurationError(
            f"the next start of {query.folder} does not run epoch {epoch} again",
            expected="the epoch of a micro-batch that Spark has not finished: "
            + (", ".join(map(str, decided)) or "there is none"),
            option="epoch",
            hint="start the pipeline; if that fails, its error names the epoch",
        )
    return Replay(
        query=query.folder,
        epoch=epoch,
        batch=decided[epoch].batch_id,
        rows={uid: sink.rows for uid, sink in decided[epoch].sinks.items()},
    )


def accept_replay(locations: Locations, replay: Replay) -> None:
    """Accept other rows. The caller holds the lease."""
    locations.state.child(replay.query).create(accepted_replay_path(replay.epoch), b"")
