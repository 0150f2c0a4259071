# SPDX-License-Identifier: Apache-2.0
"""Metadata services: one file, or one cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import orjson

from connector_kafka.client.config import CLIENT_PROPERTIES, CONSUMER_PROPERTIES, ClientConfig
from connector_kafka.client.metadata import Cluster
from connector_kafka.client.wire import Wire
from connector_kafka.dynamic.metadata import ClusterMetadata, KafkaMetadataService, KafkaStream
from connector_kafka.source.places import parse_position
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    InvalidOptionError,
    MissingDependencyError,
    RetryableError,
)
from connectors_core.secrets import Secret, mask_url, revealed

__all__ = ["FileMetadataService", "SingleClusterMetadataService"]

_EXAMPLE: Final = (
    '{"clusters": {"east": {"properties": {"bootstrap.servers": "east:9092"}}}, '
    '"streams": {"flights": {"east": ["flights"]}}}'
)
_OF_CLUSTER: Final = frozenset({"properties", "starting-offsets", "stopping-offsets"})


class FileMetadataService(KafkaMetadataService):
    """Streams in a JSON or YAML file, which the driver reads again at each discovery.

    Replace the file atomically. A file that cannot be read or parsed is a failed discovery.

    Args:
        path: A path, or a URL for fsspec. A name that ends in `.yaml` or `.yml` is YAML.
        credentials: Secret properties by the ID of the cluster.
        storage_options: Arguments of the fsspec file system. Values can be a `Secret`.

    Raises:
        InvalidOptionError: The credentials are not given by cluster.
    """

    def __init__(
        self,
        path: str,
        *,
        credentials: Mapping[str, Mapping[str, str | Secret]] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._path = path
        if not all(isinstance(each, Mapping) for each in (credentials or {}).values()):
            raise InvalidOptionError(
                "the credentials of a cluster are not properties",
                expected='properties by cluster, such as {"east": {"sasl.password": ...}}',
                option="metadata-service.credentials",
            )
        self._credentials = {
            cluster: {key: _secret(value) for key, value in properties.items()}
            for cluster, properties in (credentials or {}).items()
        }
        self._storage_options = dict(storage_options or {})

    def get_all_streams(self) -> Collection[KafkaStream]:
        """Read the file.

        Raises:
            RetryableError: It cannot be read.
            ConfigurationError: It has another form.
        """
        document = _parsed(self._path, self._read())
        try:
            return _streams(document)
        except ConnectorError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the metadata in {mask_url(self._path)!r} has another form",
                expected=_EXAMPLE,
                found=f"{type(error).__name__}: {error}",
                option="metadata-service.path",
            ) from error

    def describe_streams(self, stream_ids: Collection[str]) -> Mapping[str, KafkaStream]:
        """Read the file; see `get_all_streams`."""
        wanted = frozenset(stream_ids)
        return {each.stream_id: each for each in self.get_all_streams() if each.stream_id in wanted}

    def credentials(self, cluster_id: str) -> Mapping[str, str | Secret]:
        """Return those from the constructor."""
        return self._credentials.get(cluster_id, {})

    def _read(self) -> bytes:
        import fsspec

        options = revealed(self._storage_options)
        try:
            with fsspec.open(self._path, "rb", **options) as file:
                content: bytes = file.read()
        except (OSError, ValueError, ImportError) as error:
            raise RetryableError(
                f"the metadata in {mask_url(self._path)!r} cannot be read",
                found=f"{type(error).__name__}: {error}",
                option="metadata-service.path",
            ) from error
        return content

    def __repr__(self) -> str:
        return f"{type(self).__name__}({mask_url(self._path)!r})"


class SingleClusterMetadataService(KafkaMetadataService):
    """One cluster, whose topics are the streams (Flink's `SingleClusterTopicMetadataService`).

    Args:
        cluster_id: The ID of the cluster.
        properties: Properties of the client, including its secrets.
    """

    def __init__(self, cluster_id: str, properties: Mapping[str, str | Secret]) -> None:
        self._cluster_id = cluster_id
        secret = {
            key
            for key, value in properties.items()
            if isinstance(value, Secret) or CONSUMER_PROPERTIES.is_secret(key)
        }
        self._plain = {key: str(each) for key, each in properties.items() if key not in secret}
        self._secret = {key: _secret(each) for key, each in properties.items() if key in secret}

    def get_all_streams(self) -> Collection[KafkaStream]:
        """Ask the cluster for its topics."""
        given = {key: each for key, each in self._plain.items() if key in CLIENT_PROPERTIES}
        wire = Wire(ClientConfig.of({**given, **self._secret}))
        try:
            return [self._stream(name) for name in Cluster(wire).topics()]
        finally:
            wire.close()

    def describe_streams(self, stream_ids: Collection[str]) -> Mapping[str, KafkaStream]:
        """Return a stream for each topic. The source checks that the topic exists."""
        return {each: self._stream(each) for each in stream_ids}

    def credentials(self, cluster_id: str) -> Mapping[str, str | Secret]:
        """Return the secrets of the cluster."""
        return self._secret if cluster_id == self._cluster_id else {}

    def _stream(self, topic: str) -> KafkaStream:
        cluster = ClusterMetadata(topics=frozenset({topic}), properties=self._plain)
        return KafkaStream(stream_id=topic, clusters={self._cluster_id: cluster})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._cluster_id!r})"


def _secret(value: str | Secret) -> Secret:
    return value if isinstance(value, Secret) else Secret(value)


def _parsed(path: str, content: bytes) -> Any:
    parse = _yaml if path.lower().endswith((".yaml", ".yml")) else orjson.loads
    try:
        return parse(content)
    except MissingDependencyError:
        raise
    except ValueError as error:
        raise ConfigurationError(
            f"the metadata in {mask_url(path)!r} cannot be parsed",
            expected=_EXAMPLE,
            found=type(error).__name__,
            option="metadata-service.path",
        ) from error


def _yaml(content: bytes) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingDependencyError(
            "yaml", install="pip install pyyaml", feature="a YAML file of streams"
        ) from error
    try:
        return yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise ValueError("no YAML") from error


def _streams(document: Any) -> list[KafkaStream]:
    unknown = document.keys() - {"clusters", "streams"}
    if unknown:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    clusters: Mapping[str, Any] = document["clusters"]
    for name, cluster in clusters.items():
        if more := cluster.keys() - _OF_CLUSTER:
            raise ValueError(f"unknown keys of the cluster {name!r}: {sorted(more)}")
    return [
        KafkaStream(
            stream_id=stream_id,
            clusters={
                name: _cluster(topics, clusters[name]) for name, topics in by_cluster.items()
            },
        )
        for stream_id, by_cluster in document["streams"].items()
    ]


def _cluster(topics: Any, cluster: Mapping[str, Any]) -> ClusterMetadata:
    if not isinstance(topics, list) or not all(isinstance(each, str) for each in topics):
        raise ValueError(f"the topics {topics!r} are no list of names")
    start, stop = cluster.get("starting-offsets"), cluster.get("stopping-offsets")
    return ClusterMetadata(
        topics=frozenset(topics),
        properties={key: str(value) for key, value in cluster["properties"].items()},
        starting_offsets=None if start is None else parse_position(start),
        stopping_offsets=None if stop is None else parse_position(stop),
    )
