# SPDX-License-Identifier: Apache-2.0
"""The datasets that a pipeline reads and writes, and how they depend on each other (FLIP-314)."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

__all__ = [
    "ColumnOrigin",
    "LineageDataset",
    "LineageEdge",
    "LineageGraph",
    "LineageVertexProvider",
    "Transformation",
]


@dataclass(frozen=True, kw_only=True)
class LineageDataset:
    """A dataset, named as in OpenLineage's naming spec.

    Attributes:
        namespace: The system, such as `kafka://broker:9092` or `s3://bucket`. Without secrets.
        name: The dataset in it, such as a topic or a path.
    """

    namespace: str
    name: str


class LineageVertexProvider(ABC):
    """Ability of a source, a sink, or a table: names its datasets (Flink's FLIP-314)."""

    @abstractmethod
    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Return the datasets that it reads or writes. Driver, without I/O.

        Names must not contain secrets. A dataset whose name depends on each row, such as an index
        for each day, is named by its pattern.
        """


class Transformation(enum.Enum):
    """How the values of a column depend on those of another one."""

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"


@dataclass(frozen=True, kw_only=True)
class ColumnOrigin:
    """A column from which another one is derived.

    Attributes:
        uid: The source or lookup.
        column: Its column.
        transformation: How the value is derived.
    """

    uid: str
    column: str
    transformation: Transformation


@dataclass(frozen=True, kw_only=True)
class LineageEdge:
    """A sink with the inputs of its rows.

    Attributes:
        sink: The uid of the sink.
        inputs: The uids of the sources and lookups.
        schema: The columns of its rows.
        columns: The origins of each column, as far as they are known.
    """

    sink: str
    inputs: tuple[str, ...]
    schema: pa.Schema
    columns: Mapping[str, frozenset[ColumnOrigin]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LineageGraph:
    """The lineage of one pipeline.

    Attributes:
        datasets: The datasets of each source, lookup, and sink, by uid. Empty for one that does not
            name them.
        schemas: The columns of each source and lookup, by uid.
        edges: The sinks with their inputs.
    """

    datasets: Mapping[str, tuple[LineageDataset, ...]]
    schemas: Mapping[str, pa.Schema]
    edges: tuple[LineageEdge, ...]
