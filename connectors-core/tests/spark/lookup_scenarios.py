# SPDX-License-Identifier: Apache-2.0
"""Rows and tables for lookup joins on Spark. The expected output derives from row numbers."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pipeline_support import EVENTS, event_rows, new_pipeline
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from connectors_core import Pipeline
from connectors_core.lookup import (
    AsyncLookupFunction,
    CacheReloadContext,
    CacheReloadTrigger,
    FullCachingLookupProvider,
    LookupFunction,
)
from connectors_core.source import DataGeneratorSource, ReadLimits
from connectors_core.table import LookupTableSource
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.spark_session import new_session

ROWS = 400
KEYS = 40
TABLE_ROWS = 60  # the rest has no key
TABLE = pa.schema(
    [
        pa.field("key", pa.int64()),
        pa.field("value", pa.string()),
        pa.field("not_wanted", pa.binary()),
    ]
)
ORDERS = EVENTS.append(pa.field("key", pa.int64()))


def orders(numbers: pa.Array) -> pa.RecordBatch:
    """Create rows with the key n modulo 40. Every seventh row has no key."""
    keys = pc.subtract(numbers, pc.multiply(pc.divide(numbers, KEYS), KEYS))
    none = pc.equal(pc.subtract(numbers, pc.multiply(pc.divide(numbers, 7), 7)), 0)
    keys = pc.if_else(none, None, keys)
    return pa.RecordBatch.from_arrays([*event_rows(numbers).columns, keys], schema=ORDERS)


def order_source(rows: int = ROWS) -> DataGeneratorSource:
    return DataGeneratorSource(orders, rows, ORDERS, split_rows=100, batch_rows=30)


def found(keys: pa.RecordBatch) -> pa.Table:
    """Return k modulo 3 rows for each key k."""
    rows = [
        {"key": key, "value": f"{key}.{number}"}
        for key in keys.column(0).to_pylist()
        for number in range(key % 3)
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema([TABLE.field("key"), TABLE.field("value")]))


def expected(how: str, rows: int = ROWS) -> Counter[tuple[int, str | None]]:
    result: Counter[tuple[int, str | None]] = Counter()
    for n in range(rows):
        key = n % KEYS
        values = [f"{key}.{number}" for number in range(key % 3)] if n % 7 else []
        result.update((n, value) for value in values or [None] * (how == "left"))
    return result


def given(sink: DirectorySink) -> Counter[tuple[int, str | None]]:
    rows = sink.read()
    assert "not_wanted" not in rows.column_names
    return Counter(zip(rows["n"].to_pylist(), rows["value"].to_pylist(), strict=True))


class Function(LookupFunction):
    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        return found(keys)


@dataclass(frozen=True)
class NotingFunction(LookupFunction):
    """Writes a file for each request, with the process and the requested keys."""

    folder: Path

    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        name = f"{os.getpid()}-{time.time_ns()}"
        (self.folder / name).write_text(" ".join(map(str, keys.column(0).to_pylist())))
        return found(keys)


class BrokenFunction(LookupFunction):
    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        raise KeyError("no such column")


class AsyncFunction(AsyncLookupFunction):
    async def async_lookup(self, keys: pa.RecordBatch) -> pa.Table:
        await asyncio.sleep(0.001)
        return found(keys)


class OfKeys(LookupTableSource):
    def schema(self) -> pa.Schema:
        return TABLE


@dataclass(frozen=True)
class Table(OfKeys):
    provider: Any

    def get_lookup_runtime_provider(self, context: Any) -> Any:
        assert context.schema.names == ["key", "value"]
        return self.provider


@dataclass(frozen=True)
class JsonTable(OfKeys):
    """A table with a full cache: rows of a JSON file, which a test can change or break."""

    file: Path

    def get_lookup_runtime_provider(self, context: Any) -> FullCachingLookupProvider:
        return FullCachingLookupProvider(self.source(context.schema), self.trigger())

    def trigger(self) -> Any:
        return None

    def source(self, schema: pa.Schema) -> DataGeneratorSource:
        file = self.file

        def rows(numbers: pa.Array) -> pa.RecordBatch:
            table = json.loads(file.read_text())
            table += [{"key": None, "value": "of no key"}] * (TABLE_ROWS - len(table))
            taken = [table[number] for number in numbers.to_pylist()]
            return pa.RecordBatch.from_pylist(taken, schema=schema)

        return DataGeneratorSource(rows, TABLE_ROWS, schema, split_rows=20)

    def write(self, prefix: str = "") -> None:
        rows = found(pa.record_batch([pa.array(range(KEYS))], names=["key"])).to_pylist()
        table = [row | {"value": prefix + row["value"]} for row in rows]
        self.file.write_text(json.dumps(table))


# --- A table of one row, which shows the version that was read -----------------------------------


@dataclass(frozen=True)
class OneRowTable(JsonTable):
    """A table that is joined by `zero`, so every row gets the value in the file."""

    reload_trigger: CacheReloadTrigger | None = None

    def trigger(self) -> CacheReloadTrigger | None:
        return self.reload_trigger

    def write(self, prefix: str = "") -> None:
        self.file.write_text(json.dumps([{"key": 0, "value": prefix}]))


class SlowTable(OneRowTable):
    """A table whose read blocks while a marker file exists."""

    @property
    def hangs(self) -> Path:
        return self.file.with_suffix(".hangs")

    @property
    def hanging(self) -> Path:
        return self.file.with_suffix(".hanging")

    def source(self, schema: pa.Schema) -> DataGeneratorSource:
        read = super().source(schema)
        hangs, hanging = self.hangs, self.hanging

        def rows(numbers: pa.Array) -> pa.RecordBatch:
            while hangs.exists():
                hanging.touch()
                time.sleep(0.01)
            return read.make_batch(numbers)

        return DataGeneratorSource(rows, TABLE_ROWS, schema, split_rows=20)


class ByHand(CacheReloadTrigger):
    """Reloads on the test's request."""

    def open(self, context: CacheReloadContext) -> None:
        self.context = context

    def close(self) -> None:
        pass


ENTRY_ROWS = 50


def versioned(pipeline: Pipeline, rows: DataFrame, table: OneRowTable) -> DataFrame:
    """Return the rows, each with the version that it saw."""
    rows = rows.withColumn("zero", F.lit(0).cast("bigint"))
    joined = pipeline.lookup_join(rows, table, on={"zero": "key"}, columns=["value"], uid="table")
    return joined.select("n", "value")


def versioned_where_read(pipeline: Pipeline, rows: DataFrame, table: OneRowTable) -> DataFrame:
    """Return the versions of the value for key 0, without Spark."""
    return pipeline.lookup_join(rows, table, on=["key"], columns=["value"], uid="table")


@dataclass(frozen=True)
class KilledDriver:
    """A driver that looks up a table that may have changed since the previous driver."""

    root: Path
    shape: Callable[[Pipeline, DataFrame, OneRowTable], DataFrame]

    def __call__(self) -> None:
        spark = new_session()
        with new_pipeline(spark, self.root) as pipeline:
            limits = ReadLimits(rows=2 * ENTRY_ROWS)
            rows = pipeline.from_source(order_source(), uid="orders", limits=limits)
            table = OneRowTable(self.root / "table.json")
            sink = DirectorySink(self.root / "rows")
            pipeline.sink_to(self.shape(pipeline, rows, table), sink, uid="rows")
            assert pipeline.run()
