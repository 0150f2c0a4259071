# SPDX-License-Identifier: Apache-2.0
"""Tests that what 3.0 has renamed or removed fails with an error that names the new form."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from connector_filesystem import BucketAssigner, CsvOptions, FileSink, FileSource
from connectors_core.errors import InvalidOptionError, UnknownOptionError


@pytest.mark.parametrize(
    ("name", "instead"),
    [("Format", "use FileFormat, with JSON for JSON_LINES"), ("MetadataColumn", "FileMetadata")],
)
def test_a_former_name_names_the_new_one(name: str, instead: str) -> None:
    with pytest.raises(ImportError, match=instead):
        getattr(importlib.import_module("connector_filesystem"), name)


@pytest.mark.parametrize(
    ("make", "key", "instead"),
    [
        (FileSink, "partition.date-timezone", "partition.date-time-zone"),
        *(
            (make, former, current)
            for make in (FileSource, FileSink, CsvOptions)
            for former, current in (
                ("csv.delimiter", "csv.field-delimiter"),
                ("csv.quote-char", "csv.quote-character"),
                ("csv.escape-char", "csv.escape-character"),
                ("csv.null-values", "csv.null-literal"),
            )
        ),
    ],
)
def test_a_former_key_names_the_new_one(make: Any, key: str, instead: str) -> None:
    with pytest.raises(UnknownOptionError, match=f"use '{instead}'"):
        make.from_options({"path": "/x", key: "x"} if make is not CsvOptions else {key: "x"})


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda: FileSource("/x", format="json-lines"), "csv, json, parquet"),
        (lambda: FileSink.from_options({"path": "/x", "format": "json-lines"}), "csv, json"),
        (
            lambda: FileSource("/x", metadata_columns=["file.modification_time"]),
            "file.modification-time",
        ),
    ],
)
def test_the_error_of_a_former_value_lists_the_new_one(
    call: Callable[[], object], instead: str
) -> None:
    with pytest.raises(InvalidOptionError, match=instead):
        call()


def test_a_former_keyword_names_the_new_one() -> None:
    with pytest.raises(TypeError, match="did you mean 'time_zone'"):
        BucketAssigner.date_pattern("at", "%Y", timezone="UTC")  # type: ignore[call-arg]
