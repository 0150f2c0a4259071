# SPDX-License-Identifier: Apache-2.0
"""Tests that 3.0 reads every object that interrupted pipelines of 2.0.0 have stored."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connector_elasticsearch import ElasticsearchSource
from connector_filesystem import FileSink, FileSource
from connector_kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from connectors_core.sink import TwoPhaseCommittingSink
from connectors_core.source import Source

ARCHIVES = sorted((Path(__file__).parent.parent / "state_of_2_0").glob("*.tar.xz"))
SOURCES: dict[str, Source[Any, Any]] = {
    "elasticsearch": ElasticsearchSource("http://host:9200", "in"),
    "filesystem": FileSource("/in"),
    "kafka": KafkaSource("host:9092", topics="in"),
}
SINKS: dict[str, TwoPhaseCommittingSink[Any]] = {
    "filesystem": FileSink("/out"),
    "kafka": KafkaSink(
        "host:9092",
        serialization=KafkaRecordSerializationSchema(topic="out", value_format="json"),
        delivery_guarantee="exactly-once",
    ),
}


def stored(value: Any, kind: str = "") -> Iterator[tuple[str, int, bytes]]:
    """Yield the kind, the version, and the bytes of each serialized object in a document."""
    if isinstance(value, list):
        for each in value:
            yield from stored(each, kind)
    elif isinstance(value, dict) and set(value) == {"data", "version"}:
        yield kind, value["version"], base64.b64decode(value["data"])
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from stored(each, key)


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_every_object_is_read_and_keeps_its_values(archive: Path) -> None:
    connector = archive.name.partition("-")[0]
    source = SOURCES[connector]
    serializers = {
        "enumerator": source.enumerator_state_serializer(),
        "state": source.split_serializer(),
    }
    if connector == "kafka":  # its plans have stops, and the splits that follow them
        serializers["then"] = source.split_serializer()
    if connector in SINKS:
        serializers["committable"] = SINKS[connector].committable_serializer()
    seen = set()
    with tarfile.open(archive) as files:
        for member in files:
            if member.name.startswith("checkpoint/query-0/") and member.name.endswith(".json"):
                file = files.extractfile(member)
                assert file is not None
                for kind, number, data in stored(json.load(file)):
                    found = serializers[kind].deserialize(number, data)
                    again = json.loads(serializers[kind].serialize(found))
                    assert json.loads(data).items() <= again.items()
                    seen.add(kind)
    assert seen == set(serializers)
