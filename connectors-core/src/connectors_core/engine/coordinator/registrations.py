# SPDX-License-Identifier: Apache-2.0
"""What a pipeline is made of, on Spark or without, and what it refuses. Driver, no pyspark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta

from connectors_core.engine.coordinator.connection_checks import (
    check_connections,
    check_state_location,
)
from connectors_core.engine.coordinator.identity import check_uid
from connectors_core.engine.coordinator.pipeline_checks import (
    check_ends,
    check_has_sinks,
    check_not_started,
    check_policies,
    warn_of_unread,
)
from connectors_core.engine.coordinator.sink_settings import SinkSettings
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.coordinator.writer_states import check_stateful
from connectors_core.engine.state import StateStore
from connectors_core.records import RecordPolicy
from connectors_core.table.lookup_table_source import LookupTableSource


class Registrations:
    """The sources, tables and sinks of one pipeline.

    Attributes:
        started: Whether the pipeline was started: it takes no more of them.
        sources: The sources by uid.
        tables: The tables that are looked up, by uid.
        sinks: The sinks by uid.

    Args:
        name: The pipeline.
        connection_timeout: Time that their systems have to answer; None asks none of them.
    """

    def __init__(self, name: str, *, connection_timeout: timedelta | None) -> None:
        self.started = False
        self.sources: dict[str, SourceSettings] = {}
        self.tables: dict[str, LookupTableSource] = {}
        self.sinks: dict[str, SinkSettings] = {}
        self._name = name
        self._timeout = None if connection_timeout is None else connection_timeout.total_seconds()

    def check_open(self, method: str, uid: str | None = None) -> None:
        """Refuse a call that comes too late, or a uid that is taken.

        Raises:
            ConfigurationError: The pipeline was started, or the uid cannot be used.
        """
        check_not_started(method, started=self.started)
        if uid is not None:
            taken = self.sources.keys() | self.tables.keys() | self.sinks.keys()
            check_uid(uid, taken, self._name)

    def add_sink(self, settings: SinkSettings) -> None:
        """Add a sink.

        Raises:
            ConfigurationError: Its writers keep state, and their number is not fixed.
        """
        check_stateful(settings.sink, settings.uid, settings.own_parallelism)
        self.sinks[settings.uid] = settings

    # --- at the start ---------------------------------------------------------------------------

    def check_ends(self, *, available_now: bool) -> None:
        """Refuse a run that would never return.

        Args:
            available_now: Whether sources are read up to what is there at the start.

        Raises:
            ConfigurationError: A source has no end.
        """
        streamed = {uid: each.source for uid, each in self.sources.items()}
        check_ends(streamed, available_now=available_now)

    def check_complete(self) -> None:
        """Refuse to start what was started, or would write nothing.

        Raises:
            ConfigurationError: The pipeline was started before, or has no sink.
        """
        self.check_open("run or start")
        check_has_sinks(self._name, self.sinks)

    def check_policies(self) -> None:
        """Refuse dead letters that nothing can write.

        Raises:
            ConfigurationError: A policy has something else in the place of a sink.
        """
        check_policies(self.policies)

    def warn_of_unread(self, read: Collection[str]) -> None:
        """Name the sources that are not read, since nothing takes their rows."""
        warn_of_unread(self._name, self.sources, read)

    @property
    def policies(self) -> dict[str, RecordPolicy]:
        """The record policies, by the uid of the source or sink that they belong to."""
        return policies_of(self.sources.values(), self.sinks.values())

    def parts(self, read: Collection[str]) -> dict[str, object]:
        """What reaches a system of its own, by what it is called.

        Args:
            read: The sources that are read.
        """
        parts: dict[str, object] = {
            f"source {uid!r}": each.source for uid, each in self.sources.items() if uid in read
        }
        parts |= {f"lookup {uid!r}": table for uid, table in self.tables.items()}
        parts |= {f"sink {uid!r}": each.sink for uid, each in self.sinks.items()}
        return parts | {
            f"the sink for dead letters of {uid!r}": policy.sink
            for uid, policy in self.policies.items()
        }

    def check_connections(self, parts: Mapping[str, object]) -> None:
        """Ask the systems of these parts for an answer.

        Raises:
            ConnectorError: A system gave none.
        """
        if self._timeout is not None:
            check_connections(parts, self._timeout)

    def check_state_location(self, root: StateStore) -> None:
        """Write to the state location and read that back.

        Raises:
            ConnectorError: It cannot be used, or gave no answer.
        """
        check_state_location(root, self._timeout)


def policies_of(
    sources: Iterable[SourceSettings], sinks: Iterable[SinkSettings]
) -> dict[str, RecordPolicy]:
    """The record policies, by the uid of the source or sink that they belong to."""
    policies = {source.uid: source.policy for source in sources}
    return policies | {sink.uid: sink.policy for sink in sinks}
