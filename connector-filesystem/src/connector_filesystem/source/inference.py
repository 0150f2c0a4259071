# SPDX-License-Identifier: Apache-2.0
"""Infers the schema of files from a Parquet footer or a sample of text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from connector_filesystem.filesystem import FileLocation, FileStatus, is_of_system, mapped_errors
from connector_filesystem.formats import Compression, CsvOptions, FileFormat
from connector_filesystem.source.parquet import UnsupportedFileError, parquet_schema
from connector_filesystem.source.reader import layout_of
from connector_filesystem.source.text import BOM, ByteStream, csv_header, distinct_names
from connectors_core.errors import ConfigurationError
from connectors_core.formats.text import infer_csv, infer_json, nearest_spark_schema

__all__ = ["SAMPLE_BYTES", "SAMPLE_FILES", "found_schema"]

SAMPLE_BYTES: Final = 1 << 20
SAMPLE_FILES: Final = 3


def found_schema(
    location: FileLocation,
    files: Sequence[FileStatus],
    *,
    format: FileFormat | None,
    compression: Compression | None,
    csv: CsvOptions,
    max_record_size: int,
) -> pa.Schema:
    """Infer the columns of the first files, on the driver.

    For Parquet, it reads the footer of the first file that has columns. For text, it reads the
    first megabyte of the first three files and unifies their columns. A column without values
    becomes a string.

    Raises:
        ConfigurationError: There is no file, or a sample cannot be parsed.
    """
    if not files:
        raise ConfigurationError(
            "there is no file yet from which to infer the schema",
            expected="a schema, or an existing file",
            option="schema",
            hint="set the option schema",
        )
    schemas: list[pa.Schema] = []
    for file in files[:SAMPLE_FILES]:
        layout, squeezed = layout_of(file.path, format, compression)
        url = location.url_of(file.path)
        try:
            with mapped_errors("reading the first lines of", url), _decoding(url):
                if layout is FileFormat.PARQUET:
                    found = parquet_schema(location, file.path, file.size)
                    if found.names:
                        return nearest_spark_schema(found)
                    schemas.append(found)
                    continue
                stream = ByteStream(location, file.path, squeezed, file.size)
                try:
                    schemas.append(_of_text(stream, layout, csv, max_record_size))
                finally:
                    stream.close()
        except pa.ArrowNotImplementedError as exc:
            raise ConfigurationError(
                f"{url} contains a type or an encoding that cannot be read",
                expected="types and encodings that Arrow reads",
                found=str(exc) if isinstance(exc, UnsupportedFileError) else None,
                option="path",
                hint="declare the other columns with schema, and set on-schema-change to "
                "ignore-new; or write the file with other types, or exclude it with path-regex",
            ) from exc
        except pa.ArrowInvalid as exc:
            raise ConfigurationError(
                f"the schema of {url} cannot be inferred",
                expected=layout.value,
                option="schema",
                hint="check format, compression, and dialect, or set the option schema",
            ) from exc
    try:
        unified = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as exc:
        raise ConfigurationError(
            "the first files have columns with different types",
            found=", ".join(sorted(_conflicting(schemas))),
            option="schema",
            hint="set the option schema",
        ) from exc
    return nearest_spark_schema(unified)


def _conflicting(schemas: Sequence[pa.Schema]) -> set[str]:
    """Return the columns whose types differ between the files."""
    fields = [each for schema in schemas for each in schema]
    types: dict[str, pa.DataType] = {each.name: each.type for each in fields}
    return {each.name for each in fields if not each.type.equals(types[each.name])}


@contextlib.contextmanager
def _decoding(url: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        if is_of_system(exc):
            raise
        raise ConfigurationError(
            f"the file {url} cannot be read",
            expected="a complete file that is not encrypted",
            option="path",
            hint="set the option schema and source.on-unreadable to skip, or exclude the file with "
            "path-regex",
        ) from exc


def _of_text(
    stream: ByteStream, layout: FileFormat, csv: CsvOptions, max_record_size: int
) -> pa.Schema:
    data = b""
    ended = False
    while len(data) < SAMPLE_BYTES and not ended:
        more = stream.read(SAMPLE_BYTES - len(data))
        ended = not more
        data += more
    if not ended:
        data = data[: data.rfind(b"\n") + 1]
    if layout is FileFormat.JSON:
        data = data.removeprefix(BOM)
        return infer_json(data) if data.strip() else pa.schema([])
    if not csv.header:
        return _of_csv(data, (), csv)
    rest = data

    def read(count: int) -> bytes:
        nonlocal rest
        taken, rest = rest[:count], rest[count:]
        return taken

    names, behind = csv_header(read, csv, max_record_size)
    return _of_csv(data[behind:], distinct_names(names), csv)


def _of_csv(data: bytes, names: Sequence[str], csv: CsvOptions) -> pa.Schema:
    if not data.strip(b"\r\n"):
        return pa.schema([pa.field(name, pa.null()) for name in names])
    return infer_csv(data, names, csv, csv.newlines_in_values)
