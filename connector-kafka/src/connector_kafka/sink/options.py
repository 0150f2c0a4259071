# SPDX-License-Identifier: Apache-2.0
"""The settings of the sink."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal

from connector_kafka.client.options import ClientOptions
from connector_kafka.sink.partition_assigner import KafkaPartitioner
from connector_kafka.sink.receipts import RECEIPTS_TOPIC
from connector_kafka.sink.record_serialization import KafkaRecordSerializationSchema
from connector_kafka.sink.upsert import UpsertMode
from connectors_core.options import DURATION, Setting, not_empty, option, part, positive
from connectors_core.sink import DeliveryGuarantee

__all__ = ["KafkaSinkOptions"]

_SINCE: Final = "2.0.0"


class KafkaSinkOptions(ClientOptions, scope="kafka sink"):
    """What is written, and how; the settings of `KafkaSink`."""

    serialization: Setting[KafkaRecordSerializationSchema] = part(
        KafkaRecordSerializationSchema,
        doc="Which column becomes which part of a record, the topic among them.",
    )
    delivery_guarantee: Setting[
        DeliveryGuarantee, DeliveryGuarantee | Literal["none", "at-least-once", "exactly-once"]
    ] = option(
        "sink.delivery-guarantee",
        DeliveryGuarantee,
        default=DeliveryGuarantee.AT_LEAST_ONCE,
        doc="How often a row arrives when something fails.",
        aliases=("sink.semantic", "delivery.guarantee", "sink.exactly-once"),
        since=_SINCE,
    )
    partitioner: Setting[
        KafkaPartitioner, KafkaPartitioner | Literal["default", "fixed", "round-robin"]
    ] = option(
        "sink.partitioner",
        KafkaPartitioner,
        default=KafkaPartitioner.DEFAULT,
        doc="How records without a partition of their own find one: by the hash of their key as "
        "Java's clients do, one partition for each writer, or in turn.",
        aliases=("partitioner.class",),
        since=_SINCE,
    )
    upsert: Setting[
        UpsertMode | None, UpsertMode | Literal["every-row", "last-of-each-key"] | None
    ] = option(
        "sink.upsert",
        UpsertMode,
        default=None,
        doc="Rows are a changelog: `_row_kind` -D becomes a record without value, -U nothing. "
        "Every row, or only the last of each key within a batch.",
        aliases=("sink.buffer-flush.max-rows", "sink.buffer-flush.interval"),
        since=_SINCE,
    )
    transactional_id_prefix: Setting[str] = option(
        "sink.transactional-id-prefix",
        str,
        default="connectors",
        validator=not_empty,
        doc="What transactional ids, and the groups of receipts, begin with, for the access rules "
        "of the cluster. Pipeline and sink follow, so that no two queries share an id.",
        aliases=("transactional.id", "sink.transaction-naming-strategy"),
        since=_SINCE,
    )
    transaction_pool_size: Setting[int] = option(
        "sink.transaction-pool-size",
        int,
        default=4,
        validator=positive,
        doc="Transactional ids of each writer: attempts of a task that are possible in an epoch.",
        since=_SINCE,
    )
    receipts_topic: Setting[str] = option(
        "sink.receipts-topic",
        str,
        default=RECEIPTS_TOPIC,
        validator=not_empty,
        doc="Topic that receipts of transactions refer to. It stays empty, all sinks may share it, "
        "and it is created with one partition where it is missing.",
        since=_SINCE,
    )
    restart_time: Setting[timedelta, timedelta | str] = option(
        "sink.restart-time",
        DURATION,
        default=timedelta(minutes=5),
        validator=positive,
        doc="Longest time in which a pipeline that failed is started again. A transaction that is "
        "older than `transaction.timeout.ms` then is written again.",
        since=_SINCE,
    )
    parallelism: Setting[int | None] = option(
        "sink.parallelism",
        int,
        default=None,
        validator=positive,
        doc="Number of writers; by default the partitions of the input.",
        since=_SINCE,
    )
