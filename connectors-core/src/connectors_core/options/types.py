# SPDX-License-Identifier: Apache-2.0
"""Types of option values: their parsing and display."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from connectors_core.errors import ConfigurationError
from connectors_core.secrets import Secret

__all__ = [
    "DURATION",
    "JSON_MAP",
    "MEMORY_SIZE",
    "REGEX",
    "OptionType",
    "format_duration",
    "format_memory_size",
    "list_of",
    "optional",
    "parse_duration",
    "parse_memory_size",
    "type_of",
]

T = TypeVar("T")

_QUANTITY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})

_MICROSECONDS: Final[Mapping[str, int]] = {
    unit: factor
    for units, factor in (
        ("us micro micros microsecond microseconds", 1),
        ("ms milli millis millisecond milliseconds", 1_000),
        ("s sec secs second seconds", 1_000_000),
        ("m min mins minute minutes", 60_000_000),
        ("h hour hours", 3_600_000_000),
        ("d day days", 86_400_000_000),
        ("w week weeks", 604_800_000_000),
    )
    for unit in units.split()
}
_BYTES: Final[Mapping[str, int]] = {
    unit: 1024**power
    for power, units in enumerate(
        ("b byte bytes", "k kb kib", "m mb mib", "g gb gib", "t tb tib", "p pb pib")
    )
    for unit in units.split()
}


@dataclass(frozen=True)
class OptionType(Generic[T]):
    """The parsing and display of an option's values.

    Args:
        name: Its name in the documentation.
        parse: Converts a string or a Python value to the canonical form. Raises `ValueError` or
            `TypeError` with a message that describes valid values.
        show: Converts a canonical value to text that `parse` can read.
        accept: The equivalent of `parse` for the value of a keyword, if that differs.
        takes_none: Whether None is a value instead of a missing one.
    """

    name: str
    parse: Callable[[Any], T]
    show: Callable[[T], str] = field(default=str)
    accept: Callable[[Any], T] | None = field(default=None, kw_only=True)
    takes_none: bool = field(default=False, kw_only=True)


def parse_duration(value: object) -> timedelta:
    """Parse a duration such as `5 s`, `10 min`, `1h30m`, or a `timedelta`.

    Raises:
        ValueError: If it is not a duration, or has no unit or an unknown one.
    """
    if isinstance(value, timedelta):
        return value
    if value == "0":
        return timedelta(0)
    wanted = "a duration with a unit, such as '500 ms', '5 s', '10 min', '2 h' or '1 d'"
    if not isinstance(value, str) or not value.strip():
        raise ValueError(wanted)
    total = 0
    at = 0
    while at < len(value):
        match = _QUANTITY.match(value, at)
        factor = _MICROSECONDS.get(match[2].lower()) if match else None
        if match is None or factor is None:
            raise ValueError(wanted)
        total += round(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor
        at = match.end()
    try:
        return timedelta(microseconds=total)
    except OverflowError:
        raise ValueError("a duration below a billion days") from None


def format_duration(value: timedelta) -> str:
    """Format a duration in its largest whole unit, such as `10 min`."""
    microseconds = value // timedelta(microseconds=1)
    if microseconds == 0:
        return "0 s"
    for unit in ("d", "h", "min", "s", "ms"):
        if microseconds % _MICROSECONDS[unit] == 0:
            return f"{microseconds // _MICROSECONDS[unit]} {unit}"
    return f"{microseconds} us"


def parse_memory_size(value: object) -> int:
    """Parse a size such as `128mb`, `1.5 gb`, or `4096` (bytes); units are powers of 1024.

    Returns:
        The size in bytes.

    Raises:
        ValueError: If it is not a size.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    factor = _BYTES.get(match[2].lower() or "b") if match else None
    if match is None or factor is None:
        raise ValueError("a size such as '64kb', '128mb', '1.5gb' or a number of bytes")
    return round(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor


def format_memory_size(value: int) -> str:
    """Format a number of bytes in its largest whole unit, such as `128mb`."""
    for unit in ("pb", "tb", "gb", "mb", "kb"):
        if value and value % _BYTES[unit] == 0:
            return f"{value // _BYTES[unit]}{unit}"
    return str(value)


def _parse_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError("true or false")


def _parse_int(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    raise ValueError("a whole number")


def _parse_float(value: object) -> float:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise ValueError("a finite number")


def _parse_str(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    raise ValueError("a text")


def _parse_secret(value: object) -> Secret:
    return Secret(value)  # type: ignore[arg-type]  # it refuses all other values


def _parse_json_map(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise ValueError("a mapping, or a JSON object as text")


def _parse_regex(value: Any) -> str:
    try:
        return str(re.compile(value).pattern)
    except (re.error, TypeError) as exc:
        raise ValueError(f"a regular expression ({exc})") from exc


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


def _show_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, default=str)


DURATION: Final[OptionType[timedelta]] = OptionType("duration", parse_duration, format_duration)
"""A duration; `5 s`, `10 min`, or `1 d` become a `timedelta`."""
MEMORY_SIZE: Final[OptionType[int]] = OptionType(
    "memory size", parse_memory_size, format_memory_size
)
"""A number of bytes; `128mb` becomes an int."""
JSON_MAP: Final[OptionType[dict[str, Any]]] = OptionType("map", _parse_json_map, _show_json)
"""A mapping; in Spark's options, a JSON object."""
REGEX: Final[OptionType[str]] = OptionType("string", _parse_regex)
"""A regular expression of Python, as text."""

_PLAIN_TYPES: Final[Mapping[type[Any], OptionType[Any]]] = {
    bool: OptionType("boolean", _parse_bool, _show_bool),
    int: OptionType("integer", _parse_int),
    float: OptionType("number", _parse_float),
    str: OptionType("string", _parse_str),
    timedelta: DURATION,
    dict: JSON_MAP,
    Secret: OptionType("secret", _parse_secret),
}


# An address such as `[::1]:9092`, which begins like a JSON array.
_IPV6: Final = re.compile(r"\[[0-9A-Fa-f.]*:")


def list_of(item: type[T] | OptionType[T], *, separator: str = ",") -> OptionType[tuple[T, ...]]:
    """Return the type of a list: a Python list or tuple, a JSON array, `a, b, c`, or one element.

    Args:
        item: The type of the elements.
        separator: One or more characters, any of which separates the elements of a text.
    """
    inner = type_of(item)
    between = re.compile(f"[{re.escape(separator)}]")

    def parse(value: object) -> tuple[T, ...]:
        if isinstance(value, str):
            text = value.strip()
            if text.startswith("[") and not _IPV6.match(text):
                try:
                    value = json.loads(text)
                except ValueError:
                    raise ValueError(f"a list of {inner.name}s") from None
            else:
                value = [part.strip() for part in between.split(text) if part.strip()]
        elif isinstance(value, os.PathLike | Enum):
            value = [value]
        if not isinstance(value, Iterable) or isinstance(value, bytes | Mapping):
            raise ValueError(f"a list of {inner.name}s, such as 'a{separator[0]} b'")
        return tuple(inner.parse(element) for element in value)

    def show(value: tuple[T, ...]) -> str:
        return f"{separator[0]} ".join(inner.show(element) for element in value)

    return OptionType(f"list of {inner.name}s", parse, show)


def optional(kind: type[T] | OptionType[T], *, off: str | None = None) -> OptionType[T | None]:
    """Return the type of an option that has a default and that None turns off.

    Args:
        kind: The type of the value.
        off: A text that also turns it off.
    """
    inner = type_of(kind)
    none = None if off is None else inner.parse(off)

    def parse(value: object) -> T | None:
        parsed = None if value is None else inner.parse(value)
        return None if parsed == none else parsed

    def show(value: T | None) -> str:
        return str(off) if value is None else inner.show(value)

    return OptionType(inner.name, parse, show, takes_none=True)


def _enum_type(kind: type[Enum]) -> OptionType[Any]:
    def plain(text: object) -> str:
        return str(text).strip().lower().replace("_", "-")

    members = {plain(member.name): member for member in kind}
    members.update({plain(member.value): member for member in kind})
    shown = {member: plain(member.value) for member in kind}

    def parse(value: object) -> Enum:
        if isinstance(value, kind):
            return value
        found = members.get(plain(value)) if isinstance(value, str) else None
        if found is None:
            raise ValueError("one of " + ", ".join(shown.values()))
        return found

    return OptionType("enum", parse, lambda member: shown[member])


def type_of(kind: Any) -> OptionType[Any]:
    """Return the option type for the type in a declaration.

    Raises:
        ConfigurationError: The type is not supported.
    """
    if isinstance(kind, OptionType):
        return kind
    if kind in _PLAIN_TYPES:
        return _PLAIN_TYPES[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum_type(kind)
    raise ConfigurationError(
        f"an option cannot have the type {kind!r}",
        expected="bool, int, float, str, timedelta, dict, Secret, an Enum or an OptionType",
    )
