# SPDX-License-Identifier: Apache-2.0
"""Infers the definition of a table from a sample of records, or from a registry of schemas."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from connector_kafka.catalog.columns import RecordPart, table_of
from connector_kafka.catalog.sample import Sample
from connectors_core.catalog import SchemaInferenceError
from connectors_core.formats import (
    FormatName,
    HttpSchemaRegistry,
    InferredMessages,
    UnknownSchemaError,
    columns_of_registered,
    infer_messages,
)
from connectors_core.table import CatalogTable

__all__ = ["InferenceReport", "InferredTable", "infer_table", "registered_table"]

_logger = logging.getLogger(__name__)

_UNKNOWN: Final = RecordPart(InferredMessages(format=FormatName.RAW), is_complete=False)


@dataclass(frozen=True, kw_only=True)
class InferenceReport:
    """What an inference has read, and what it has recognized.

    Attributes:
        records: The number of records in the sample.
        size: The number of bytes of their keys and values.
        key: The format and the columns of keys, or None if no record has one.
        value: The format and the columns of values.
        without_key: The number of records without a key.
        without_value: The number of records without a value.
    """

    records: int
    size: int
    key: InferredMessages | None
    value: InferredMessages
    without_key: int = 0
    without_value: int = 0

    @property
    def is_clear(self) -> bool:
        """Whether the columns show everything that the records contain."""
        parts = [each for each in (self.key, self.value) if each is not None]
        return not any(each.conflicts or each.omitted or each.reason for each in parts)

    def __str__(self) -> str:
        said = [f"inferred from {self.records} records of {self.size} bytes"]
        if self.key is not None:
            said += _told("keys", self.key)
        said += _told("values", self.value)
        return "; ".join(said)


def _told(side: str, found: InferredMessages) -> list[str]:
    said = [f"{side} are {found.format.value}", *map(str, found.conflicts)]
    if found.omitted:
        said.append(f"without {', '.join(found.omitted)}")
    if found.reason:
        said.append(found.reason)
    return said


@dataclass(frozen=True)
class InferredTable:
    """The result of an inference.

    Attributes:
        table: The definition of the table, without the options of the connection.
        report: How the columns were inferred.
    """

    table: CatalogTable
    report: InferenceReport


def infer_table(
    sample: Sample,
    topic: str,
    *,
    registry: HttpSchemaRegistry | None,
    metadata: Mapping[str, str],
    upsert: bool,
) -> InferredTable:
    """Infer the definition of a table. Driver.

    Args:
        sample: Records of the topic.
        topic: The name of the topic.
        registry: The registry for Avro.
        metadata: Names of metadata columns.
        upsert: Whether records replace each other by key.

    Raises:
        SchemaInferenceError: There are no records, or none has a value.
        ConnectorError: The registry does not respond, or rejects a request.
    """
    values = _present(sample.values)
    if not len(values):
        raise SchemaInferenceError(
            f"the columns of the topic {topic!r} cannot be inferred",
            expected="records with values",
            found=f"{len(sample)} records, {len(values)} with a value",
            hint="declare the columns in the default catalog, by CREATE TABLE ... WITH "
            f"('connector' = 'kafka', 'topic' = '{topic}', ...)",
        )
    keys = _present(sample.keys)
    key = infer_messages(keys, registry=registry, csv=False) if len(keys) else None
    value = infer_messages(values, registry=registry)
    report = InferenceReport(
        records=len(sample),
        size=sample.size,
        key=key,
        value=value,
        without_key=len(sample) - len(keys),
        without_value=len(sample) - len(values),
    )
    table = table_of(
        None if key is None else RecordPart(key, is_complete=not report.without_key),
        RecordPart(value, is_complete=not report.without_value),
        metadata=metadata,
        upsert=upsert,
        comment=str(report),
    )
    return InferredTable(table, report)


def _present(messages: pa.Array) -> pa.Array:
    """Return the messages that are neither null nor empty."""
    return messages.filter(pc.greater(pc.fill_null(pc.binary_length(messages), 0), 0))


def registered_table(
    registry: HttpSchemaRegistry, topic: str, *, metadata: Mapping[str, str], upsert: bool
) -> CatalogTable | None:
    """Return the definition of a table whose schemas a registry has. Driver.

    Args:
        registry: The registry.
        topic: The name of the topic. The subjects are `<topic>-value` and `<topic>-key`.
        metadata: Names of metadata columns.
        upsert: Whether records replace each other by key.

    Returns:
        The definition, or None if the registry has no schema of values that this package reads.

    Raises:
        ConnectorError: The registry does not respond, or rejects a request.
    """
    found = {side: _registered(registry, f"{topic}-{side}") for side in ("key", "value")}
    if found["value"] is None:
        return None
    written = {
        f"{side}.avro-confluent.schema": each[1]
        for side, each in found.items()
        if each is not None and each[0].format is FormatName.AVRO_CONFLUENT
    }
    table = table_of(
        _UNKNOWN if found["key"] is None else RecordPart(found["key"][0]),
        RecordPart(found["value"][0]),
        metadata=metadata,
        upsert=upsert,
        comment=f"columns of the subject {topic}-value",
    )
    return replace(table, options={**table.options, **written})


def _registered(registry: HttpSchemaRegistry, subject: str) -> tuple[InferredMessages, str] | None:
    """Return the columns and the newest schema of a subject, if it has one that can be read."""
    try:
        schema = registry.newest_schema(subject)
        return None if schema is None else (columns_of_registered(schema), schema.text)
    except (UnknownSchemaError, ValueError) as error:
        _logger.warning("the subject %r is not used: %s", subject, error)
        return None
