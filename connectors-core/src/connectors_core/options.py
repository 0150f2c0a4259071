# SPDX-License-Identifier: Apache-2.0
"""Options, declared once and used for validation, documentation and "did you mean"."""

from __future__ import annotations

import builtins
import difflib
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from connectors_core.annotations import ConnectorDeprecationWarning
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    InvalidOptionError,
    MissingOptionError,
    UnknownOptionError,
)
from connectors_core.secrets import MASK, Secret, masked

__all__ = [
    "DURATION",
    "JSON_MAP",
    "MEMORY_SIZE",
    "Option",
    "OptionSet",
    "OptionType",
    "Options",
    "at_least",
    "format_duration",
    "format_memory_size",
    "list_of",
    "not_empty",
    "parse_duration",
    "parse_memory_size",
    "positive",
]

T = TypeVar("T")

_KEY: Final = re.compile(r"[a-z][a-z0-9_\-]*(\.[a-z0-9_\-]+)*(\.\*)?")
_PREFIX_MARK: Final = ".*"
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


# --- Types of values -----------------------------------------------------------------------------


@dataclass(frozen=True)
class OptionType(Generic[T]):
    """How the values of an option are read and shown.

    Args:
        name: What the documentation calls it.
        parse: Turns a string or a Python value into the canonical one; raises `ValueError` or
            `TypeError` whose message says what was expected.
        show: Turns a canonical value into the text that `parse` would read.
    """

    name: str
    parse: Callable[[Any], T]
    show: Callable[[T], str] = field(default=str)


def parse_duration(value: object) -> timedelta:
    """Read a length of time such as `5 s`, `10 min`, `1h30m` or a `timedelta`.

    Raises:
        ValueError: If it has no unit, an unknown one, or is not a length of time at all.
    """
    if isinstance(value, timedelta):
        return value
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
        raise ValueError("a duration below a thousand million days") from None


def format_duration(value: timedelta) -> str:
    """Write a length of time in its largest whole unit, e.g. `10 min`."""
    microseconds = value // timedelta(microseconds=1)
    if microseconds == 0:
        return "0 s"
    for unit in ("d", "h", "min", "s", "ms"):
        if microseconds % _MICROSECONDS[unit] == 0:
            return f"{microseconds // _MICROSECONDS[unit]} {unit}"
    return f"{microseconds} us"


