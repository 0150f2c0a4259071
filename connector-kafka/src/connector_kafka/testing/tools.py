# SPDX-License-Identifier: Apache-2.0
"""Kafka's own console producer and consumer: how other clients write and read records."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from connector_kafka.testing.broker import NEWEST
from connector_kafka.testing.errors import BrokerError
from connector_kafka.testing.java import KafkaJava

__all__ = ["ConsoleRecord", "console_consumer", "console_producer"]

# The separators of fields, headers, and a header's name and value, and the marker of null. Control
# characters: the consumer escapes those in data, and the producer receives none.
_FIELD, _HEADER, _PAIR, _NULL = "\x1f", "\x1e", ":", "\x1dnull\x1d"
_BYTES: Final = "org.apache.kafka.common.serialization.BytesDeserializer"
_ESCAPED: Final = re.compile(rb"\\x([0-9A-F]{2})")
_SECONDS: Final = 300.0


@dataclass(frozen=True, kw_only=True)
class ConsoleRecord:
    """A record of the console tools.

    Attributes:
        key: The key, or None for null.
        value: The value, or None for null.
        headers: Names and values, in order.
        partition: The partition. The producer derives it from the key.
        offset: The offset in the partition.
        timestamp: Milliseconds since 1970.
    """

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = -1
    offset: int = -1
    timestamp: int = -1


def console_producer(
    bootstrap_servers: str,
    topic: str,
    records: Iterable[ConsoleRecord],
    *,
    codec: str = "none",
    properties: Mapping[str, str] | None = None,
) -> None:
    """Write records with the Java client.

    Args:
        bootstrap_servers: A broker without encryption.
        topic: An existing topic.
        records: Keys, values, and headers, as UTF-8 without control characters.
        codec: ``none``, ``gzip``, ``snappy``, ``lz4``, or ``zstd``.
        properties: Properties of Java's producer, e.g. ``{"batch.size": "1000"}``.

    Raises:
        BrokerError: The tool failed. The error contains its output.
    """
    reader = {
        "parse.headers": "true",
        "parse.key": "true",
        "headers.delimiter": _FIELD,
        "headers.separator": _HEADER,
        "headers.key.separator": _PAIR,
        "key.separator": _FIELD,
        "null.marker": _NULL,
    }
    arguments = ["--topic", topic, "--compression-codec", codec]
    for name, value in (properties or {}).items():
        arguments += ["--command-property", f"{name}={value}"]
    for name, value in reader.items():
        arguments += ["--reader-property", f"{name}={value}"]
    lines = b"".join(map(_line, records))
    _, errors = _run("org.apache.kafka.tools.ConsoleProducer", bootstrap_servers, arguments, lines)
    if " ERROR " in errors:  # the tool continues after records that it cannot send
        raise BrokerError("the console producer could not write all records", found=errors[-4000:])


def console_consumer(
    bootstrap_servers: str,
    topic: str,
    *,
    isolation_level: str = "read_committed",
    quiet: float = 5.0,
) -> list[ConsoleRecord]:
    """Read a topic from its start with the Java client.

    Args:
        bootstrap_servers: A broker without encryption.
        topic: The topic.
        isolation_level: ``read_committed`` or ``read_uncommitted``.
        quiet: Seconds without a record after which the topic counts as read.

    Returns:
        The records. Those of a partition are in order.

    Raises:
        BrokerError: The tool failed. The error contains its output.
    """
    formatter = {f"print.{what}": "true" for what in ("timestamp", "partition", "offset")}
    formatter |= {"print.headers": "true", "print.key": "true"}
    formatter |= {f"{what}.deserializer": _BYTES for what in ("headers", "key", "value")}
    formatter |= {"key.separator": _FIELD, "headers.separator": _HEADER, "null.literal": _NULL}
    arguments = ["--topic", topic, "--from-beginning", "--isolation-level", isolation_level]
    arguments += ["--timeout-ms", str(round(quiet * 1000))]
    for name, value in formatter.items():
        arguments += ["--formatter-property", f"{name}={value}"]
    output, errors = _run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", bootstrap_servers, arguments
    )
    records = [_parse(line) for line in output.splitlines()]
    # It always ends with an error: here, it timed out waiting for another record.
    complete = f"Processed a total of {len(records)} messages" in errors
    if not complete or "TimeoutException" not in errors:
        raise BrokerError("the console consumer could not read all records", found=errors[-4000:])
    return records


def _run(main: str, servers: str, arguments: list[str], lines: bytes = b"") -> tuple[bytes, str]:
    command = KafkaJava(NEWEST).command(main, "--bootstrap-server", servers, *arguments)
    try:
        done = subprocess.run(  # noqa: S603  # no shell
            command, input=lines, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BrokerError(f"{main} did not end within {_SECONDS:g} seconds") from error
    errors = done.stderr.decode(errors="replace")
    if done.returncode:
        raise BrokerError(f"{main} ended with {done.returncode}", found=errors[-4000:])
    return done.stdout, errors


def _line(record: ConsoleRecord) -> bytes:
    pairs = [name.encode() + _PAIR.encode() + _text(value) for name, value in record.headers]
    headers = _HEADER.encode().join(pairs) or _NULL.encode()
    return _FIELD.encode().join((headers, _text(record.key), _text(record.value))) + b"\n"


def _text(value: bytes | None) -> bytes:
    return _NULL.encode() if value is None else value


def _parse(line: bytes) -> ConsoleRecord:
    timestamp, partition, offset, headers, key, value = line.split(_FIELD.encode())
    return ConsoleRecord(
        key=_value(key),
        value=_value(value),
        headers=tuple(map(_header, headers.split(_HEADER.encode())))
        if headers != b"NO_HEADERS"
        else (),
        partition=_number(partition),
        offset=_number(offset),
        timestamp=_number(timestamp),
    )


def _number(field: bytes) -> int:
    return int(field.rpartition(b":")[2])


def _header(pair: bytes) -> tuple[str, bytes | None]:
    name, _, value = pair.partition(_PAIR.encode())
    return name.decode(), _value(value)


def _value(printed: bytes) -> bytes | None:
    value = _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), printed)
    return None if value == _NULL.encode() else value
