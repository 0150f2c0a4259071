# SPDX-License-Identifier: Apache-2.0
"""The parts of a pipeline, with or without Spark, and their checks. Driver, no pyspark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final

from connectors_core.engine.coordinator.connection_checks import (
    check_connections,
    check_state_location,
)
from connectors_core.engine.coordinator.dead_letters import check_dead_letters
from connectors_core.engine.coordinator.durations import CONNECTION_TIMEOUT
from connectors_core.engine.coordinator.identity import check_uid
from connectors_core.engine.coordinator.pipeline_checks import (
    check_ends,
    check_has_sinks,
    check_not_started,
    check_parallelism,
    check_record_policy,
    check_type,
    warn_of_unread,
)
from connectors_core.engine.coordinator.sink_settings import SinkSettings
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.coordinator.topologies import check_topologies
from connectors_core.engine.coordinator.writer_states import check_stateful
from connectors_core.engine.state import StateStore
from connectors_core.lookup.lookup_table_source import LookupTableSource
from connectors_core.lookup.vector_search import VectorSearchTableSource
from connectors_core.records import RecordPolicy
from connectors_core.sink.sink import Sink

_EXAMPLES: Final[Mapping[type, str]] = {
    LookupTableSource: "FileTable(FileSource('data/airports'))",
    VectorSearchTableSource: "ElasticsearchTable('http://127.0.0.1:9200', 'books')",
}


class Registrations:
    """The sources, tables, and sinks of one pipeline.

    Attributes:
        started: Whether the pipeline was started and accepts no more parts.
        sources: The sources by uid.
        tables: The tables of lookups and vector searches by uid.
        sinks: The sinks by uid.

    Args:
        name: Name of the pipeline.
        connection_timeout: Time in which their systems must respond; None skips the check.

    Raises:
        InvalidOptionError: The timeout is not a positive duration.
    """

    def __init__(self, name: str, *, connection_timeout: timedelta | str | None) -> None:
        self.started = False
        self.sources: dict[str, SourceSettings] = {}
        self.tables: dict[str, LookupTableSource | VectorSearchTableSource] = {}
        self.sinks: dict[str, SinkSettings] = {}
        self._name = name
        timeout = CONNECTION_TIMEOUT.accept(connection_timeout)
        self._timeout = None if timeout is None else timeout.total_seconds()

    def check_open(self, method: str, uid: str | None = None) -> None:
        """Refuse a call after the start, or a uid that is already used.

        Raises:
            ConfigurationError: The pipeline was started, or the uid cannot be used.
        """
        check_not_started(method, started=self.started)
        if uid is not None:
            taken = self.sources.keys() | self.tables.keys() | self.sinks.keys()
            check_uid(uid, taken, self._name)

    def check_table(self, method: str, table: object, kind: type, uid: str) -> None:
        """Refuse arguments of ``lookup_join`` or ``vector_search`` that the pipeline cannot use.

        Raises:
            ConfigurationError: The pipeline was started, the uid cannot be used, or the table is
                not of the kind that the method needs.
        """
        self.check_open(method, uid)
        check_type("table", table, kind, example=_EXAMPLES[kind])

    def check_sink(self, sink: Sink, uid: str, record_policy: RecordPolicy | None) -> None:
        """Refuse arguments of ``sink_to`` that the pipeline cannot use.

        Raises:
            ConfigurationError: The pipeline was started, the uid cannot be used, an argument has
                another type, or the sink has incompatible abilities.
        """
        self.check_open("sink_to", uid)
        check_type("sink", sink, Sink, example="FileSink('data/late')")
        check_record_policy(record_policy)
        check_topologies(sink, uid)

    def add_sink(self, settings: SinkSettings) -> None:
        """Add a sink.

        Raises:
            ConfigurationError: Its number of writers is not positive, or its writers keep state and
                their number is not fixed.
        """
        check_parallelism(settings.parallelism)
        check_stateful(settings.sink, settings.uid, settings.own_parallelism)
        self.sinks[settings.uid] = settings

    # --- at the start ---------------------------------------------------------------------------

    def check_ends(self, *, available_now: bool) -> None:
        """Refuse a run that would never return.

        Args:
            available_now: Whether the run ends after the data that is available at its start.

        Raises:
            ConfigurationError: A source has no end.
        """
        streamed = {uid: each.source for uid, each in self.sources.items()}
        check_ends(streamed, available_now=available_now)

    def check_complete(self) -> None:
        """Refuse to start a pipeline twice or without a sink.

        Raises:
            ConfigurationError: The pipeline was started before, or has no sink.
        """
        self.check_open("run or start")
        check_has_sinks(self._name, self.sinks)

    def check_policies(self) -> None:
        """Refuse dead letters that no sink can write, or whose uid another sink has.

        Raises:
            ConfigurationError: A policy has no suitable sink, or a sink has the uid of dead
                letters.
        """
        check_dead_letters(self.policies, self.sinks)

    def warn_of_unread(self, read: Collection[str]) -> None:
        """Log a warning that names the sources whose rows no sink receives."""
        warn_of_unread(self._name, self.sources, read)

    @property
    def policies(self) -> dict[str, RecordPolicy]:
        """The record policies, by the uid of their source or sink."""
        return policies_of(self.sources.values(), self.sinks.values())

    def parts(self, read: Collection[str]) -> dict[str, object]:
        """Return the parts that connect to a system, by display name.

        Args:
            read: Uids of the sources that the pipeline reads.
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
        """Check that the systems of these parts respond.

        Raises:
            ConnectorError: A system did not respond.
        """
        if self._timeout is not None:
            check_connections(parts, self._timeout)

    def check_state_location(self, root: StateStore) -> None:
        """Check that the state location can be written and read.

        Raises:
            ConnectorError: It cannot be used, or did not respond.
        """
        check_state_location(root, self._timeout)


def policies_of(
    sources: Iterable[SourceSettings], sinks: Iterable[SinkSettings]
) -> dict[str, RecordPolicy]:
    """Return the record policies, by the uid of their source or sink."""
    policies = {source.uid: source.policy for source in sources}
    return policies | {sink.uid: sink.policy for sink in sinks}
