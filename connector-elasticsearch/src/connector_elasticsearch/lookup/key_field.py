# SPDX-License-Identifier: Apache-2.0
"""The values of keys in a query. The server refuses a whole query because of one invalid value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from ipaddress import ip_address
from typing import Any, Final

import pyarrow as pa

__all__ = ["KeyField"]

_MOST_BYTES_OF_ID: Final = 512
_MOST_BYTES_OF_TERM: Final = 32_766
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}(\.0*)?")
_MILLISECONDS: Final = "epoch_millis"
_RANGES: Final[Mapping[str, range]] = {
    "byte": range(-(1 << 7), 1 << 7),
    "short": range(-(1 << 15), 1 << 15),
    "integer": range(-(1 << 31), 1 << 31),
    "long": range(-(1 << 63), 1 << 63),
    "unsigned_long": range(1 << 64),
}
_NANOSECONDS: Final = range((1 << 63) // 1000)
"""The microseconds since 1970 that `date_nanos` can hold."""
_PYTHON: Final = range(-62_135_596_800_000_000, 253_402_300_800_000_000)


@dataclass(frozen=True)
class KeyField:
    """A field to compare with the keys of a lookup, or the ID of documents.

    Attributes:
        path: The path of the field; None for the ID.
        kinds: Elasticsearch's types of the field in the indices.
        milliseconds: Whether a date can be written as milliseconds since 1970.
    """

    path: str | None
    kinds: frozenset[str] = frozenset()
    milliseconds: bool = True

    @classmethod
    def of(cls, path: str, definitions: Iterable[Mapping[str, Any]]) -> KeyField:
        """Return the field with its definitions, one for each index."""
        found = list(definitions)
        formats = [str(each.get("format", _MILLISECONDS)).split("||") for each in found]
        return cls(
            path,
            frozenset(str(each.get("type", "object")) for each in found),
            all(_MILLISECONDS in each for each in formats),
        )

    def values(self, column: pa.Array) -> list[Any]:
        """Return each key as a value in a query, or None if no document can have it.

        Args:
            column: The keys, without nulls.
        """
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            return self._moments(column)
        keys = column.to_pylist()
        if self.path is not None:
            return list(map(self._comparable, keys))
        return [
            name if 0 < len(name.encode()) <= _MOST_BYTES_OF_ID else None for name in map(str, keys)
        ]

    def query(self, values: list[Any]) -> dict[str, Any]:
        """Return the query for the documents with one of some values."""
        if self.path is None:
            return {"ids": {"values": values}}
        return {"terms": {self.path: values}}

    def _comparable(self, key: Any) -> Any:
        if isinstance(key, Decimal):
            key = int(key)
        if isinstance(key, float) and not math.isfinite(key):
            return None
        return key if any(_is_possible(key, kind) for kind in self.kinds) else None

    def _moments(self, column: pa.Array) -> list[Any]:
        moments = _microseconds(column)
        near = [at for at, moment in enumerate(moments) if moment in _PYTHON]
        values = dict(zip(near, column.take(pa.array(near, pa.int64())).to_pylist(), strict=True))
        has_all = self.kinds != {"date_nanos"}
        return [
            values.get(at, self._far(moment)) if has_all or moment in _NANOSECONDS else None
            for at, moment in enumerate(moments)
        ]

    def _far(self, moment: int) -> int | None:
        """Return a moment in a year that no format can write."""
        milliseconds, rest = divmod(moment, 1000)
        return milliseconds if self.milliseconds and not rest else None


def _microseconds(column: pa.Array) -> list[int]:
    if pa.types.is_date(column.type):
        return [1000 * each for each in column.cast(pa.date64()).cast(pa.int64()).to_pylist()]
    moments = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return list(moments.to_pylist())


def _is_possible(key: Any, kind: str) -> bool:
    """Return whether the server accepts a key for a type. Any document of the type can have it."""
    if kind == "boolean":
        return isinstance(key, bool) or key in ("true", "false")
    if kind in _RANGES:
        if isinstance(key, str) and not _NUMBER.fullmatch(key):
            return False
        return int(Decimal(key)) in _RANGES[kind]
    if kind == "ip":
        return _is_address(key)
    return len(str(key).encode()) <= _MOST_BYTES_OF_TERM


def _is_address(key: Any) -> bool:
    try:
        address = ip_address(key)
    except ValueError:
        return False
    return getattr(address, "scope_id", None) is None
