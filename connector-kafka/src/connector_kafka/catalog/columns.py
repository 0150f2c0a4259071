# SPDX-License-Identifier: Apache-2.0
"""Makes the definition of a table from the formats of keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
import pyarrow as pa

from connector_kafka.fields import ValueFields
from connector_kafka.source.layout import METADATA
from connectors_core.formats import FormatName, InferredMessages
from connectors_core.table import CatalogTable, MetadataColumn, PhysicalColumn, TableSchema

__all__ = ["KAFKA", "UPSERT_KAFKA", "RecordPart", "table_of"]

KAFKA: Final = "kafka"
UPSERT_KAFKA: Final = "upsert-kafka"

_SINGLE: Final = {FormatName.STRING: pa.string(), FormatName.RAW: pa.binary()}
_PREFIX: Final = "key_"


@dataclass(frozen=True)
class RecordPart:
    """The keys or the values of a topic's records.

    Attributes:
        inferred: Their format and columns.
        is_complete: Whether each record has one.
    """

    inferred: InferredMessages
    is_complete: bool = True

    @property
    def is_record(self) -> bool:
        """Whether it has columns of its own, and is not one value."""
        return self.inferred.format not in _SINGLE

    @property
    def is_decoded(self) -> bool:
        """Whether a format reads and writes it. A single value that can be missing is metadata."""
        return self.is_record or self.is_complete

    def fields(self, side: str) -> pa.Schema:
        """Return the columns that its format reads.

        Args:
            side: `key` or `value`, the name of a single value.
        """
        if self.is_record:
            return self.inferred.schema
        kinds = [(side, _SINGLE[self.inferred.format])] if self.is_complete else []
        return pa.schema(kinds)

    def metadata(self, side: str, name: str) -> Iterator[MetadataColumn]:
        """Yield the column of a single value that can be missing."""
        if not self.is_decoded:
            yield MetadataColumn(name, _SINGLE[self.inferred.format], side, virtual=True)


def table_of(
    key: RecordPart | None,
    value: RecordPart,
    *,
    metadata: Mapping[str, str],
    upsert: bool = False,
    comment: str,
) -> CatalogTable:
    """Return the definition of a table, without the options of the connection.

    The columns of keys come first, then those of values, then metadata. If values contain all
    fields of keys, the columns are those of values. If they contain others of these names, the
    columns of keys have a prefix.

    Args:
        key: The keys, or None if no record has one.
        value: The values.
        metadata: Names of columns by metadata. A name that another column has is left out.
        upsert: Whether records replace each other by key. This needs keys and columns of values.
        comment: The comment of the table.
    """
    values = value.fields("value")
    columns: list[PhysicalColumn | MetadataColumn] = []
    options: dict[str, str] = {}
    names: tuple[str, ...] = ()
    if key is not None:
        keys = key.fields("key")
        is_contained = key.is_record and set(keys).issubset(values)
        prefix = "" if is_contained else _prefix(keys.names or ["key"], values.names or ["value"])
        names = tuple(prefix + each for each in keys.names)
        if key.is_decoded:
            options |= _key_options(key, names, prefix, is_contained=is_contained)
        if not is_contained:
            columns += map(PhysicalColumn, names, keys.types)
        columns += key.metadata("key", f"{prefix}key")
    columns += map(PhysicalColumn, values.names, values.types)
    columns += value.metadata("value", "value")
    if value.is_decoded:
        options["value.format"] = value.inferred.format.value
    taken = {each.name.lower() for each in columns}
    columns += [
        MetadataColumn(name, METADATA.field(each).type, each, virtual=True)
        for each, name in metadata.items()
        if name.lower() not in taken
    ]
    if not (upsert and names and value.is_record):
        return CatalogTable(
            schema=TableSchema(tuple(columns)),
            options={"connector": KAFKA, **options},
            comment=comment,
        )
    del options["key.fields"]  # the primary key names them
    return CatalogTable(
        schema=TableSchema(tuple(columns), primary_key=names),
        options={"connector": UPSERT_KAFKA, **options},
        comment=comment,
    )


def _key_options(
    key: RecordPart, names: tuple[str, ...], prefix: str, *, is_contained: bool
) -> dict[str, str]:
    options = {
        "key.format": key.inferred.format.value,
        "key.fields": orjson.dumps(names).decode(),
    }
    if not is_contained:
        options["value.fields-include"] = ValueFields.EXCEPT_KEY.value
    if prefix:
        options["key.fields-prefix"] = prefix
    return options


def _prefix(keys: Sequence[str], values: Sequence[str]) -> str:
    """Return what distinguishes the names of keys from those of values, if they need it."""
    taken = {each.lower() for each in values}
    prefix = ""
    while any((prefix + each).lower() in taken for each in keys):
        prefix += _PREFIX
    return prefix
