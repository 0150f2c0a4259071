# SPDX-License-Identifier: Apache-2.0
"""A lookup table for tests of the suite: rows in an Arrow file, which a test can remove."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from toy_disk import connect
from toy_files import FileContext, FileReader

from connectors_core.errors import BadRecordError
from connectors_core.lineage import LineageVertexProvider, file_dataset
from connectors_core.lookup import (
    LOOKUP_OPTIONS,
    AsyncLookupFunction,
    LookupFunction,
    LookupRequestConfiguration,
    lookup_provider,
)
from connectors_core.options import OptionSet
from connectors_core.source import DataGeneratorSource
from connectors_core.table import LookupTableSource
from connectors_core.testing import (
    LOOKUP_ROWS,
    Capabilities,
    Capability,
    LookupExternalContext,
)

CAN = Capabilities(
    can=frozenset(
        {
            Capability.LOOKUP_BY_KEY,
            Capability.ASYNC_LOOKUP,
            Capability.FULL_CACHE,
            Capability.OUTAGES,
            Capability.DATA_TYPES,
            Capability.MISFITS,
            Capability.SECRETS,
        }
    )
)
OPTIONS = OptionSet(*LOOKUP_OPTIONS, scope="toy table")
QUICK = LookupRequestConfiguration(
    initial_backoff=LookupRequestConfiguration().initial_backoff / 100,
    max_backoff=LookupRequestConfiguration().initial_backoff / 50,
)


@dataclass
class ToyFunction(FileReader, LookupFunction):
    wanted: pa.Schema | None = field(default=None, kw_only=True)

    def open(self, context):
        connect()

    def lookup(self, keys):
        rows = self.read()
        found = pc.is_in(rows.column(keys.schema.names[0]), value_set=keys.column(0))
        for name, column in zip(keys.schema.names[1:], keys.columns[1:], strict=True):
            found = pc.and_(found, pc.is_in(rows.column(name), value_set=column))
        return self.fitted(self.exactly(rows.filter(found), keys))

    def fitted(self, rows):
        columns = []
        for each in self.wanted:
            values = rows.column(each.name)
            with contextlib.suppress(pa.ArrowException):
                columns.append(values.cast(each.type))
                continue
            columns.append(self.misfit(values, each))
        return pa.table(columns, schema=self.wanted)

    def misfit(self, values, declared):
        raise BadRecordError(f"the value of {declared.name} is no {declared.type}")

    def exactly(self, rows, keys):
        asked = set(zip(*(column.to_pylist() for column in keys.columns), strict=True))
        pairs = zip(*(rows.column(name).to_pylist() for name in keys.schema.names), strict=True)
        return rows.filter(pa.array([pair in asked for pair in pairs], pa.bool_()))


@dataclass
class ToyAsyncFunction(AsyncLookupFunction):
    function: ToyFunction

    async def async_lookup(self, keys):
        return self.function.lookup(keys)


@dataclass(frozen=True)
class ToyTable(LookupTableSource, LineageVertexProvider):
    path: str
    options: dict[str, str]
    file_schema: pa.Schema = LOOKUP_ROWS

    function: ClassVar[type[ToyFunction]] = ToyFunction

    def lineage_datasets(self):
        return (file_dataset(self.path),)

    def schema(self):
        return self.file_schema

    def get_lookup_runtime_provider(self, context):
        def function():
            return self.function(self.path, context.schema.names, wanted=context.schema)

        return lookup_provider(
            OPTIONS.parse(self.options),
            function=function,
            async_function=lambda: ToyAsyncFunction(function()),
            source=lambda: self.source(context.schema),
            requests=QUICK,
        )

    def source(self, schema):
        with pa.ipc.open_file(self.path) as file:
            count = file.read_all().num_rows
        return DataGeneratorSource(
            Rows(self.function(self.path, schema.names, wanted=schema)), count, schema
        )


@dataclass(frozen=True)
class Rows:
    """Generates the rows of the file by number. The number of rows is fixed."""

    function: ToyFunction

    def __call__(self, numbers):
        rows = self.function.fitted(self.function.read())
        numbers = numbers.filter(pc.less(numbers, rows.num_rows))
        return rows.take(numbers).combine_chunks().to_batches()[0]


class ToyTables(FileContext, LookupExternalContext):
    def __init__(self, folder: Path, table: type[ToyTable] = ToyTable) -> None:
        super().__init__(folder, table)

    def create_typed_table(self, rows, options):
        return self.create_misfit_table(rows.schema, rows, options)

    def create_misfit_table(self, schema, rows, options):
        self.write(rows)
        return self.table(str(self.path), dict(options), schema)
