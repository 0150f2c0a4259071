# SPDX-License-Identifier: Apache-2.0
"""The declaration of one option."""

from __future__ import annotations

import builtins
import copy
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Self, TypeVar, cast

from connectors_core.annotations import deprecated
from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.options.bounds import Bound
from connectors_core.options.parsed_options import Options
from connectors_core.options.setting import Setting
from connectors_core.options.types import JSON_MAP, OptionType, type_of
from connectors_core.secrets import MASK, Secret

T = TypeVar("T")

__all__ = ["Option", "option", "option_like"]

PREFIX_MARK: Final = ".*"
SUFFIX_MARK: Final = "*."
_KEY: Final = re.compile(r"[a-z][a-z0-9_\-]*(\.[a-z0-9_\-]+)*(\.\*)?")
_REQUIRED: Final[Any] = object()


@dataclass(frozen=True)
class Option(Setting[T, Any]):
    """One option of a connector; in a `Configured` class also a keyword and an attribute.

    Args:
        key: Lowercase dotted key, such as `scan.startup.mode`. A key ending in `.*` collects all
            keys below it into one map. For example, `properties.*` also accepts a whole map under
            `properties`. Keys are case-insensitive, like Spark's options.
        type: A Python type (`bool`, `int`, `float`, `str`, `timedelta`, `dict`, `Secret`, an
            `Enum`) or an `OptionType` (`DURATION`, `MEMORY_SIZE`, `JSON_MAP`, `list_of(...)`).
        default: The default; None means that there is none.
        doc: One or two sentences for users.
        secret: Whether the value is masked when shown; always true for the type `Secret`.
        since: Version of the package that introduced it there.
        required: It must be given.
        choices: The allowed values; empty allows all.
        unit: The unit of a number, e.g. `rows`. Values of durations and sizes include the unit.
        validator: Takes the value; returns None, or a description of the expected value. Tables
            show a `Bound`.
        aliases: Names of the same option in other systems; only used for suggestions.
        deprecated_keys: Former keys; they still work and warn.
        origin: Key of the declaration that `option_like` changed, if it has another key.

    Raises:
        ConfigurationError: If the declaration itself is invalid.
    """

    key: str
    type: builtins.type[T] | OptionType[T]
    default: T | None = field(default=None, kw_only=True)
    doc: str = field(kw_only=True)
    secret: bool = field(default=False, kw_only=True)
    since: str | None = field(default=None, kw_only=True)
    required: bool = field(default=False, kw_only=True)
    choices: tuple[T, ...] = field(default=(), kw_only=True)
    unit: str | None = field(default=None, kw_only=True)
    validator: Callable[[T], str | None] | None = field(default=None, kw_only=True)
    aliases: tuple[str, ...] = field(default=(), kw_only=True)
    deprecated_keys: tuple[str, ...] = field(default=(), kw_only=True)
    origin: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ConfigurationError(
                f"the option key {self.key!r} is malformed",
                expected="lower-case words joined by dots, such as 'scan.startup.mode'",
            )
        if self.required and self.default is not None:
            raise ConfigurationError(f"the required option {self.key!r} cannot have a default")
        if self.is_prefix and self._type.name != JSON_MAP.name:
            raise ConfigurationError(
                f"the option {self.key!r} collects a map, so its type must be dict"
            )
        if self.type is Secret:
            object.__setattr__(self, "secret", True)

    @property
    def is_prefix(self) -> bool:
        """Whether it collects all keys below its own into a map."""
        return self.key.endswith(PREFIX_MARK)

    @property
    def type_name(self) -> str:
        """The name of the type in the documentation."""
        return self._type.name

    @property
    def allowed(self) -> tuple[str, ...]:
        """The allowed values as text; empty if they cannot be listed."""
        values: Iterable[Any] = self.choices
        if not values and isinstance(self.type, builtins.type) and issubclass(self.type, Enum):
            values = self.type
        return tuple(self.show(value) or "" for value in values)

    @property
    def bounds(self) -> str | None:
        """The bounds of its values as text; None if it has none."""
        return self.validator.text if isinstance(self.validator, Bound) else None

    @property
    def options(self) -> tuple[Option[Any], ...]:
        """The option itself."""
        return (self,)

    @property
    def keywords(self) -> dict[str, str]:
        """Its keyword, by its key."""
        return {self.key: self.keyword}

    @property
    def fallback(self) -> Any:
        """Return the default."""
        return {} if self.is_prefix and self.default is None else self.default

    @property
    def _type(self) -> OptionType[T]:
        return type_of(self.type)

    def introduced(self, since: str, *, again: bool) -> Self:
        """Return a copy with the version that introduced it."""
        made = copy.copy(self)
        object.__setattr__(made, "since", since if again else self.since or since)
        return made

    @deprecated(since="1.1.0", removal="2.0.0", instead="introduced")
    def introduce(self, since: str) -> None:
        """Set the version that introduced it, unless it has one."""
        object.__setattr__(self, "since", self.since or since)

    def parse(self, value: object) -> T:
        """Validate a string or a Python value and return its canonical form.

        Raises:
            InvalidOptionError: If it has the wrong type or is not allowed.
        """
        return self._checked(self._type.parse, value)

    def accept(self, value: object) -> T:
        """Validate the value of a keyword and return its canonical form."""
        return self._checked(self._type.accept or self._type.parse, value)

    def takes(self, value: object) -> bool:
        """Return whether a keyword's value counts as given; None usually does not."""
        return value is not None or self._type.takes_none

    def of(self, options: Options) -> Any:
        """Its value among parsed options."""
        return options[self] if self.required else options.get(self)

    def show(self, value: T | None) -> str | None:
        """Return the value as text, with a secret masked."""
        if value is None:
            return None
        return MASK if self.secret else self._type.show(value)

    def shown(self, value: Any) -> str:
        """Return the value for `repr`, with a secret masked."""
        if isinstance(value, Enum):
            return repr(self.show(cast(Any, value)))
        return MASK if self.secret else super().shown(value)

    def _checked(self, parse: Callable[[Any], T], value: object) -> T:
        try:
            parsed = parse(value)
        except (ValueError, TypeError) as exc:
            raise self._refusal(value, str(exc)) from (None if self.secret else exc)
        if parsed is None:
            return parsed
        if self.choices and parsed not in self.choices:
            raise self._refusal(value, f"one of {', '.join(self.allowed)}")
        expected = self.validator(parsed) if self.validator is not None else None
        if expected is not None:
            raise self._refusal(value, expected)
        return parsed

    def _refusal(self, value: object, expected: str) -> InvalidOptionError:
        return InvalidOptionError(
            f"the value of {self.key!r} cannot be used",
            expected=expected,
            found=self._found(value),
            option=self.key,
            hint=self.doc or None,
        )

    def _found(self, value: object) -> str:
        """Describe a wrong value, without secrets. The values of a map can be secrets."""
        hidden = self.secret or isinstance(value, Secret)
        if not hidden and self._type.name == JSON_MAP.name:
            try:
                return f"a map with the keys {', '.join(map(repr, JSON_MAP.parse(value)))}"
            except (ValueError, TypeError):
                hidden = isinstance(value, (str, Collection))
        name = type(value).__name__
        return f"a {name} that is not shown" if hidden else f"{value!r} ({name})"


