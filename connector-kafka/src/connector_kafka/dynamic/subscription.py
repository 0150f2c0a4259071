# SPDX-License-Identifier: Apache-2.0
"""The selection of streams, and their topics by cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from connector_kafka.dynamic.metadata import ClusterMetadata, KafkaMetadataService, KafkaStream
from connectors_core.errors import ConfigurationError, InvalidOptionError

__all__ = ["StreamSubscription"]


@dataclass(frozen=True, kw_only=True)
class StreamSubscription:
    """Streams by ID or by pattern: exactly one of these.

    Attributes:
        stream_ids: IDs of streams.
        pattern: Regular expression that must match the whole ID.

    Raises:
        InvalidOptionError: It is none or both of them.
    """

    stream_ids: tuple[str, ...] = ()
    pattern: str | None = None

    def __post_init__(self) -> None:
        if bool(self.stream_ids) == (self.pattern is not None):
            raise InvalidOptionError(
                "it is not clear which streams to read",
                expected="exactly one of stream-ids and stream-pattern",
                found="both" if self.stream_ids else "none of them",
                option="stream-ids",
            )

    def find(self, service: KafkaMetadataService) -> dict[str, ClusterMetadata]:
        """Return the current clusters of the streams, each with all its topics. This can block.

        Raises:
            ConfigurationError: A stream does not exist, or two of them disagree about a cluster.
        """
        if self.pattern is not None:
            pattern = re.compile(self.pattern)
            streams = service.get_all_streams()
            return _by_cluster(each for each in streams if pattern.fullmatch(each.stream_id))
        found: Mapping[str, KafkaStream] = service.describe_streams(self.stream_ids)
        missing = [each for each in self.stream_ids if each not in found]
        if missing:
            raise ConfigurationError(
                f"the metadata service does not know the stream {', '.join(missing)}",
                option="stream-ids",
                hint="check the name; a stream without topics is read to its end",
            )
        return _by_cluster(found[each] for each in self.stream_ids)

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"pattern {self.pattern}"
        return ", ".join(self.stream_ids)


def _by_cluster(streams: Iterable[KafkaStream]) -> dict[str, ClusterMetadata]:
    clusters: dict[str, ClusterMetadata] = {}
    for stream in streams:
        for name, found in stream.clusters.items():
            known = clusters.setdefault(name, found)
            if replace(known, topics=frozenset()) != replace(found, topics=frozenset()):
                raise ConfigurationError(
                    f"the streams have different settings of the cluster {name!r}",
                    expected="one connection, one start, and one end for each cluster",
                    found=f"another one in the stream {stream.stream_id!r}",
                )
            clusters[name] = replace(known, topics=known.topics | found.topics)
    return clusters
