# SPDX-License-Identifier: Apache-2.0
"""Tests the abilities of tables by their names."""

from __future__ import annotations

import pytest

from connectors_core import UnsupportedError
from connectors_core.sink import Sink, SupportsOverwrite
from connectors_core.source import DataGeneratorSource, SupportsFilterPushDown
from connectors_core.table import (
    ChangelogMode,
    DynamicTableSink,
    ScanTableSource,
    TableAbility,
)
from connectors_core.table.abilities import require


class ReplacingSink(Sink, SupportsOverwrite):
    def create_writer(self, context):
        raise NotImplementedError

    def apply_overwrite(self, partition):
        return self


class FilteringSource(DataGeneratorSource, SupportsFilterPushDown):
    def apply_filters(self, filters):
        return self, filters


def test_the_abilities_of_a_sink_are_those_of_its_class_and_of_its_definition() -> None:
    assert DynamicTableSink(sink=ReplacingSink()).abilities == {TableAbility.OVERWRITE}
    upserts = ChangelogMode.upsert()
    without_key = DynamicTableSink(sink=ReplacingSink(), changelog_mode=upserts)
    assert without_key.abilities == {TableAbility.OVERWRITE}
    all_of_them = DynamicTableSink(
        sink=ReplacingSink(),
        changelog_mode=upserts,
        key=("id",),
        writable_metadata=frozenset({"headers"}),
    )
    assert all_of_them.abilities == {
        TableAbility.OVERWRITE,
        TableAbility.WRITING_METADATA,
        TableAbility.ROW_LEVEL_DELETE,
        TableAbility.ROW_LEVEL_UPDATE,
    }


def test_a_pipeline_generates_the_watermarks_of_any_source() -> None:
    source = ScanTableSource(source=FilteringSource.__new__(FilteringSource))
    assert source.abilities == {TableAbility.FILTER_PUSH_DOWN, TableAbility.WATERMARK_PUSH_DOWN}


def test_a_missing_ability_is_named_with_its_table_and_connector() -> None:
    place = {"table": "shop.orders", "connector": "kafka", "hint": "use INSERT INTO"}
    require(TableAbility.OVERWRITE, {TableAbility.OVERWRITE}, **place)
    with pytest.raises(UnsupportedError) as refused:
        require(TableAbility.OVERWRITE, {TableAbility.PARTITIONING}, **place)
    for shown in ("shop.orders", "'kafka'", "SupportsOverwrite", "SupportsPartitioning"):
        assert shown in str(refused.value)