def parse_memory_size(value: object) -> int:
    """Read a size such as `128mb`, `1.5 gb`, `4096` (bytes); units are powers of 1024.

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
    """Write a number of bytes in its largest whole unit, e.g. `128mb`."""
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
    if isinstance(value, (str, Secret)):
        return Secret(value)
    raise ValueError("a text")


def _parse_json_map(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise ValueError("a mapping, or a JSON object as text")


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


def _show_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, default=str)


DURATION: Final[OptionType[timedelta]] = OptionType("duration", parse_duration, format_duration)
"""A length of time; `5 s`, `10 min`, `1 d` become a `timedelta`."""
MEMORY_SIZE: Final[OptionType[int]] = OptionType(
    "memory size", parse_memory_size, format_memory_size
)
"""A number of bytes; `128mb` becomes an int."""
JSON_MAP: Final[OptionType[dict[str, Any]]] = OptionType("map", _parse_json_map, _show_json)
"""A mapping, in options of Spark given as a JSON object."""

_PLAIN_TYPES: Final[Mapping[builtins.type[Any], OptionType[Any]]] = {
    bool: OptionType("boolean", _parse_bool, _show_bool),
    int: OptionType("integer", _parse_int),
    float: OptionType("number", _parse_float),
    str: OptionType("string", _parse_str),
    timedelta: DURATION,
    dict: JSON_MAP,
    Secret: OptionType("secret", _parse_secret),
}


def list_of(item: builtins.type[T] | OptionType[T]) -> OptionType[tuple[T, ...]]:
    """Return the type of a list: a Python list or tuple, a JSON array or `a, b, c`.

    Args:
        item: The type of the elements.
    """
    inner = _resolve_type(item)

    def parse(value: object) -> tuple[T, ...]:
        if isinstance(value, str):
            text = value.strip()
            if text.startswith("["):
                try:
                    value = json.loads(text)
                except ValueError:
                    raise ValueError(f"a list of {inner.name}") from None
            else:
                value = [part.strip() for part in text.split(",") if part.strip()]
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"a list of {inner.name}, such as 'a, b'")
        return tuple(inner.parse(element) for element in value)

    def show(value: tuple[T, ...]) -> str:
        return ", ".join(inner.show(element) for element in value)

    return OptionType(f"list of {inner.name}", parse, show)


def _enum_type(kind: builtins.type[Enum]) -> OptionType[Any]:
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


def _resolve_type(kind: Any) -> OptionType[Any]:
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


# --- Validators ----------------------------------------------------------------------------------


def positive(value: Any) -> str | None:
    """Validator: the number or duration must be above zero."""
    zero: Any = timedelta(0) if isinstance(value, timedelta) else 0
    return None if value > zero else "a value above zero"


def at_least(minimum: Any) -> Callable[[Any], str | None]:
    """Validator: the value must not be below `minimum`."""

    def validate(value: Any) -> str | None:
        return None if value >= minimum else f"at least {minimum}"

    return validate


def not_empty(value: Any) -> str | None:
    """Validator: the text, list or map must hold something."""
    return None if value else "a value that is not empty"


# --- Declarations --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option of a connector.

    Args:
        key: Lower-case dotted key, e.g. `scan.startup.mode`. A key ending in `.*` gathers all
            keys below it into one map, e.g. `properties.*`, which may also be given whole under
            `properties`. Keys are matched without regard to case, because Spark's options are.
        type: A Python type (`bool`, `int`, `float`, `str`, `timedelta`, `dict`, `Secret`, an
            `Enum`) or an `OptionType` (`DURATION`, `MEMORY_SIZE`, `JSON_MAP`, `list_of(...)`).
        default: Value when it is not given; None means there is none.
        doc: One or two sentences for users.
        secret: The value is masked wherever it is shown; always so for the type `Secret`.
        since: Version that introduced it.
        required: It must be given.
        choices: Values that are allowed, all when empty.
        validator: Takes the value, returns None or says what was expected instead.
        aliases: What the same option is called in other systems; only used for suggestions.
        deprecated_keys: Former keys; they still work and warn.

    Raises:
        ConfigurationError: If the declaration itself is wrong.
    """

    key: str
    type: builtins.type[T] | OptionType[T]
    default: T | None = field(default=None, kw_only=True)
    doc: str = field(kw_only=True)
    secret: bool = field(default=False, kw_only=True)
    since: str | None = field(default=None, kw_only=True)
    required: bool = field(default=False, kw_only=True)
    choices: tuple[T, ...] = field(default=(), kw_only=True)
    validator: Callable[[T], str | None] | None = field(default=None, kw_only=True)
    aliases: tuple[str, ...] = field(default=(), kw_only=True)
    deprecated_keys: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ConfigurationError(
                f"the option key {self.key!r} is malformed",
                expected="lower-case words joined by dots, such as 'scan.startup.mode'",
            )
        if self.required and self.default is not None:
            raise ConfigurationError(f"the required option {self.key!r} cannot have a default")
        if self.is_prefix and self._type.name != JSON_MAP.name:
            raise ConfigurationError(f"the option {self.key!r} gathers a map: its type is dict")
        if self.type is Secret:
            object.__setattr__(self, "secret", True)

    @property
    def is_prefix(self) -> bool:
        """Whether it gathers all keys below its own into a map."""
        return self.key.endswith(_PREFIX_MARK)

    @property
    def type_name(self) -> str:
        """The type as the documentation calls it."""
        return self._type.name

    @property
    def _type(self) -> OptionType[T]:
        return _resolve_type(self.type)

    def parse(self, value: object) -> T:
        """Turn a string or a Python value into the canonical one and check it.

        Raises:
            InvalidOptionError: If it has the wrong type or is not allowed.
        """
        kind = self._type
        try:
            parsed = kind.parse(value)
        except (ValueError, TypeError) as exc:
            raise self._refusal(value, str(exc)) from (None if self.secret else exc)
        if self.choices and parsed not in self.choices:
            shown = ", ".join(kind.show(choice) for choice in self.choices)
            raise self._refusal(value, f"one of {shown}")
        expected = self.validator(parsed) if self.validator is not None else None
        if expected is not None:
            raise self._refusal(value, expected)
        return parsed

    def show(self, value: T | None) -> str | None:
        """Return the value as text that may be shown; a secret is masked."""
        if value is None:
            return None
        return MASK if self.secret else self._type.show(value)

    def _refusal(self, value: object, expected: str) -> InvalidOptionError:
        if self.secret or isinstance(value, Secret):
            found = f"a {type(value).__name__} that is not shown"
        else:
            found = f"{value!r} ({type(value).__name__})"
        return InvalidOptionError(
            f"the value of {self.key!r} cannot be used",
            expected=expected,
            found=found,
            option=self.key,
            hint=self.doc or None,
        )


