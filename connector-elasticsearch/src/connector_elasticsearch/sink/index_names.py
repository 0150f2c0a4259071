# SPDX-License-Identifier: Apache-2.0
"""The target index of a row: a fixed name, or one that contains columns or the time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.formats.text import concat_texts, is_string

__all__ = ["DATE_MATH", "IndexName"]

DATE_MATH: Final = "<"
"""The start of a name that Elasticsearch evaluates, e.g. `<flights-{now/d}>`. No index has it."""

_OPTION: Final = "index"
_FIELD: Final = re.compile(r"\{([^{}]*)\}")
# The forms of Flink.
_NOW: Final = re.compile(r"(now|NOW)\(\s*\)|current_timestamp|CURRENT_TIMESTAMP")
_DATE_TOKEN: Final = re.compile(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']+")
# Java's date letters that make sense in a name. `S` and similar ones do not.
_DATE_LETTERS: Final = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
}


@dataclass(frozen=True)
class _Field:
    """A part of a name from a column, or from the clock if the column is None."""

    column: str | None
    date_format: str | None


@dataclass(frozen=True)
class IndexName:
    """A fixed name or a pattern, as in Flink: `flights`, `flights-{at|yyyy-MM-dd}`, `{to}`.

    Attributes:
        pattern: The name as configured.

    Raises:
        InvalidOptionError: The pattern cannot be parsed.
    """

    pattern: str

    def __post_init__(self) -> None:
        if self.pattern.startswith(DATE_MATH):
            raise InvalidOptionError(
                "the index name contains date math, which the server would evaluate with its clock",
                expected="a name, or one with fields such as {now()|yyyy-MM-dd}",
                found=self.pattern,
                option=_OPTION,
            )
        if not self.pattern or any(brace in _FIELD.sub("", self.pattern) for brace in "{}"):
            raise _refused(self.pattern, "a name, or one with fields such as {at|yyyy-MM-dd}")
        for each in self._parts:
            if isinstance(each, _Field) and each.column is None and each.date_format is None:
                raise _refused(self.pattern, "a date format: {now()|yyyy-MM-dd}")

    @property
    def static(self) -> str | None:
        """The name if it is the same for all rows, or else None."""
        return None if _FIELD.search(self.pattern) else self.pattern

    @property
    def follows_clock(self) -> bool:
        """Whether a row that is written again can go to another index."""
        return any(isinstance(each, _Field) and each.column is None for each in self._parts)

    def check(self, schema: pa.Schema) -> None:
        """Refuse columns that cannot name an index. Driver.

        Raises:
            ConfigurationError: A column is missing or has a wrong type.
        """
        for each in self._parts:
            if isinstance(each, str) or each.column is None:
                continue
            if each.column not in schema.names:
                raise ConfigurationError(
                    f"the column {each.column!r} of the index name is missing",
                    expected="a column of the rows",
                    found=f"columns {', '.join(schema.names)}",
                    option=_OPTION,
                )
            kind = schema.field(each.column).type
            if each.date_format is not None:
                right, wanted = _is_time(kind), "a date or a timestamp"
            else:
                right, wanted = (
                    _is_word(kind),
                    "a text, or a whole number, or a column with a date format",
                )
            if not right:
                raise ConfigurationError(
                    f"the column {each.column!r} cannot name an index",
                    expected=wanted,
                    found=kind,
                    option=_OPTION,
                )

    def of(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the name for each row, with null if one of its columns is null. Executor."""
        parts: list[pa.Array | str] = []
        for each in self._parts:
            if isinstance(each, str):
                parts.append(each)
            elif each.column is None:
                parts.append(datetime.now(UTC).strftime(each.date_format or ""))
            elif each.date_format is None:
                parts.append(rows.column(each.column).cast(pa.string()))
            else:
                parts.append(_formatted(rows.column(each.column), each.date_format))
        if all(isinstance(part, str) for part in parts):
            return pa.repeat("".join(map(str, parts)), rows.num_rows)
        return concat_texts(parts)

    @property
    def _parts(self) -> list[str | _Field]:
        parts: list[str | _Field] = []
        at = 0
        for match in _FIELD.finditer(self.pattern):
            if match.start() > at:
                parts.append(self.pattern[at : match.start()])
            parts.append(self._field(match[1]))
            at = match.end()
        if at < len(self.pattern):
            parts.append(self.pattern[at:])
        return parts

    def _field(self, text: str) -> _Field:
        name, bar, java = (part.strip() for part in text.partition("|"))
        if not name:
            raise _refused(self.pattern, "the name of a column, or now(), in the braces")
        date_format = self._date_format(java) if bar else None
        return _Field(None if _NOW.fullmatch(name) else name, date_format)

    def _date_format(self, java: str) -> str:
        found = ""
        for match in _DATE_TOKEN.finditer(java):
            letters = _DATE_LETTERS.get(match[0]) if match[2] else None
            if match[2] and letters is None:
                raise _refused(self.pattern, f"dates of {', '.join(_DATE_LETTERS)}")
            found += letters or (match[0] if match[1] is None else match[1]).replace("%", "%%")
        if not found:
            raise _refused(self.pattern, "a date format after the bar: {at|yyyy-MM-dd}")
        return found


def _formatted(column: pa.Array, date_format: str) -> pa.Array:
    """Format dates in UTC, rounded down to seconds, also before 1970."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = pc.floor_temporal(column.view(pa.timestamp(kind.unit)), unit="second")
    return pc.strftime(column.cast(pa.timestamp("s"), safe=False), format=date_format)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _is_word(kind: pa.DataType) -> bool:
    return is_string(kind) or bool(pa.types.is_integer(kind))


def _refused(pattern: str, expected: str) -> InvalidOptionError:
    return InvalidOptionError(
        "the index name is invalid", expected=expected, found=pattern, option=_OPTION
    )
