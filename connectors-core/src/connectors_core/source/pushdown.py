# SPDX-License-Identifier: Apache-2.0
"""Abilities of a source to read only what a query needs (named after Flink's table abilities).

When a query is built, the pipeline reads off Spark's plan which columns, conditions, and limit
apply to each source, and calls these methods on the driver, before it sends the source to tasks.
Each returns another source. Neither plans nor reports depend on them: the enumerator is always that
of the original source, and positions count all rows. A restart with another query is therefore as
exact as one with the same query.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

from connectors_core.source.predicates import FieldPath, Predicate

__all__ = [
    "SupportsFilterPushDown",
    "SupportsLimitPushDown",
    "SupportsPartitionPushDown",
    "SupportsProjectionPushDown",
]


class SupportsProjectionPushDown(ABC):
    """Ability of a source: reads only some of its columns (Flink's SupportsProjectionPushDown)."""

    def supports_nested_projection(self) -> bool:
        """Return whether it can leave out nested fields; the default is False."""
        return False

    @abstractmethod
    def apply_projection(self, fields: Sequence[FieldPath]) -> Self:
        """Return a source that reads only these columns. Driver.

        The source splits its data in the same way, and returns the same rows in the same order. It
        need not notice a record whose other columns cannot be read.

        Args:
            fields: At least one column of the schema, in its order. Paths of nested fields only
                occur if :meth:`supports_nested_projection` is true. The other fields of such a
                column are null, and its type stays the same.

        Returns:
            A source whose schema has just these columns.
        """


class SupportsFilterPushDown(ABC):
    """Ability of a source: skips rows that a query excludes (Flink's SupportsFilterPushDown).

    A pipeline applies the conditions to the rows of every source before they enter the JVM.
    Implement this only if the source can also read less, and call
    :meth:`~connectors_core.source.SourceOutput.pass_over` for every row that it leaves out. If it
    can only read less without knowing how many rows it leaves out, implement
    :meth:`without_counts` too.
    """

    @abstractmethod
    def apply_filters(self, filters: Sequence[Predicate]) -> tuple[Self, Sequence[Predicate]]:
        """Return a source that skips rows which do not satisfy the conditions. Driver.

        Args:
            filters: The conditions. A row must satisfy all of them.

        Returns:
            The source, and the conditions that let it read less. It may keep rows that do not
            satisfy them.
        """

    def without_counts(self) -> Self | None:
        """Return a source whose reader may leave out rows without counting them. Executor.

        The runtime calls this, after :meth:`apply_filters`, if it reads all splits of a task from
        their planned position to their known end. Nothing then depends on the number of rows:
        the report states that the splits were read to their ends, and so does a replay with another
        query. The reader still finishes every split.

        Returns:
            The source, or None if counting prevents nothing, which is the default.
        """
        return None


class SupportsLimitPushDown(ABC):
    """Ability of a source: reads only the first rows (Flink's SupportsLimitPushDown)."""

    @abstractmethod
    def apply_limit(self, limit: int) -> Self:
        """Return a source that need not read more rows than this of each split. Driver.

        Args:
            limit: A number of rows. The pipeline takes no more than these.
        """


class SupportsPartitionPushDown(ABC):
    """Ability of a source: knows columns that are constant in a split, such as a folder's.

    A split whose constants exclude all its rows is not read (Flink's SupportsPartitionPushDown).
    A read that leaves out a split sends none of its events.
    """

    @abstractmethod
    def partition_of(self, split: Any) -> Mapping[str, Any]:
        """Return the value of each constant column of a split. Executor.

        Args:
            split: The split.

        Returns:
            The values by column. None stands for null. The value is a
            :class:`~connectors_core.source.ValueRange` if the column only has bounds.
        """
