# SPDX-License-Identifier: Apache-2.0
"""Partitions and offsets as text, in the forms of this connector, Flink, and Spark."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from connector_kafka.client.metadata import TopicPartition
from connector_kafka.source.offsets import OffsetsInitializer
from connectors_core.errors import InvalidOptionError
from connectors_core.options import Option, Options, OptionType

__all__ = ["OFFSETS", "PARTITIONS", "Edge", "offsets_of", "parse_position"]

OffsetsByPartition: TypeAlias = Mapping[tuple[str, int], int | OffsetsInitializer]

_NAMED: Final[Mapping[str, OffsetsInitializer]] = {
    "earliest": OffsetsInitializer.earliest(),
    "latest": OffsetsInitializer.latest(),
    "-2": OffsetsInitializer.earliest(),
    "-1": OffsetsInitializer.latest(),
}


def _parse_partitions(value: object) -> tuple[TopicPartition, ...]:
    """`topic:0, topic:1`, Spark's `{"topic": [0, 1]}`, or pairs."""
    expected = "topics and numbers of partitions, such as 'flights:0, flights:1'"
    try:
        if isinstance(value, str) and value.strip().startswith("{"):
            value = [(topic, n) for topic, numbers in json.loads(value).items() for n in numbers]
        elif isinstance(value, str):
            pairs = (part.strip().rpartition(":") for part in value.split(",") if part.strip())
            value = [(topic, number) for topic, _, number in pairs]
        if not isinstance(value, Iterable):
            raise ValueError(expected)
        found = tuple(TopicPartition(str(topic), int(number)) for topic, number in value)
    except (AttributeError, TypeError, ValueError):
        raise ValueError(expected) from None
    if not all(each.topic and each.partition >= 0 for each in found):
        raise ValueError(expected)
    return found


def _parse_offsets(value: object) -> dict[tuple[str, int], int | OffsetsInitializer]:
    """`topic:0=42; topic:1=latest`, or the forms of Flink (without a topic) and Spark."""
    expected = (
        "offsets by partition, such as 'flights:0=42; flights:1=latest', Flink's "
        "'partition:0,offset:42;partition:1,offset:300' or Spark's '{\"flights\": {\"0\": 42}}'"
    )
    if not isinstance(value, str):
        raise ValueError(expected)
    text = value.strip()
    pairs = []
    try:
        if text.startswith("{"):
            for topic, offsets in json.loads(text).items():
                pairs += [((topic, number), str(offset)) for number, offset in offsets.items()]
        else:
            pairs = [_flinks(part) or _ours(part) for part in text.split(";") if part.strip()]
        found = {
            (str(topic), int(number)): _NAMED[offset] if offset in _NAMED else int(offset)
            for (topic, number), offset in pairs
        }
    except (AttributeError, ValueError):
        raise ValueError(expected) from None
    if any(number < 0 for _, number in found):
        raise ValueError(expected)
    return found


def _ours(part: str) -> tuple[tuple[str, str], str]:
    partition, _, offset = part.strip().rpartition("=")
    topic, _, number = partition.strip().rpartition(":")
    if not topic:
        raise ValueError("no topic")
    return (topic, number), offset.strip()


def _flinks(part: str) -> tuple[tuple[str, str], str] | None:
    """An empty topic means the only topic of the source."""
    named = dict(each.strip().partition(":")[::2] for each in part.split(","))
    if named.keys() != {"partition", "offset"}:
        return None
    return ("", named["partition"]), named["offset"]


def _show_offsets(offsets: OffsetsByPartition) -> str:
    return "; ".join(f"{topic}:{n}={offset}" for (topic, n), offset in offsets.items())


PARTITIONS: Final = OptionType(
    "list of partitions", _parse_partitions, lambda value: ", ".join(map(str, value))
)
OFFSETS: Final = OptionType("offsets", _parse_offsets, _show_offsets)


class Edge(enum.Enum):
    """The start or end of reading, by Flink's names."""

    UNBOUNDED = "unbounded"
    EARLIEST = "earliest-offset"
    LATEST = "latest-offset"
    GROUP = "group-offsets"
    TIMESTAMP = "timestamp"
    SPECIFIC = "specific-offsets"


def offsets_of(
    options: Options,
    mode: Option[Edge],
    timestamp: Option[int],
    offsets: Option[dict[tuple[str, int], int | OffsetsInitializer]],
) -> OffsetsInitializer | None:
    """Return the offsets for a mode and its options, or None for no end.

    Raises:
        InvalidOptionError: They contradict each other.
    """
    edge = options[mode]
    needs: tuple[tuple[Option[Any], Edge], ...] = (
        (timestamp, Edge.TIMESTAMP),
        (offsets, Edge.SPECIFIC),
    )
    for option, wanted in needs:
        if (options.get(option) is not None) != (edge is wanted):
            raise InvalidOptionError(
                f"{option.key} and {mode.key} do not fit together",
                expected=f"{option.key} with {mode.key} {wanted.value}, and only then",
                found=f"{mode.key} {edge.value}",
                option=option.key,
            )
    if edge is Edge.SPECIFIC:
        # By Flink's rule for stops, a partition without an offset is not read.
        return OffsetsInitializer.offsets(_with_topic(options, offsets))
    if edge is Edge.TIMESTAMP:
        return OffsetsInitializer.timestamp(options[timestamp])
    return _place(edge)


def _place(edge: Edge) -> OffsetsInitializer | None:
    if edge is Edge.GROUP:
        return OffsetsInitializer.committed(fallback=OffsetsInitializer.earliest())
    if edge is Edge.LATEST:
        return OffsetsInitializer.latest()
    return OffsetsInitializer.earliest() if edge is Edge.EARLIEST else None


def _with_topic(
    options: Options, offsets: Option[dict[tuple[str, int], int | OffsetsInitializer]]
) -> OffsetsByPartition:
    """Return offsets with their topics. Those in Flink's form belong to the only topic."""
    found = options[offsets]
    if all(topic for topic, _ in found):
        return found
    topics: tuple[str, ...] = options.values.get("topic") or ()
    if len(topics) != 1:
        raise InvalidOptionError(
            f"{offsets.key} does not contain the topic of the offsets",
            expected="one topic, or offsets such as 'flights:0=42'",
            found=f"{len(topics)} topics",
            option=offsets.key,
        )
    return {(topic or topics[0], number): offset for (topic, number), offset in found.items()}


def parse_position(position: str) -> OffsetsInitializer:
    """Parse a user's start position; see `KafkaSource.create_enumerator_at`.

    Raises:
        InvalidOptionError: The position cannot be parsed.
    """
    text = position.strip()
    mode, _, time = text.partition(":")
    try:
        if mode == Edge.TIMESTAMP.value:
            when = int(time) if time.isdigit() else datetime.fromisoformat(time)
            return OffsetsInitializer.timestamp(when)
        place = _place(Edge(text)) if text in {each.value for each in Edge} else None
        if place is not None:
            return place
        offsets = _parse_offsets(text)
        if not offsets or not all(topic for topic, _ in offsets):
            raise ValueError("no offsets of a topic")
        return OffsetsInitializer.offsets(offsets)
    except (ValueError, InvalidOptionError) as error:
        raise InvalidOptionError(
            f"{position!r} is not a position in topics",
            expected="earliest-offset, latest-offset, group-offsets, "
            "timestamp:2026-01-31T00:00:00Z, or offsets such as flights:0=42; flights:1=latest",
            found=str(error),
            option="at",
        ) from error
