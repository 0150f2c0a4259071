# SPDX-License-Identifier: Apache-2.0
"""Kafka's own console producer and console consumer: what others write, and what others see."""

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

# What separates fields, headers, and a header's name from its value; what stands for null. Control
# characters: the consumer escapes those of data, and the producer is given none.
_FIELD, _HEADER, _PAIR, _NULL = "\x1f", "\x1e", ":", "\x1dnull\x1d"
_BYTES: Final = "org.apache.kafka.common.serialization.BytesDeserializer"
_ESCAPED: Final = re.compile(rb"\\x([0-9A-F]{2})")
_SECONDS: Final = 300.0


@dataclass(frozen=True, kw_only=True)
class ConsoleRecord:
    """A record as the console tools have it.

    Attributes:
        key: Its key, None for null.
        value: Its value, None for null.
        headers: Names and values, in order.
        partition: Where it is; the producer decides by the key.
        offset: Where in its partition.
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
    """Write records as the Java client does.

    Args:
        bootstrap_servers: A broker in plain text.
        topic: An existing topic.
        records: Keys, values and headers, as UTF-8 without control characters.
        codec: ``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``.
        properties: Of Java's producer, as in ``{"batch.size": "1000"}``.

    Raises:
        BrokerError: It failed; says what it printed.
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
    if " ERROR " in errors:  # it goes on after records that it cannot send
        raise BrokerError("the console producer could not write all", found=errors[-4000:])


def console_consumer(
    bootstrap_servers: str,
    topic: str,
    *,
    isolation_level: str = "read_committed",
    quiet: float = 5.0,
) -> list[ConsoleRecord]:
    """Read a topic from its beginning as the Java client does.

    Args:
        bootstrap_servers: A broker in plain text.
        topic: The topic.
        isolation_level: ``read_committed`` or ``read_uncommitted``.
        quiet: Seconds without a record after which the topic is at its end.

    Returns:
        The records; those of a partition are in order.

    Raises:
        BrokerError: It failed; says what it printed.
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
    # It always ends with an error: here, that it waited for another record.
    complete = f"Processed a total of {len(records)} messages" in errors
    if not complete or "TimeoutException" not in errors:
        raise BrokerError("the console consumer could not read all", found=errors[-4000:])
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
