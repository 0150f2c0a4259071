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
    """How a column, or all rows of a sink, depend on another column (as in OpenLineage).

    The first three are direct: values follow from values. The others are indirect: values decide
    which rows exist, in which order, or which other values a column has.
    """

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    FILTER = "FILTER"
    JOIN = "JOIN"
    GROUP_BY = "GROUP_BY"
    SORT = "SORT"
    WINDOW = "WINDOW"
    CONDITIONAL = "CONDITIONAL"

    @property
    def is_direct(self) -> bool:
        """Whether values follow from the values of the other column."""
        return self in (
            Transformation.IDENTITY,
            Transformation.TRANSFORMATION,
            Transformation.AGGREGATION,
        )


@dataclass(frozen=True, kw_only=True)
class ColumnOrigin:
    """A column on which another one, or the rows of a sink, depend.

    Attributes:
        uid: The input.
        column: Its column.
        transformation: How they depend on it.
    """

    uid: str
    column: str
    transformation: Transformation


@dataclass(frozen=True, kw_only=True)
class LineageEdge:
    """A sink with the inputs of its rows.

    Attributes:
        sink: The uid of the sink.
        inputs: The uids of its sources and lookups, and of the inputs that Spark reads itself.
        schema: The columns of its rows.
        columns: The origins of each column, as far as they are known.
        row_origins: The columns of conditions, keys, and orders, which decide which rows exist and
            in which order, as far as they are known.
    """

    sink: str
    inputs: tuple[str, ...]
    schema: pa.Schema
    columns: Mapping[str, frozenset[ColumnOrigin]] = field(default_factory=dict)
    row_origins: frozenset[ColumnOrigin] = frozenset()


@dataclass(frozen=True, kw_only=True)
class LineageGraph:
    """The lineage of one pipeline.

    An input that Spark reads itself has a uid that starts with `@` and names its datasets, or the
    kind of the input if Spark does not tell them.

    Attributes:
        datasets: The datasets of each input and sink, by uid. Empty for one that does not name
            them.
        schemas: The columns of each input, by uid.
        edges: The sinks with their inputs.
    """

    datasets: Mapping[str, tuple[LineageDataset, ...]]
    schemas: Mapping[str, pa.Schema]
    edges: tuple[LineageEdge, ...]
