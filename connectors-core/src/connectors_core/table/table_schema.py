# SPDX-License-Identifier: Apache-2.0
"""The columns of a table as its definition declares them (Flink's FLIP-95 and FLIP-107)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

import pyarrow as pa

__all__ = [
    "Column",
    "ComputedColumn",
    "MetadataColumn",
    "PhysicalColumn",
    "TableSchema",
    "WatermarkSpec",
]


@dataclass(frozen=True)
class PhysicalColumn:
    """A column of the external system.

    Attributes:
        name: The name.
        type: The type.
        nullable: Whether the column can be null.
        comment: The comment of its definition.
    """

    name: str
    type: pa.DataType
    nullable: bool = True
    comment: str | None = None


@dataclass(frozen=True)
class MetadataColumn:
    """A column with what the system knows of a row, such as Kafka's offset.

    Attributes:
        name: The name.
        type: The type, to which the metadata is cast.
        key: The name of the metadata in the connector.
        virtual: Whether it is only read. Otherwise, a sink writes it.
        comment: The comment of its definition.
    """

    name: str
    type: pa.DataType
    key: str
    virtual: bool = False
    comment: str | None = None


@dataclass(frozen=True)
class ComputedColumn:
    """A column that a query computes from others; it is not written.

    Attributes:
        name: The name.
        expression: The expression in Spark SQL.
        comment: The comment of its definition.
    """

    name: str
    expression: str
    comment: str | None = None


Column: TypeAlias = PhysicalColumn | MetadataColumn | ComputedColumn


@dataclass(frozen=True)
class WatermarkSpec:
    """The watermark of a table.

    Attributes:
        column: The column with the event time.
        out_of_orderness: How much older than the newest row a row can be; None for
            `SOURCE_WATERMARK()`, the watermark of a source.
    """

    column: str
    out_of_orderness: timedelta | None


@dataclass(frozen=True)
class TableSchema:
    """The columns, the key, and the watermark of a table.

    Attributes:
        columns: The columns in order. Without any, the connector infers them.
        primary_key: The columns of the primary key, which is not enforced.
        watermark: The watermark, if any.
    """

    columns: tuple[Column, ...] = ()
    primary_key: tuple[str, ...] = ()
    watermark: WatermarkSpec | None = None

    @property
    def physical(self) -> pa.Schema:
        """The columns of the external system."""
        return pa.schema(
            [
                pa.field(each.name, each.type, each.nullable)
                for each in self.columns
                if isinstance(each, PhysicalColumn)
            ]
        )

    @property
    def metadata(self) -> tuple[MetadataColumn, ...]:
        """The metadata columns."""
        return tuple(each for each in self.columns if isinstance(each, MetadataColumn))

    @property
    def written_metadata(self) -> tuple[MetadataColumn, ...]:
        """The metadata columns that a sink writes."""
        return tuple(each for each in self.metadata if not each.virtual)

    @property
    def written(self) -> tuple[str, ...]:
        """The columns that an `INSERT` gives, in order."""
        written = self.written_metadata
        return tuple(
            each.name
            for each in self.columns
            if isinstance(each, PhysicalColumn) or each in written
        )