@dataclass(frozen=True)
class Options:
    """Parsed options: frozen, typed by their declarations, safe to show, able to be pickled.

    `options[OPTION]` gives the value and raises `MissingOptionError` where there is neither value
    nor default; `options.get(OPTION)` gives None there.

    Attributes:
        values: Canonical values by key, defaults included.
        given: Keys that were set and not defaulted.
        secret_keys: Keys whose values are masked.
        scope: What was configured, for messages.
    """

    values: Mapping[str, Any] = field(repr=False)
    given: frozenset[str] = frozenset()
    secret_keys: frozenset[str] = frozenset()
    scope: str | None = None

    def __getitem__(self, option: Option[T]) -> T:
        value = self.get(option)
        if value is None:
            raise MissingOptionError(option.key, doc=option.doc, scope=self.scope)
        return value

    def get(self, option: Option[T]) -> T | None:
        """Return the value of an option, its default, or None where it has none."""
        value: T | None = self.values.get(option.key, option.default)
        return value

    def is_given(self, option: Option[Any]) -> bool:
        """Return whether the option was set and not defaulted."""
        return option.key in self.given

    def describe(self) -> dict[str, Any]:
        """Return all values that are set or have a default, masked, for logs and lineage."""
        present = {key: value for key, value in self.values.items() if value is not None}
        return masked(present, self.secret_keys)

    def __repr__(self) -> str:
        return f"Options({self.describe()!r})"


