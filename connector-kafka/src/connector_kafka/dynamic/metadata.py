# SPDX-License-Identifier: Apache-2.0
"""Streams: topics in clusters, as a metadata service knows them (Flink's FLIP-246)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connector_kafka.client.config import CONSUMER_PROPERTIES
from connector_kafka.source.offsets import OffsetsInitializer
from connectors_core.errors import InvalidOptionError
from connectors_core.secrets import Secret

__all__ = ["ClusterMetadata", "KafkaMetadataService", "KafkaStream"]


@dataclass(frozen=True, kw_only=True)
class ClusterMetadata:
    """The topics of a stream in one cluster, and the connection to it.

    Attributes:
        topics: The topics. Without topics, what was read before is read to its end.
        properties: Properties of the client, such as `bootstrap.servers`. Plans and state contain
            them, so they have no secrets; see `KafkaMetadataService.credentials`.
        starting_offsets: The first offsets that the source reads in a cluster that is new to it.
            The default is that of the source or, if the cluster is added later, the earliest
            offset.
        stopping_offsets: The offsets at which a bounded source ends. The default is that of the
            source. An unbounded source ignores them.

    Raises:
        InvalidOptionError: The topics are one text, or a property is a secret.
    """

    topics: frozenset[str]
    properties: Mapping[str, str] = field(default_factory=dict)
    starting_offsets: OffsetsInitializer | None = None
    stopping_offsets: OffsetsInitializer | None = None

    def __post_init__(self) -> None:
        if isinstance(self.topics, str):
            raise InvalidOptionError(
                "the topics of a cluster are one text",
                expected="a set of names, such as {'flights'}",
                found=self.topics,
                option="metadata-service",
            )
        object.__setattr__(self, "topics", frozenset(self.topics))
        for key, value in self.properties.items():
            if isinstance(value, Secret) or CONSUMER_PROPERTIES.is_secret(key):
                raise InvalidOptionError(
                    f"the metadata of a cluster has the secret property {key!r}",
                    expected="properties that plans and state may contain",
                    option=key,
                    hint="return it from credentials() of the metadata service, or set it in the "
                    "properties of the source",
                )


@dataclass(frozen=True, kw_only=True)
class KafkaStream:
    """A stream: topics in one cluster or in several.

    Attributes:
        stream_id: The name of the stream.
        clusters: The metadata by the ID of the cluster, which never changes.

    Raises:
        InvalidOptionError: An ID is no text, or is empty.
    """

    stream_id: str
    clusters: Mapping[str, ClusterMetadata]

    def __post_init__(self) -> None:
        for each in (self.stream_id, *self.clusters):
            if not isinstance(each, str) or not each:
                raise InvalidOptionError(
                    "the metadata has an ID that cannot be used",
                    expected="a text that is not empty",
                    found=repr(each),
                    option="metadata-service",
                    hint="write the IDs of streams and clusters in quotes",
                )


class KafkaMetadataService(ABC):
    """Knows the streams. Implement it for the system in which you keep them.

    Pickled with the source. No I/O in the constructor. The driver asks for streams on a worker
    thread. An error counts as a failed discovery.
    """

    @abstractmethod
    def get_all_streams(self) -> Collection[KafkaStream]:
        """Return all streams. Driver."""

    @abstractmethod
    def describe_streams(self, stream_ids: Collection[str]) -> Mapping[str, KafkaStream]:
        """Return streams by their IDs, without those that do not exist. Driver."""

    def credentials(self, cluster_id: str) -> Mapping[str, str | Secret]:
        """Return the properties of a cluster that neither plans nor state may contain.

        Without slow I/O, because each task calls it for each cluster. Driver and executor. The
        default is none.
        """
        return {}

    def close(self) -> None:
        """Release the resources that calls on the driver have created."""
