# SPDX-License-Identifier: Apache-2.0
"""The options of a table's watermark, which every connector has (Flink's FLIP-296)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from connectors_core.errors import ConfigurationError, MissingOptionError
from connectors_core.options import DURATION, Configured, Setting, at_least, option, positive
from connectors_core.source.watermarks import WatermarkStrategy
from connectors_core.table.catalog_table import CatalogTable
from connectors_core.table.references import has_reference, resolved
from connectors_core.table.table_schema import ComputedColumn

__all__ = ["WatermarkOptions", "check_watermark_options", "watermark_strategy"]

_GROUP: Final = "scan.watermark.alignment.group"
_MAX_DRIFT: Final = "scan.watermark.alignment.max-drift"


class WatermarkOptions(Configured, scope="watermark of a table", since="1.1.0"):
    """How the watermark of a table relates to those of its splits and of other tables."""

    idle_timeout: Setting[timedelta | None, timedelta | str | None] = option(
        "scan.watermark.idle-timeout",
        DURATION,
        default=None,
        validator=positive,
        doc="Time without rows after which a split, such as a partition, does not hold back the "
        "watermark.",
    )
    alignment_group: Setting[str | None] = option(
        _GROUP,
        str,
        default=None,
        doc="Name of the group of tables that advance together. Set "
        "`scan.watermark.alignment.max-drift` too.",
    )
    alignment_max_drift: Setting[timedelta | None, timedelta | str | None] = option(
        _MAX_DRIFT,
        DURATION,
        default=None,
        validator=at_least(timedelta(0)),
        doc="How far a split may be ahead of the slowest one of its group. A reader holds rows "
        "beyond it.",
    )
    alignment_update_interval: Setting[timedelta, timedelta | str] = option(
        "scan.watermark.alignment.update-interval",
        DURATION,
        default=timedelta(0),
        validator=at_least(timedelta(0)),
        doc="Minimum time between two increases of the maximum of a group.",
    )

    def __post_init__(self) -> None:
        is_aligned = self.alignment_max_drift is not None or bool(self.alignment_update_interval)
        if is_aligned and self.alignment_group is None:
            raise MissingOptionError(_GROUP, scope="watermark of a table")
        if self.alignment_group is not None and self.alignment_max_drift is None:
            raise MissingOptionError(_MAX_DRIFT, scope=f"group {self.alignment_group!r}")

    def applied_to(self, strategy: WatermarkStrategy) -> WatermarkStrategy:
        """Return a strategy with these options."""
        if self.idle_timeout is not None:
            strategy = strategy.with_idleness(self.idle_timeout)
        if self.alignment_group is not None and self.alignment_max_drift is not None:
            strategy = strategy.with_watermark_alignment(
                self.alignment_group, self.alignment_max_drift, self.alignment_update_interval
            )
        return strategy


def watermark_strategy(table: CatalogTable) -> WatermarkStrategy | None:
    """Return the strategy of a table's source; None if a source does not make its watermark.

    Raises:
        ConfigurationError: An option is invalid.
    """
    watermark = table.schema.watermark
    if watermark is None or watermark.out_of_orderness is None or _is_computed(table):
        return None
    options = WatermarkOptions.from_options(resolved(_given(table)))
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(watermark.out_of_orderness)
    return options.applied_to(strategy.with_timestamp_assigner(watermark.column))


def check_watermark_options(name: str, table: CatalogTable) -> None:
    """Check the options of a table's watermark when it is created.

    Args:
        name: The name of the table, for errors.
        table: Its definition.

    Raises:
        ConfigurationError: A value is invalid, or the table has no watermark of its source.
    """
    given = _given(table)
    if not given:
        return
    if table.schema.watermark is None or _is_computed(table):
        raise ConfigurationError(
            f"the table {name} has no watermark to which an option could apply",
            expected="WATERMARK FOR a column of the system",
            found="none" if table.schema.watermark is None else "one of a computed column",
            option=next(iter(given)),
        )
    if any(map(has_reference, given.values())):
        for key, value in given.items():
            if not has_reference(value):
                WatermarkOptions.OPTIONS.check(key, value)
        return
    WatermarkOptions.from_options(given)


def _given(table: CatalogTable) -> dict[str, str]:
    return {key: each for key, each in table.options.items() if key in WatermarkOptions.OPTIONS}


def _is_computed(table: CatalogTable) -> bool:
    watermark = table.schema.watermark
    return watermark is not None and any(
        isinstance(each, ComputedColumn) and each.name == watermark.column
        for each in table.schema.columns
    )
