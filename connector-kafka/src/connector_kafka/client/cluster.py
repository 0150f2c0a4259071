# SPDX-License-Identifier: Apache-2.0
"""Creates and deletes topics, and reads the settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from connector_kafka.client.config import ClientConfig
from connector_kafka.client.errors import NO_ERROR, error_of_code, is_missing, missing_topic
from connector_kafka.client.retries import retrying
from connector_kafka.client.wire import Wire
from connector_kafka.errors import KafkaAuthorizationError, KafkaRetryableError

__all__ = [
    "broker_setting",
    "check_reachable",
    "create_topic",
    "delete_topic",
    "ensure_topic",
    "topic_setting",
]

_TOPIC_ALREADY_EXISTS: Final = 36
_TOPIC: Final = 2
_BROKER: Final = 4
_BROKER_DEFAULT: Final = -1
_TIMEOUT_MS: Final = 30_000
# A broker does not know a topic at once that has just been created.
_NEW_TOPIC_SECONDS: Final = 2.0
# Later versions of this request identify topics by ID.
_DELETE_TOPICS: Final = 5


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
    try:
        create_topic(wire, name, partitions=partitions, settings=settings)
    except KafkaAuthorizationError as error:
        error.hint = f"ask an administrator to create the topic {name!r} with one partition"
        raise


def create_topic(
    wire: Wire,
    name: str,
    *,
    partitions: int | None = None,
    replication: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> str | None:
    """Create a topic.

    Args:
        wire: The connection.
        name: The name of the topic.
        partitions: The number of partitions, or None for the brokers' default.
        replication: The number of replicas, or None for the brokers' default.
        settings: The settings of the topic.

    Returns:
        The ID of the topic, which is empty before Kafka 2.8, or None if the topic exists.

    Raises:
        KafkaAuthorizationError: The user lacks the permission.
        KafkaRetryableError: The cluster is temporarily unable to create it.
        ConfigurationError: The cluster refuses it.
    """
    entry = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(
        topics=[
            entry(
                name=name,
                num_partitions=_BROKER_DEFAULT if partitions is None else partitions,
                replication_factor=_BROKER_DEFAULT if replication is None else replication,
                assignments=[],
                configs=[
                    entry.CreatableTopicConfig(name=key, value=value)
                    for key, value in (settings or {}).items()
                ],
            )
        ],
        timeout_ms=_TIMEOUT_MS,
        validate_only=False,
    )
    (created,) = _ask_controller(wire, request).topics
    if created.error_code == _TOPIC_ALREADY_EXISTS:
        return None
    if created.error_code != NO_ERROR:
        doing = f"creating the topic {name!r}"
        raise error_of_code(created.error_code, doing, said=created.error_message)
    return created.topic_id.hex if created.topic_id else ""


def delete_topic(wire: Wire, name: str) -> None:
    """Delete a topic with its records if it exists.

    Raises:
        KafkaAuthorizationError: The user lacks the permission.
        KafkaRetryableError: The cluster is temporarily unable to delete it.
        ConfigurationError: The cluster refuses it.
    """
    request = DeleteTopicsRequest(
        topic_names=[name], timeout_ms=_TIMEOUT_MS, max_version=_DELETE_TOPICS
    )
    (deleted,) = _ask_controller(wire, request).responses
    if deleted.error_code != NO_ERROR and not is_missing(deleted.error_code):
        raise error_of_code(deleted.error_code, f"deleting the topic {name!r}")


def _ask_controller(wire: Wire, request: Any) -> Any:
    return wire.request(request, node=wire.refresh_metadata().controller_id)


def check_reachable(config: ClientConfig, timeout: float, *, topic: str | None = None) -> None:
    """Check that one of `bootstrap.servers` responds. Driver.

    Args:
        config: Properties of the client.
        timeout: The deadline in seconds.
        topic: A topic that must exist, unless the user lacks access to it. None for no topic.

    Raises:
        KafkaError: No broker responds. The error names the brokers and the last failure.
        KafkaRequestError: The topic does not exist.
    """
    wire = Wire(config)
    try:
        wire.request(MetadataRequest(topics=[]), timeout=timeout)
        if topic is not None:
            _check_topic(wire, topic)
    finally:
        wire.close()


def _check_topic(wire: Wire, name: str) -> None:
    def ask() -> None:
        for topic in wire.refresh_metadata([name]).topics:
            if is_missing(topic.error_code):
                raise error_of_code(topic.error_code, f"looking for the topic {name!r}")

    try:
        retrying(ask, wire.config, timeout=_NEW_TOPIC_SECONDS)
    except KafkaRetryableError as error:
        if not is_missing(error.kafka_code):
            raise
        raise missing_topic(name) from error


def broker_setting(wire: Wire, name: str) -> str | None:
    """Return a setting of the brokers, or None if the user lacks access or the cluster lacks it."""
    (broker, *_) = wire.refresh_metadata().brokers
    return _setting(wire, _BROKER, str(broker.node_id), name, node=broker.node_id)


def topic_setting(wire: Wire, topic: str, name: str) -> str | None:
    """Return a setting of a topic, or None if the user lacks access or the cluster lacks it."""
    return _setting(wire, _TOPIC, topic, name)


def _setting(
    wire: Wire, kind: int, owner: str, name: str, *, node: int | None = None
) -> str | None:
    entry = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[entry(resource_type=kind, resource_name=owner, configuration_keys=[name])],
        include_synonyms=False,
        include_documentation=False,
    )
    try:
        (result,) = wire.request(request, node=node).results
    except KafkaRetryableError:
        return None
    found: dict[str, Any] = {each.name: each.value for each in result.configs}
    return found.get(name) if result.error_code == NO_ERROR else None
