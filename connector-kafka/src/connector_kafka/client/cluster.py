# SPDX-License-Identifier: Apache-2.0
"""Topics that must exist, and settings of brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.admin import CreateTopicsRequest, DescribeConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from connector_kafka.client.config import ClientConfig
from connector_kafka.client.errors import NO_ERROR, error_of_code
from connector_kafka.client.wire import Wire
from connector_kafka.errors import KafkaAuthorizationError, KafkaRetryableError

__all__ = ["broker_setting", "check_reachable", "ensure_topic"]

_TOPIC_ALREADY_EXISTS: Final = 36
_BROKER: Final = 4
_BROKER_DEFAULT: Final = -1


def ensure_topic(
    wire: Wire, name: str, *, partitions: int = 1, settings: Mapping[str, str] | None = None
) -> None:
    """Create a topic if it does not exist, with the brokers' default replication.

    Args:
        wire: The connection.
        name: The name of the topic.
        partitions: The number of partitions of a new topic.
        settings: The settings of a new topic.

    Raises:
        KafkaAuthorizationError: The user lacks the permission to create it. The message names the
            remedy.
        KafkaRetryableError: The cluster is temporarily unable to create it.
        ConfigurationError: The cluster refuses it.
    """
    metadata = wire.refresh_metadata([name])
    if any(topic.name == name and topic.error_code == NO_ERROR for topic in metadata.topics):
        return
    entry = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(
        topics=[
            entry(
                name=name,
                num_partitions=partitions,
                replication_factor=_BROKER_DEFAULT,
                assignments=[],
                configs=[
                    entry.CreatableTopicConfig(name=key, value=value)
                    for key, value in (settings or {}).items()
                ],
            )
        ],
        timeout_ms=30_000,
        validate_only=False,
    )
    response = wire.request(request, node=metadata.controller_id)
    (created,) = response.topics
    if created.error_code not in (NO_ERROR, _TOPIC_ALREADY_EXISTS):
        error = error_of_code(
            created.error_code, f"creating the topic {name!r}", said=created.error_message
        )
        if isinstance(error, KafkaAuthorizationError):
            error.hint = f"ask an administrator to create the topic {name!r} with one partition"
        raise error


def check_reachable(config: ClientConfig, timeout: float) -> None:
    """Check that one of `bootstrap.servers` responds. Driver.

    Args:
        config: Properties of the client.
        timeout: The deadline in seconds.

    Raises:
        KafkaError: No broker responds. The error names the brokers and the last failure.
    """
    wire = Wire(config)
    try:
        wire.request(MetadataRequest(topics=[]), timeout=timeout)
    finally:
        wire.close()


def broker_setting(wire: Wire, name: str) -> str | None:
    """Return a setting of the brokers, or None if the user lacks access or the cluster lacks it."""
    (broker, *_) = wire.refresh_metadata().brokers
    entry = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            entry(
                resource_type=_BROKER,
                resource_name=str(broker.node_id),
                configuration_keys=[name],
            )
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    try:
        (result,) = wire.request(request, node=broker.node_id).results
    except KafkaRetryableError:
        return None
    found: dict[str, Any] = {each.name: each.value for each in result.configs}
    return found.get(name) if result.error_code == NO_ERROR else None
