# SPDX-License-Identifier: Apache-2.0
"""Tests that the options of a table's watermark reach the strategy of its source."""

from __future__ import annotations

from datetime import timedelta

import pytest

from connectors_core.errors import (
    ConfigurationError,
    InvalidOptionError,
    MissingOptionError,
    UnknownOptionError,
    UnsupportedError,
)
from connectors_core.source import NumberSequenceSource, WatermarkStrategy
from connectors_core.spark.tables.table_frames import scan
from connectors_core.table import CatalogTable, DynamicTableContext, ScanTableSource
from connectors_core.table.factory import validate_table
from connectors_core.table.sql import parse_statement
from connectors_core.table.sql.statements import CreateTable
from connectors_core.table.watermark_options import watermark_strategy

WATERMARK = "WATERMARK FOR at AS at - INTERVAL '5' SECOND"
ALIGNED = {
    "scan.watermark.alignment.group": "calendar",
    "scan.watermark.alignment.max-drift": "2 d",
}


def table(options: dict[str, str], columns: str = f"at TIMESTAMP, {WATERMARK}") -> CatalogTable:
    given = {"connector": "filesystem", "path": "/data", **options}
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    statement = parse_statement(f"CREATE TABLE t ({columns}) WITH ({pairs})")
    assert isinstance(statement, CreateTable)
    return statement.table


def test_the_options_become_idleness_and_alignment():
    options = {
        **ALIGNED,
        "scan.watermark.alignment.update-interval": "3 s",
        "scan.watermark.idle-timeout": "1 min",
    }
    validate_table("t", table(options))
    expected = WatermarkStrategy.for_bounded_out_of_orderness("5 s").with_timestamp_assigner("at")
    assert watermark_strategy(table({})) == expected
    assert watermark_strategy(table(options)) == expected.with_idleness(
        "1 min"
    ).with_watermark_alignment("calendar", timedelta(days=2), "3 s")


def test_a_connector_does_not_see_them():
    context = DynamicTableContext.of("t", table(ALIGNED))
    assert dict(context.options) == {"path": "/data"}


def test_a_reference_is_resolved_when_the_table_is_read(monkeypatch: pytest.MonkeyPatch):
    options = {**ALIGNED, "scan.watermark.alignment.max-drift": "${env:DRIFT_OF_TEST}"}
    validate_table("t", table(options))
    monkeypatch.setenv("DRIFT_OF_TEST", "3 d")
    strategy = watermark_strategy(table(options))
    assert strategy is not None
    assert strategy.alignment is not None
    assert strategy.alignment.max_drift == timedelta(days=3)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"scan.watermark.alignment.group": "calendar"}, MissingOptionError),
        ({"scan.watermark.alignment.max-drift": "1 d"}, MissingOptionError),
        ({"scan.watermark.alignment.update-interval": "1 s"}, MissingOptionError),
        ({"scan.watermark.idle-timeout": "0 s"}, InvalidOptionError),
        ({"scan.watermark.idle-timeout": "soon"}, InvalidOptionError),
        ({"scan.watermark.idle-timeouts": "1 s"}, UnknownOptionError),
        ({**ALIGNED, "scan.watermark.idle-timeout": "-1 s"}, InvalidOptionError),
    ],
)
def test_wrong_options_are_refused_when_the_table_is_created(options, error):
    with pytest.raises(error, match=r"scan\.watermark"):
        validate_table("t", table(options))


@pytest.mark.parametrize(
    "columns",
    ["at TIMESTAMP", "a BIGINT, at AS timestamp_millis(a), WATERMARK FOR at AS at"],
)
def test_a_table_without_a_watermark_of_its_source_has_no_such_options(columns):
    with pytest.raises(ConfigurationError, match="the table t has no watermark") as raised:
        validate_table("t", table(ALIGNED, columns))
    assert raised.value.option == "scan.watermark.alignment.group"


def test_no_source_has_the_watermark_that_source_watermark_means():
    declared = table({}, "at TIMESTAMP, WATERMARK FOR at AS SOURCE_WATERMARK()")
    validate_table("t", declared)
    with pytest.raises(UnsupportedError, match="'filesystem' lacks SupportsSourceWatermark") as no:
        scan(None, "default.t", declared, ScanTableSource(source=NumberSequenceSource(0, 1)))
    assert "default.t" in str(no.value)
    assert "WATERMARK FOR at AS at - INTERVAL '5' SECOND" in str(no.value.hint)