class OptionSet:
    """The options of one source, sink, format or table, in the order they are documented.

    Args:
        *options: The declarations.
        scope: What they configure, for messages, e.g. `kafka source`.

    Raises:
        ConfigurationError: If two declarations share a key.
    """

    def __init__(self, *options: Option[Any], scope: str | None = None) -> None:
        self._options: dict[str, Option[Any]] = {}
        self._former: dict[str, str] = {}
        self.scope = scope
        for option in options:
            for key in (option.key, *(former.lower() for former in option.deprecated_keys)):
                if key in self._options or key in self._former:
                    raise ConfigurationError(f"the option {key!r} is declared twice")
            self._options[option.key] = option
            self._former.update({former.lower(): option.key for former in option.deprecated_keys})

    def __iter__(self) -> Iterator[Option[Any]]:
        return iter(self._options.values())

    def __len__(self) -> int:
        return len(self._options)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(key) is not None

    @property
    def keys(self) -> tuple[str, ...]:
        """All declared keys, in order."""
        return tuple(self._options)

    @property
    def secret_keys(self) -> frozenset[str]:
        """Keys whose values are masked."""
        return frozenset(option.key for option in self if option.secret)

    def extended(self, *options: Option[Any], scope: str | None = None) -> OptionSet:
        """Return a new set with more options behind these."""
        return OptionSet(*self, *options, scope=scope or self.scope)

    def parse(self, mapping: Mapping[str, Any]) -> Options:
        """Check options as a user gave them and turn them into typed values; driver.

        A value of None counts as not given. Where several options are wrong the first is raised
        and the others are added to it as notes.

        Args:
            mapping: Values by key; Spark gives all of them as strings.

        Returns:
            The frozen options with defaults filled in.

        Raises:
            UnknownOptionError: If a key is not declared, with what may have been meant.
            InvalidOptionError: If a value has the wrong type, is not allowed or is given twice.
            MissingOptionError: If a required option is not given.
        """
        errors: list[ConnectorError] = []
        values: dict[str, Any] = {}
        below: dict[str, dict[str, Any]] = {}
        for given_key, value in mapping.items():
            if value is None:
                continue
            found = self._find(given_key)
            if found is None:
                errors.append(self._unknown(given_key))
                continue
            option, rest = found
            try:
                if not option.is_prefix:
                    _put(values, option, option.key, option.parse(value))
                elif rest:
                    _put(below.setdefault(option.key, {}), option, rest, value)
                else:
                    for name, each in option.parse(value).items():
                        _put(below.setdefault(option.key, {}), option, name, each)
            except InvalidOptionError as exc:
                errors.append(exc)
        for key, gathered in below.items():
            try:
                values[key] = self._options[key].parse(gathered)
            except InvalidOptionError as exc:
                errors.append(exc)
        given = frozenset(values)
        refused = {error.option for error in errors}
        for option in self:
            if option.key in values or option.key in refused:
                continue
            if option.required:
                errors.append(MissingOptionError(option.key, doc=option.doc, scope=self.scope))
            empty: Any = {} if option.is_prefix else None
            values[option.key] = empty if option.default is None else option.default
        if errors:
            first, *others = errors
            for other in others:
                first.add_note(str(other))
            raise first
        return Options(values=values, given=given, secret_keys=self.secret_keys, scope=self.scope)

    def suggest(self, key: str) -> tuple[str, ...]:
        """Return at most three declared keys that may have been meant by `key`, best first."""
        wanted = _letters(key)
        names: dict[str, str] = {}
        for option in self:
            for name in (option.key.removesuffix(_PREFIX_MARK), *option.aliases):
                names.setdefault(_letters(name), option.key)
        best = [names[wanted]] if wanted in names else []
        best += [names[name] for name in difflib.get_close_matches(wanted, names, 3, 0.7)]
        return tuple(dict.fromkeys(best))[:3]

    def markdown(self) -> str:
        """Return the table of options for the documentation, one row per option."""
        lines = [
            "| Option | Type | Default | Since | Description |",
            "| --- | --- | --- | --- | --- |",
        ]
        for row in self.describe():
            default = {None: "(none)", "": "(empty)"}.get(row["default"], f"`{row['default']}`")
            doc = row["doc"] + (f" One of: {', '.join(row['choices'])}." if row["choices"] else "")
            cells = (
                f"`{row['key']}`",
                row["type"],
                "**required**" if row["required"] else default,
                row["since"] or "",
                doc,
            )
            lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
        return "\n".join(lines) + "\n"

    def describe(self) -> tuple[dict[str, Any], ...]:
        """Return the declarations as plain data, for tools; defaults of secrets are masked."""
        return tuple(
            {
                "key": option.key,
                "type": option.type_name,
                "default": option.show(option.default),
                "required": option.required,
                "secret": option.secret,
                "since": option.since,
                "choices": _choices(option),
                "aliases": list(option.aliases),
                "deprecated_keys": list(option.deprecated_keys),
                "doc": option.doc,
            }
            for option in self
        )

    def _find(self, key: str) -> tuple[Option[Any], str] | None:
        lowered = key.lower()
        option = self._options.get(lowered)
        if option is not None and not option.is_prefix:
            return option, ""
        if lowered in self._former:
            current = self._former[lowered]
            warnings.warn(
                ConnectorDeprecationWarning(
                    f"the option {key!r} is deprecated; use {current!r} instead"
                ),
                stacklevel=4,
            )
            return self._options[current], ""
        # The longest prefix wins, so that `properties.ssl.*` may stand beside `properties.*`.
        for option in sorted(self, key=lambda each: len(each.key), reverse=True):
            stem = option.key.removesuffix("*")
            if option.is_prefix and lowered.startswith(stem) and len(key) > len(stem):
                return option, key[len(stem) :]
            if option.is_prefix and f"{lowered}." == stem:
                return option, ""
        return None

    def _unknown(self, key: str) -> UnknownOptionError:
        return UnknownOptionError(
            key, suggestions=self.suggest(key), known=self.keys, scope=self.scope
        )


def _put(target: dict[str, Any], option: Option[Any], name: str, value: object) -> None:
    if name in target:
        raise InvalidOptionError(
            f"the option {option.key!r} is given twice",
            expected="one spelling of each key",
            found=f"{name!r} more than once",
            option=option.key,
            hint="keep one of them",
        )
    target[name] = value


def _choices(option: Option[Any]) -> list[str]:
    if option.choices:
        return [option.show(choice) or "" for choice in option.choices]
    if isinstance(option.type, type) and issubclass(option.type, Enum):
        members: Iterable[Enum] = option.type
        return [option.show(member) or "" for member in members]
    return []


def _letters(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
