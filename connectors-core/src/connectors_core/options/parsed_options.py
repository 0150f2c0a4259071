# SPDX-License-Identifier: Apache-2.0
"""Parsed options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from connectors_core.errors import MissingOptionError
from connectors_core.secrets import masked

if TYPE_CHECKING:
    from connectors_core.options.declaration import Option

__all__ = ["Options"]

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """Parsed options: frozen, typed by their declarations, safe to show, and picklable.

    `options[OPTION]` returns the value, or raises `MissingOptionError` if there is neither a value
    nor a default. `options.get(OPTION)` returns None in that case.

    Attributes:
        values: Canonical values by key, defaults included.
        given: Keys that were set and not defaulted.
        secret_keys: Keys whose values are masked.
        scope: What was configured, for messages.
        prefix: Precedes the keys of the options that are read; see `below`.
    """

    values: Mapping[str, Any] = field(repr=False)
    given: frozenset[str] = frozenset()
    secret_keys: frozenset[str] = frozenset()
    scope: str | None = None
    prefix: str = ""

    def __getitem__(self, option: Option[T]) -> T:
        value = self.get(option)
        if value is None:
            raise MissingOptionError(self.prefix + option.key, doc=option.doc, scope=self.scope)
        return value

    def get(self, option: Option[T]) -> T | None:
        """Return the value of an option, its default, or None without one."""
        value: T | None = self.values.get(self.prefix + option.key, option.fallback)
        return value

    def is_given(self, option: Option[Any]) -> bool:
        """Return whether the option was set and not defaulted."""
        return self.prefix + option.key in self.given

    def below(self, prefix: str) -> Options:
        """Return a view of the options whose keys start with a prefix, read without it."""
        return replace(self, prefix=self.prefix + prefix)

    def describe(self) -> dict[str, Any]:
        """Return all values and defaults, masked, for logs and lineage."""
        present = {key: value for key, value in self.values.items() if value is not None}
        return masked(present, self.secret_keys)

    def __repr__(self) -> str:
        return f"Options({self.describe()!r})"
