# SPDX-License-Identifier: Apache-2.0
"""Converts text to typed columns and back without a Python object per record, for connectors.

The caller defines the records and their framing: lines of a file in one connector, messages of a
log in another.
"""

from connectors_core.formats.text.columns import converted, explained
from connectors_core.formats.text.csv import (
    CsvDialect,
    CsvReader,
    check_written_spellings,
    csv_faults,
    csv_header,
    csv_records,
    infer_csv,
    unquotable_rows,
    unreadable_csv_type,
    unsupported_csv_type,
)
from connectors_core.formats.text.inferred_types import nearest_spark_schema, nearest_spark_type
from connectors_core.formats.text.json import (
    JsonReader,
    infer_json,
    json_faults,
    json_objects,
    parse_json,
    unreadable_json_type,
    unsupported_json_type,
)
from connectors_core.formats.text.local_times import AmbiguousTimes, TimesText
from connectors_core.formats.text.texts import (
    concat_texts,
    data_of,
    dates_without_text,
    is_binary,
    is_string,
)

__all__ = [
    "AmbiguousTimes",
    "CsvDialect",
    "CsvReader",
    "JsonReader",
    "TimesText",
    "check_written_spellings",
    "concat_texts",
    "converted",
    "csv_faults",
    "csv_header",
    "csv_records",
    "data_of",
    "dates_without_text",
    "explained",
    "infer_csv",
    "infer_json",
    "is_binary",
    "is_string",
    "json_faults",
    "json_objects",
    "nearest_spark_schema",
    "nearest_spark_type",
    "parse_json",
    "unquotable_rows",
    "unreadable_csv_type",
    "unreadable_json_type",
    "unsupported_csv_type",
    "unsupported_json_type",
]
