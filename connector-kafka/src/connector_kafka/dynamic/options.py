# SPDX-License-Identifier: Apache-2.0
"""The settings of the dynamic source. The keys are Flink's."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Literal

from connector_kafka.classes import created
from connector_kafka.client.options import ClientOptions
from connector_kafka.dynamic.metadata import KafkaMetadataService
from connector_kafka.dynamic.services import FileMetadataService, SingleClusterMetadataService
from connector_kafka.source.options import TOPICS, ReadingOptions
from connectors_core.errors import InvalidOptionError, MissingOptionError
from connectors_core.options import (
    DURATION,
    JSON_MAP,
    REGEX,
    Configured,
    Option,
    Options,
    OptionType,
    Setting,
    at_least,
    option,
    option_like,
    part,
)

__all__ = ["DynamicKafkaSourceOptions", "RemovedTopicsPolicy"]

_SINCE: Final = "3.0.0"


class RemovedTopicsPolicy(enum.Enum):
    """The reaction to a topic that a stream no longer has in a cluster."""

    DRAIN = "drain"
    """Read it to the end that it has after its removal."""
    DROP = "drop"
    """Stop reading at once, as Flink does. Unread records are skipped."""


def _parse_interval(value: object) -> timedelta | None:
    """A duration, or milliseconds as in Flink, where no positive number means never."""
    if value is None:
        return None
    try:
        milliseconds = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        found: timedelta = DURATION.parse(value)
    else:
        found = DURATION.parse(f"{max(0, milliseconds)} ms")
    return found if found > timedelta(0) else None


_INTERVAL: Final[OptionType[timedelta | None]] = OptionType(
    "duration",
    _parse_interval,
    lambda value: "0 s" if value is None else DURATION.show(value),
    takes_none=True,
)

_SERVICE: Final = Option(
    "metadata-service",
    str,
    since=_SINCE,
    doc="`file`, `single-cluster`, or the class of a `KafkaMetadataService` as `module:Class`. Its "
    "constructor receives the properties of the source.",
)
_PATH: Final = Option(
    "metadata-service.path",
    str,
    since=_SINCE,
    doc="For `file`: the path or URL of a JSON or YAML file of streams.",
)
_CREDENTIALS: Final = Option(
    "metadata-service.credentials",
    JSON_MAP,
    secret=True,
    since=_SINCE,
    doc="For `file`: secret properties by the ID of the cluster, as JSON.",
)
_CLUSTER_ID: Final = Option(
    "metadata-service.cluster-id",
    str,
    since=_SINCE,
    doc="For `single-cluster`: the ID of the cluster. Its streams are its topics, and "
    "`properties.bootstrap.servers` are its brokers.",
)
(_PROPERTIES,) = ClientOptions.properties.options


def _service(options: Options) -> KafkaMetadataService:
    """Return the service that options describe.

    Raises:
        OptionError: They describe none.
    """
    name = options.get(_SERVICE)
    if name is None:
        raise MissingOptionError(_SERVICE.key, doc=_SERVICE.doc)
    path, cluster_id = options.get(_PATH), options.get(_CLUSTER_ID)
    properties: Mapping[str, Any] = options.get(_PROPERTIES) or {}
    for wanted, value, of in (
        (_PATH, path, "file"),
        (_CLUSTER_ID, cluster_id, "single-cluster"),
        (_CREDENTIALS, options.get(_CREDENTIALS), "file"),
    ):
        is_needed = name == of and wanted is not _CREDENTIALS
        if (value is None and is_needed) or (value is not None and name != of):
            raise InvalidOptionError(
                f"{wanted.key} and {_SERVICE.key} do not fit together",
                expected=f"{wanted.key} with {_SERVICE.key} {of}, and only then",
                found=f"{_SERVICE.key} {name}",
                option=wanted.key,
            )
    if path is not None:
        return FileMetadataService(path, credentials=options.get(_CREDENTIALS))
    if cluster_id is not None:
        return SingleClusterMetadataService(cluster_id, properties)
    try:
        return created(name, KafkaMetadataService, properties)  # type: ignore[type-abstract]
    except ValueError as error:
        raise InvalidOptionError(
            "the metadata service cannot be created",
            expected="file, single-cluster, or a subclass of KafkaMetadataService as module:Class",
            found=f"{name} ({type(error.__cause__ or error).__name__})",
            option=_SERVICE.key,
        ) from error


class StreamOptions(Configured, since=_SINCE):
    """The streams, and how to discover their clusters."""

    metadata_service: Setting[KafkaMetadataService] = part(
        KafkaMetadataService,
        _SERVICE,
        _PATH,
        _CREDENTIALS,
        _CLUSTER_ID,
        build=_service,
        kw_only=False,
        doc="Knows which topics of which clusters a stream has.",
    )
    stream_ids: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "stream-ids",
        TOPICS,
        default=(),
        doc="Streams to read. Set exactly one of `stream-ids` and `stream-pattern`.",
    )
    stream_pattern: Setting[str | None] = option(
        "stream-pattern",
        REGEX,
        default=None,
        doc="Regular expression that must match the whole ID of a stream.",
    )
    metadata_discovery_interval: Setting[timedelta | None, timedelta | str | int | None] = option(
        "stream-metadata-discovery-interval-ms",
        _INTERVAL,
        default=timedelta(minutes=1),
        doc="Interval at which the source discovers the clusters and topics of its streams: a "
        "duration, or milliseconds. If it is not positive, or if reading has an end, the source "
        "discovers them only once, at the start.",
    )
    tolerated_discovery_failures: Setting[int] = option(
        "stream-metadata-discovery-failure-threshold",
        int,
        default=1,
        validator=at_least(0),
        doc="Number of consecutive failed discoveries during which the source uses the last known "
        "metadata. The next one fails the pipeline, as does a failure of the first discovery.",
    )
    removed_topics: Setting[RemovedTopicsPolicy, RemovedTopicsPolicy | Literal["drain", "drop"]] = (
        option(
            "stream-metadata-removed-topics",
            RemovedTopicsPolicy,
            default=RemovedTopicsPolicy.DRAIN,
            doc="Reaction to a topic that a stream no longer has in a cluster: read it to the end "
            "that it has after its removal, or skip its unread records, as Flink does.",
        )
    )
    properties: Setting[dict[str, Any], Mapping[str, Any] | None] = option_like(
        ClientOptions.properties
    )


class DynamicKafkaSourceOptions(
    ReadingOptions, StreamOptions, scope="dynamic Kafka source", since=_SINCE
):
    """What to read and how: the settings of `DynamicKafkaSource`."""
