# SPDX-License-Identifier: Apache-2.0
"""The options of the sink, declared once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from connector_kafka.client.config import BOOTSTRAP_SERVERS_OF_TABLE as BOOTSTRAP_SERVERS
from connector_kafka.sink.partitioning import KafkaPartitioner
from connector_kafka.sink.receipts import RECEIPTS_TOPIC
from connector_kafka.sink.record_serialization import VALUE_FIELDS
from connector_kafka.sink.upsert import UpsertMode
from connectors_core.formats import format_options
from connectors_core.options import (
    DURATION,
    JSON_MAP,
    Option,
    OptionSet,
    list_of,
    not_empty,
    positive,
)
from connectors_core.sink import DeliveryGuarantee

__all__ = [
    "BOOTSTRAP_SERVERS",
    "DELIVERY_GUARANTEE",
    "HEADERS_COLUMN",
    "KAFKA_SINK_OPTIONS",
    "KEY_FIELDS",
    "KEY_FIELDS_PREFIX",
    "KEY_FORMAT",
    "PARALLELISM",
    "PARTITIONER",
    "PARTITION_COLUMN",
    "PROPERTIES",
    "RECEIPTS",
    "RESTART_TIME",
    "TIMESTAMP_COLUMN",
    "TOPIC",
    "TOPIC_COLUMN",
    "TRANSACTIONAL_ID_PREFIX",
    "TRANSACTION_POOL_SIZE",
    "UPSERT",
    "VALUE_FIELDS",
    "VALUE_FORMAT",
]

_SINCE: Final = "2.0.0"
KEY_FORMAT: Final = "key."
"""What stands before the options of the format of keys."""
VALUE_FORMAT: Final = "value."
"""What stands before the options of the format of values."""
_OF_READERS: Final = frozenset(
    {
        "format.empty-messages",
        "json.fail-on-unknown-field",
        "csv.timestamp-formats",
        "csv.assume-time-zone",
    }
)

TOPIC: Final = Option(
    "topic", str, validator=not_empty, doc="The topic of all records.", since=_SINCE
)
TOPIC_COLUMN: Final = Option(
    "topic.column",
    str,
    validator=not_empty,
    doc="Column of the topic of each record, in place of `topic`.",
    aliases=("topic-column",),
    since=_SINCE,
)
KEY_FIELDS: Final = Option(
    "key.fields",
    list_of(str),
    doc="Columns of the key. Without a format of values, none takes the column `key`, if any.",
    since=_SINCE,
)
KEY_FIELDS_PREFIX: Final = Option(
    "key.fields-prefix",
    str,
    default="",
    doc="How the names of key columns begin; the format sees them without it.",
    since=_SINCE,
)
HEADERS_COLUMN: Final = Option(
    "headers.column",
    str,
    doc="Column of headers: a list of structs of `key` and `value`, or a map.",
    aliases=("includeHeaders", "header-list"),
    since=_SINCE,
)
TIMESTAMP_COLUMN: Final = Option(
    "timestamp.column",
    str,
    doc="Column of the time of each record; null, or no column, is the time of writing.",
    since=_SINCE,
)
PARTITION_COLUMN: Final = Option(
    "partition.column",
    str,
    doc="Column of the partition of each record; null leaves it to the partitioner.",
    since=_SINCE,
)
PARTITIONER: Final = Option(
    "sink.partitioner",
    KafkaPartitioner,
    default=KafkaPartitioner.DEFAULT,
    doc="How records find a partition: by the hash of their key as Java's clients do, one "
    "partition for each writer, or in turn.",
    aliases=("partitioner.class",),
    since=_SINCE,
)
UPSERT: Final = Option(
    "sink.upsert",
    UpsertMode,
    doc="Rows are a changelog: `_row_kind` -D becomes a record without value, -U nothing. Every "
    "row, or only the last of each key within a batch.",
    aliases=("sink.buffer-flush.max-rows", "sink.buffer-flush.interval"),
    since=_SINCE,
)
DELIVERY_GUARANTEE: Final = Option(
    "sink.delivery-guarantee",
    DeliveryGuarantee,
    default=DeliveryGuarantee.AT_LEAST_ONCE,
    doc="How often a row arrives when something fails.",
    aliases=("sink.semantic", "delivery.guarantee", "sink.exactly-once"),
    since=_SINCE,
)
TRANSACTIONAL_ID_PREFIX: Final = Option(
    "sink.transactional-id-prefix",
    str,
    default="connectors",
    validator=not_empty,
    doc="What transactional ids, and the groups of receipts, begin with, for the access rules of "
    "the cluster. Pipeline and sink follow, so that no two queries share an id.",
    aliases=("transactional.id", "sink.transaction-naming-strategy"),
    since=_SINCE,
)
TRANSACTION_POOL_SIZE: Final = Option(
    "sink.transaction-pool-size",
    int,
    default=4,
    validator=positive,
    doc="Transactional ids of each writer: attempts of a task that are possible in an epoch.",
    since=_SINCE,
)
RECEIPTS: Final = Option(
    "sink.receipts-topic",
    str,
    default=RECEIPTS_TOPIC,
    validator=not_empty,
    doc="Topic that receipts of transactions refer to. It stays empty, all sinks may share it, and "
    "it is created with one partition where it is missing.",
    since=_SINCE,
)
RESTART_TIME: Final = Option(
    "sink.restart-time",
    DURATION,
    default=timedelta(minutes=5),
    validator=positive,
    doc="Longest time in which a pipeline that failed is started again. A transaction that is "
    "older than `transaction.timeout.ms` then is written again.",
    since=_SINCE,
)
PARALLELISM: Final = Option(
    "sink.parallelism",
    int,
    validator=positive,
    doc="Number of writers; none takes the partitions of the input.",
    since=_SINCE,
)
PROPERTIES: Final[Option[dict[str, Any]]] = Option(
    "properties.*",
    JSON_MAP,
    secret=True,
    doc="Properties of the producer by Kafka's names, such as `properties.compression.type`, "
    "`properties.batch.size`, `properties.max.request.size` and `properties.security.protocol`.",
    aliases=("kafka.*",),
    since=_SINCE,
)


def _written(prefix: str) -> tuple[Option[Any], ...]:
    """The options of a format as far as they matter to what is written."""
    return tuple(
        option
        for option in format_options(prefix)
        if option.key.removeprefix(prefix) not in _OF_READERS
    )


KAFKA_SINK_OPTIONS: Final = OptionSet(
    BOOTSTRAP_SERVERS,
    TOPIC,
    TOPIC_COLUMN,
    KEY_FIELDS,
    KEY_FIELDS_PREFIX,
    VALUE_FIELDS,
    *_written(KEY_FORMAT),
    *_written(VALUE_FORMAT),
    HEADERS_COLUMN,
    TIMESTAMP_COLUMN,
    PARTITION_COLUMN,
    PARTITIONER,
    UPSERT,
    DELIVERY_GUARANTEE,
    TRANSACTIONAL_ID_PREFIX,
    TRANSACTION_POOL_SIZE,
    RECEIPTS,
    RESTART_TIME,
    PARALLELISM,
    PROPERTIES,
    scope="kafka sink",
)
"""The options of `KafkaSink.from_options`."""
