# SPDX-License-Identifier: Apache-2.0
"""The settings of the sink."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal

from connector_kafka.client.options import ClientOptions
from connector_kafka.sink.changelog import UpsertMode
from connector_kafka.sink.partitioners import (
    PARTITIONER,
    KafkaPartitioner,
    RecordPartitioner,
)
from connector_kafka.sink.receipts import RECEIPTS_TOPIC
from connector_kafka.sink.record_serialization import KafkaRecordSerializationSchema
from connectors_core.formats import FORMAT_OPTIONS
from connectors_core.options import (
    DURATION,
    Setting,
    not_empty,
    option,
    option_like,
    part,
    positive,
)
from connectors_core.sink import SINK_PARALLELISM, DeliveryGuarantee

__all__ = ["KafkaSinkOptions"]


_BUFFER: Final = (
    "rows do not wait for others across batches; 'sink.upsert' last-of-each-key writes only the "
    "last row of each key in a batch"
)


class KafkaSinkOptions(
    ClientOptions,
    scope="Kafka sink",
    since="2.0.0",
    elsewhere={
        "sink.buffer-flush.max-rows": _BUFFER,
        "sink.buffer-flush.interval": _BUFFER,
        **FORMAT_OPTIONS.elsewhere,
    },
):
    """What to write and how: the settings of `KafkaSink`."""

    serialization: Setting[KafkaRecordSerializationSchema] = part(
        KafkaRecordSerializationSchema,
        doc="Maps columns to the parts of a record, including the topic.",
    )
    delivery_guarantee: Setting[
        DeliveryGuarantee, DeliveryGuarantee | Literal["none", "at-least-once", "exactly-once"]
    ] = option(
        "sink.delivery-guarantee",
        DeliveryGuarantee,
        default=DeliveryGuarantee.AT_LEAST_ONCE,
        doc="Delivery guarantee of a row after failures.",
        aliases=("sink.semantic", "delivery.guarantee", "sink.exactly-once"),
    )
    partitioner: Setting[
        KafkaPartitioner | RecordPartitioner, KafkaPartitioner | RecordPartitioner | str
    ] = option(
        "sink.partitioner",
        PARTITIONER,
        default=KafkaPartitioner.DEFAULT,
        doc="Partition of records without an explicit one: `default` by the hash of their key as "
        "in Java's clients, `fixed` one partition per writer, `round-robin`, or the class of a "
        "`RecordPartitioner` as `module:Class`.",
        aliases=("partitioner.class",),
    )
    upsert: Setting[
        UpsertMode | None, UpsertMode | Literal["every-row", "last-of-each-key"] | None
    ] = option(
        "sink.upsert",
        UpsertMode,
        default=None,
        doc="How to write a changelog: `_row_kind` -D becomes a record without a value, and -U is "
        "dropped. Write every row, or only the last of each key within a batch.",
    )
    transactional_id_prefix: Setting[str] = option(
        "sink.transactional-id-prefix",
        str,
        default="connectors",
        validator=not_empty,
        doc="Prefix of transactional IDs and of the groups of receipts, for the access rules of "
        "the cluster. The IDs of the pipeline and the sink follow it, so that no two queries "
        "share an ID.",
        aliases=("transactional.id", "sink.transaction-naming-strategy"),
    )
    transaction_pool_size: Setting[int] = option(
        "sink.transaction-pool-size",
        int,
        unit="ids",
        default=4,
        validator=positive,
        doc="Transactional IDs per writer: the maximum number of attempts of a task in an epoch.",
    )
    receipts_topic: Setting[str] = option(
        "sink.receipts-topic",
        str,
        default=RECEIPTS_TOPIC,
        validator=not_empty,
        doc="Topic that the receipts of transactions refer to. It stays empty, all sinks can "
        "share it, and the sink creates it with one partition if it is missing.",
    )
    restart_time: Setting[timedelta, timedelta | str] = option(
        "sink.restart-time",
        DURATION,
        default=timedelta(minutes=5),
        validator=positive,
        doc="Maximum time until a failed pipeline restarts. If a transaction is then older than "
        "`transaction.timeout.ms`, its rows are written again.",
    )
    parallelism: Setting[int | None] = option_like(SINK_PARALLELISM)
