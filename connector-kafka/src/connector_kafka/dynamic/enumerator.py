# SPDX-License-Identifier: Apache-2.0
"""Follows streams through clusters, with the enumerator of each cluster. Driver."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from connector_kafka.dynamic.clusters import ClusterContext, KnownCluster
from connector_kafka.dynamic.metadata import ClusterMetadata, KafkaMetadataService
from connector_kafka.dynamic.metrics import ClusterMetrics
from connector_kafka.dynamic.split import ClusterEvent, DynamicKafkaSplit
from connector_kafka.dynamic.subscription import StreamSubscription
from connector_kafka.source.discovery import EnumerationSettings
from connector_kafka.source.enumerator import (
    KafkaEnumerator,
    KafkaEnumeratorState,
    state_serializer,
)
from connector_kafka.source.plans import shares
from connectors_core.secrets import mask_text
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import (
    PlannedRead,
    ReadLimits,
    SourceEvent,
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsAvailableNow,
    SupportsCommittedPositions,
    SupportsPlannedStops,
)

__all__ = [
    "DynamicKafkaEnumerator",
    "DynamicKafkaState",
    "StreamSettings",
    "dynamic_state_serializer",
]

_logger = logging.getLogger(__name__)

_CLUSTERS: Final = "kafkaClustersCount"
_FAILED: Final = "failedMetadataDiscoveries"


@dataclass(frozen=True, kw_only=True)
class ClusterState:
    """The state of one cluster.

    Attributes:
        topics: Its topics in the metadata. The others that the enumerator knows were removed.
        properties: Its properties in the metadata, which are no secrets.
        is_later: Whether it was found later than the first ones.
        version: The layout of `data`.
        data: The state of its enumerator.
    """

    topics: tuple[str, ...]
    properties: dict[str, str]
    is_later: bool
    version: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class DynamicKafkaState:
    """The state of the enumerator.

    Attributes:
        clusters: The clusters by ID, including those that were removed and may return.
        started: Whether the first clusters were found. Later ones are read from the earliest
            offset.
    """

    clusters: dict[str, ClusterState] = field(default_factory=dict)
    started: bool = False


def dynamic_state_serializer() -> JsonDataclassSerializer[DynamicKafkaState]:
    """The stored form."""
    return JsonDataclassSerializer(DynamicKafkaState)


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """What to read, and how to discover it.

    Attributes:
        service: The metadata service.
        subscription: The selection of streams.
        enumeration: Returns the settings for a cluster: its ID, its metadata, and whether it is
            found later than the first ones.
        interval: The interval of metadata discovery. None discovers the metadata once.
        tolerated_failures: The number of consecutive failed discoveries that the source tolerates.
    """

    service: KafkaMetadataService
    subscription: StreamSubscription
    enumeration: Callable[[str, ClusterMetadata, bool], EnumerationSettings]
    interval: timedelta | None
    tolerated_failures: int


class DynamicKafkaEnumerator(
    SplitEnumerator[DynamicKafkaSplit, DynamicKafkaState],
    SupportsPlannedStops[DynamicKafkaSplit],
    SupportsCommittedPositions[DynamicKafkaSplit],
    SupportsAvailableNow,
):
    """The enumerator of streams; see the module.

    Args:
        context: The coordinator.
        settings: The settings of the source.
        state: The state to resume from.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[DynamicKafkaSplit],
        settings: StreamSettings,
        state: DynamicKafkaState,
    ) -> None:
        self._context = context
        self._settings = settings
        self._started = state.started
        self._found = False
        self._frozen = False
        self._failures = 0
        self._told: set[int] = set()
        self._metrics: dict[str, ClusterMetrics] = {}
        self._clusters: dict[str, KnownCluster] = {}
        self._former: dict[str, ClusterState] = {}  # removed clusters that were read to their end
        self._ended: frozenset[str] = frozenset()
        for name, stored in state.clusters.items():
            if not stored.topics and _state_of(stored).is_drained:
                self._former[name] = stored
                continue
            topics = frozenset(stored.topics)
            self._open(name, ClusterMetadata(topics=topics, properties=stored.properties), stored)

    # --- lifecycle -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the enumerators of the known clusters, and discover the current ones."""
        for each in self._clusters.values():
            # Only the metadata says where reading of the others starts.
            if each.enumerator.has_found_partitions:
                self._start(each)
        self._context.call_async(self._find, self._take_metadata, period=self._settings.interval)

    def close(self) -> None:
        """Close all enumerators, which commit the last offsets of their groups."""
        with ExitStack() as stack:
            stack.callback(self._settings.service.close)
            for each in self._clusters.values():
                stack.callback(each.enumerator.close)

    def add_reader(self, subtask_id: int) -> None:
        """See `SplitEnumerator`."""
        for each in self._clusters.values():
            if each.is_running:
                each.enumerator.add_reader(subtask_id)
        self._tell_readers()

    def handle_split_request(self, subtask_id: int) -> None:
        """Do nothing: splits are assigned when they are discovered."""

    def add_splits_back(self, splits: Sequence[DynamicKafkaSplit], subtask_id: int) -> None:
        """See `SplitEnumerator`."""
        for name, own in _by_cluster(splits).items():
            known = self._known(name, own[0].properties)
            known.enumerator.add_splits_back([each.split for each in own], subtask_id)

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """Pass the event to the enumerator of its cluster."""
        assert isinstance(event, ClusterEvent)
        known = self._known(event.cluster, event.properties)
        known.enumerator.handle_source_event(subtask_id, event.event)

    def snapshot_state(self, checkpoint_id: int) -> DynamicKafkaState:
        """See `SplitEnumerator`."""
        clusters = {name: _stored(each, checkpoint_id) for name, each in self._clusters.items()}
        return DynamicKafkaState(clusters=self._former | clusters, started=self._started)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Close the enumerators of removed clusters that were read to their end."""
        ended = {
            name
            for name, each in self._clusters.items()
            if each.is_running and each.enumerator.has_ended
        }
        # The positions of the last plan are reported at the latest with the next one.
        for name in sorted(ended & self._ended):
            cluster = self._clusters.pop(name)
            self._former[name] = _stored(cluster, checkpoint_id)
            cluster.retire()
            self._context.metric_group.set(_CLUSTERS, len(self._clusters))
            _logger.info("the removed cluster %r was read to its end", name)
        self._ended = frozenset(ended)

    # --- metadata --------------------------------------------------------------------------------

    def _find(self) -> dict[str, ClusterMetadata]:
        """Discover the clusters, and check their properties. Worker thread."""
        found = self._settings.subscription.find(self._settings.service)
        for name, metadata in found.items():
            self._settings.enumeration(name, metadata, False)
        return found

    def _take_metadata(
        self, found: Mapping[str, ClusterMetadata] | None, error: BaseException | None
    ) -> None:
        if self._frozen and self._found:
            return  # what is found after the end belongs to a later run
        if found is None:
            assert error is not None
            self._find_failed(error)
        else:
            self._failures = 0
            for name, metadata in found.items():
                self._take_cluster(name, metadata)
            for name in self._clusters.keys() - found.keys():
                properties = self._clusters[name].context.properties
                self._take_cluster(name, ClusterMetadata(topics=frozenset(), properties=properties))
            self._started = True
        self._found = True
        self._context.metric_group.set(_CLUSTERS, len(self._clusters))
        if self._frozen:
            self._freeze()
        self._tell_readers()

    def _find_failed(self, error: BaseException) -> None:
        self._failures += 1
        is_tolerated = self._started and self._failures <= self._settings.tolerated_failures
        waits = self._frozen and not all(each.is_running for each in self._clusters.values())
        if waits or not is_tolerated:
            raise error
        self._context.metric_group.inc(_FAILED)
        # A service's own errors can have addresses with passwords.
        reason = mask_text("".join(traceback.format_exception(error)))
        _logger.warning("the last known metadata is used, because discovery failed: %s", reason)

    def _take_cluster(self, name: str, metadata: ClusterMetadata) -> None:
        known = self._clusters.get(name)
        if known is None and not metadata.topics:
            return
        stored = self._former.pop(name, None)
        if known is not None:
            changed = dict(metadata.properties) != dict(known.context.properties)
            if known.is_running and not changed:
                self._subscribe(name, metadata.topics)
                return
            if not known.is_running:
                known.topics = metadata.topics
            stored = _stored(known, 0)
            known.retire()
        _logger.info("the source reads the cluster %r", name)
        opened = self._open(name, metadata, stored)
        self._start(opened)
        self._subscribe(name, metadata.topics)

    def _start(self, cluster: KnownCluster) -> None:
        if not cluster.is_running:
            cluster.start()
            for reader in sorted(self._context.registered_readers):
                cluster.enumerator.add_reader(reader)

    def _subscribe(self, name: str, topics: frozenset[str]) -> None:
        known = self._clusters[name]
        if topics == known.topics:
            return
        _logger.info(
            "the topics of the cluster %r change from %s to %s",
            name,
            sorted(known.topics),
            sorted(topics),
        )
        known.topics = topics
        known.enumerator.subscribe(topics)

    def _open(
        self,
        name: str,
        metadata: ClusterMetadata,
        stored: ClusterState | None,
        *,
        follows_topics: bool = True,
    ) -> KnownCluster:
        context = ClusterContext(
            self._context,
            cluster=name,
            properties=metadata.properties,
            metrics=ClusterMetrics(
                source=self._context.metric_group, cluster=name, siblings=self._metrics
            ),
            on_complete=self._tell_readers,
        )
        is_later, topics, state = self._started, metadata.topics, KafkaEnumeratorState()
        if stored is not None:
            is_later, topics = stored.is_later, frozenset(stored.topics)
            state = _state_of(stored)
        settings = self._settings.enumeration(name, metadata, is_later)
        opened = self._clusters[name] = KnownCluster(
            topics=topics,
            is_later=is_later,
            context=context,
            enumerator=KafkaEnumerator(
                context, settings, state, topics=topics if follows_topics else None
            ),
        )
        return opened

    def _known(self, name: str, properties: Mapping[str, str]) -> KnownCluster:
        """Return a cluster that a plan or a report names.

        An earlier driver can have found it after the state was stored. It is then not read before
        the metadata says which of its topics were removed.
        """
        if name in self._clusters:
            return self._clusters[name]
        metadata = ClusterMetadata(topics=frozenset(), properties=properties)
        return self._open(name, metadata, self._former.pop(name, None), follows_topics=False)

    # --- the end ---------------------------------------------------------------------------------

    def freeze_end(self) -> None:
        """Read to the current ends of the current clusters."""
        self._frozen = True
        if self._found:
            self._freeze()

    def _freeze(self) -> None:
        for each in self._clusters.values():
            each.enumerator.freeze_end()

    def _tell_readers(self) -> None:
        """Tell readers that they get no more splits, if no cluster has more for them."""
        if not self._found or not (self._frozen or self._settings.interval is None):
            return
        for reader in sorted(self._context.registered_readers - self._told):
            if all(reader in each.context.complete for each in self._clusters.values()):
                self._told.add(reader)
                self._context.signal_no_more_splits(reader)

    # --- records ---------------------------------------------------------------------------------

    def plan_reads(
        self, splits: Sequence[DynamicKafkaSplit], limits: ReadLimits
    ) -> Mapping[str, PlannedRead[DynamicKafkaSplit]]:
        """Plan all clusters, and divide limits by lag."""
        clusters = self._clusters.values()
        if self._settings.interval is None and not all(
            each.enumerator.has_found_partitions for each in clusters
        ):
            return {}  # a restart after the first rows would determine later ends
        everything = self._plan(splits, {})
        if limits.rows is None and limits.splits is None:
            return everything
        empty = {name: read for name, read in everything.items() if read.empty}
        full = [each for each in splits if each.split_id in everything.keys() - empty.keys()]
        chosen = full[: limits.splits]
        lags: dict[str, int] = {}
        for each in chosen:
            planned = everything[each.split_id].split.split
            assert planned.stop is not None
            lags[each.cluster] = lags.get(each.cluster, 0) + planned.stop - planned.offset
        rows = dict(zip(lags, shares([*lags.values()], limits.rows), strict=True))
        chosen = [each for each in chosen if rows[each.cluster]]
        return empty | self._plan(chosen, rows)

    def _plan(
        self, splits: Sequence[DynamicKafkaSplit], rows: Mapping[str, int]
    ) -> dict[str, PlannedRead[DynamicKafkaSplit]]:
        reads: dict[str, PlannedRead[DynamicKafkaSplit]] = {}
        for name, own in _by_cluster(splits).items():
            cluster = self._known(name, own[0].properties)
            if not cluster.is_running:
                continue
            wrapped = cluster.context.wrapped
            planned = cluster.enumerator.plan_reads(
                [each.split for each in own], ReadLimits(rows=rows.get(name))
            )
            for read in planned.values():
                split = wrapped(read.split)
                then = None if read.then is None else wrapped(read.then)
                reads[split.split_id] = PlannedRead(split=split, then=then, empty=read.empty)
        return reads

    def positions_committed(
        self,
        checkpoint_id: int,
        splits: Sequence[DynamicKafkaSplit],
        finished: Sequence[DynamicKafkaSplit],
    ) -> None:
        """Commit the offsets of the group in each cluster."""
        left, ended = _by_cluster(splits), _by_cluster(finished)
        for name in self._clusters.keys() & (left.keys() | ended.keys()):
            self._clusters[name].enumerator.positions_committed(
                checkpoint_id,
                [each.split for each in left.get(name, ())],
                [each.split for each in ended.get(name, ())],
            )


def _stored(cluster: KnownCluster, checkpoint_id: int) -> ClusterState:
    serializer = state_serializer()
    return ClusterState(
        topics=tuple(sorted(cluster.topics)),
        properties=dict(cluster.context.properties),
        is_later=cluster.is_later,
        version=serializer.version,
        data=serializer.serialize(cluster.enumerator.snapshot_state(checkpoint_id)),
    )


def _state_of(stored: ClusterState) -> KafkaEnumeratorState:
    return state_serializer().deserialize(stored.version, stored.data)


def _by_cluster(splits: Iterable[DynamicKafkaSplit]) -> dict[str, list[DynamicKafkaSplit]]:
    found: dict[str, list[DynamicKafkaSplit]] = {}
    for each in splits:
        found.setdefault(each.cluster, []).append(each)
    return found