def option(
    key: str,
    type: builtins.type[Any] | OptionType[Any],
    *,
    default: Any = _REQUIRED,
    alias: str | None = None,
    kw_only: bool = True,
    **declared: Any,
) -> Any:
    """Declare an option in a `Configured` class, which is also a keyword and an attribute.

    Args:
        key: See `Option`.
        type: See `Option`.
        default: The default. Without one, the option is required.
        alias: The keyword, if it differs from the attribute's name.
        kw_only: False for an argument that may be positional.
        **declared: See `Option`.
    """
    required = default is _REQUIRED
    made: Option[Any] = Option(
        key, type, default=None if required else default, required=required, **declared
    )
    made.name_keyword(alias, kw_only=kw_only)
    return made


def option_like(declared: Setting[T, Any], key: str | None = None, **changes: Any) -> Option[T]:
    """Return a changed copy of an option that is declared elsewhere.

    The copy has no version, unless it is changed: the version is that of the place that reuses it.

    Args:
        declared: The option: a constant, or a setting of a `Configured` class.
        key: The new key. The key of the other declaration becomes an alias.
        **changes: See `Option`.
    """
    origin = cast(Option[T], declared)
    changes.setdefault("since", None)
    if key is not None:
        aliases = (origin.key, *changes.get("aliases", ()))
        changes |= {"key": key, "origin": origin.key, "aliases": aliases}
    made = replace(origin, **changes)
    made.name_keyword(origin.keyword, kw_only=origin.kw_only)
    return made
