# SPDX-License-Identifier: Apache-2.0
"""The abilities of tables by the names of Flink, and the error about one that is missing.

An ability is that of the source or the sink itself, such as
:class:`~connectors_core.source.SupportsFilterPushDown`, or follows from what the factory says of
the table, such as the kinds of changes that its sink accepts.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from connectors_core.errors import UnsupportedError

__all__ = ["TableAbility", "abilities_of", "require"]


class TableAbility(StrEnum):
    """The name of an ability of a table."""

    PROJECTION_PUSH_DOWN = "SupportsProjectionPushDown"
    FILTER_PUSH_DOWN = "SupportsFilterPushDown"
    LIMIT_PUSH_DOWN = "SupportsLimitPushDown"
    PARTITION_PUSH_DOWN = "SupportsPartitionPushDown"
    READING_METADATA = "SupportsReadingMetadata"
    WATERMARK_PUSH_DOWN = "SupportsWatermarkPushDown"
    SOURCE_WATERMARK = "SupportsSourceWatermark"
    WRITING_METADATA = "SupportsWritingMetadata"
    OVERWRITE = "SupportsOverwrite"
    PARTITIONING = "SupportsPartitioning"
    ROW_LEVEL_DELETE = "SupportsRowLevelDelete"
    ROW_LEVEL_UPDATE = "SupportsRowLevelUpdate"


_NAMES = frozenset(TableAbility)


def abilities_of(part: object) -> frozenset[TableAbility]:
    """Return the abilities that the class of a source or a sink has."""
    bases = {each.__name__ for each in type(part).__mro__}
    return frozenset(each for each in _NAMES if each.value in bases)


def require(
    ability: TableAbility,
    found: Collection[TableAbility],
    *,
    table: str,
    connector: str,
    hint: str,
) -> None:
    """Refuse a statement that needs an ability which a table lacks.

    Args:
        ability: The ability.
        found: The abilities of the table.
        table: Its full name.
        connector: The identifier of its connector.
        hint: The remedy.

    Raises:
        UnsupportedError: The table lacks the ability.
    """
    if ability not in found:
        raise UnsupportedError(
            f"the table {table} of the connector {connector!r} lacks {ability}",
            expected=f"a table with the ability {ability}",
            found=", ".join(sorted(found)) or "no ability",
            hint=hint,
        )
