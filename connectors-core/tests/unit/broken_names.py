# SPDX-License-Identifier: Apache-2.0
"""Connectors that change the names of columns, which every suite must detect."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from toy_connector import LogReader
from toy_sink import DiskWriter, TokenSink
from toy_table import ToyFunction


def folded(name):
    """Compare names as a system does that folds names without quotes."""
    return name.lower()


def unescaped(name):
    """End the name at the first quotation mark in it."""
    return name.partition('"')[0]


def stripped(name):
    """Remove the white space around a name, as a parser of headers does."""
    return name.strip()


class ReadsFoldedNames(LogReader):
    named = staticmethod(folded)

    def parse(self, line):
        return {self.named(name): value for name, value in super().parse(line).items()}


class ReadsUnescapedNames(ReadsFoldedNames):
    named = staticmethod(unescaped)


class ReadsStrippedNames(ReadsFoldedNames):
    named = staticmethod(stripped)


class RenamingWriter(DiskWriter):
    def __init__(self, path, context, named):
        fields = [each.with_name(named(each.name)) for each in context.schema]
        super().__init__(path, replace(context, schema=pa.schema(fields)))
        self.named = named

    def write(self, batch):
        super().write(batch.rename_columns(list(map(self.named, batch.schema.names))))


class WritesFoldedNames(TokenSink):
    named = staticmethod(folded)

    def create_writer(self, context):
        return RenamingWriter(self.path, context, self.named)


class WritesUnescapedNames(WritesFoldedNames):
    named = staticmethod(unescaped)


class WritesStrippedNames(WritesFoldedNames):
    named = staticmethod(stripped)


class FindsFoldedNames(ToyFunction):
    named = staticmethod(folded)

    def read(self):
        rows = super().read()
        return rows.rename_columns(list(map(self.named, rows.column_names)))


class FindsUnescapedNames(FindsFoldedNames):
    named = staticmethod(unescaped)


class FindsStrippedNames(FindsFoldedNames):
    named = staticmethod(stripped)
