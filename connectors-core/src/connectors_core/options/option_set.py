# SPDX-License-Identifier: Apache-2.0
"""A set of options that are validated together."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from connectors_core.annotations import ConnectorDeprecationWarning
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    InvalidOptionError,
    MissingOptionError,
    UnknownOptionError,
)
from connectors_core.options.declaration import PREFIX_MARK, SUFFIX_MARK, Option
from connectors_core.options.markdown import table
from connectors_core.options.parsed_options import Options
from connectors_core.options.suggestions import suggested

__all__ = ["OptionSet"]


class OptionSet:
    """The options of one source, sink, format, or table, in the order of the documentation.

    Args:
        *options: The declarations.
        scope: The configured object for messages, such as `Kafka source`.
        keywords: The Python names of options, by key.
        elsewhere: Lowercase options of other systems that do not exist here, with the alternative.
            A key that starts with `*.` or ends with `.*` stands for several.

    Raises:
        ConfigurationError: If two declarations share a key.
    """

    def __init__(
        self,
        *options: Option[Any],
        scope: str | None = None,
        keywords: Mapping[str, str] | None = None,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        self._options: dict[str, Option[Any]] = {}
        self._former: dict[str, str] = {}
        self.scope = scope
        self.keywords: Mapping[str, str] = dict(keywords or {})
        self.elsewhere: Mapping[str, str] = dict(elsewhere or {})
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
        """Keys with masked values."""
        return frozenset(option.key for option in self if option.secret)

    def check(self, key: str, value: Any) -> None:
        """Check the value of one option.

        Raises:
            InvalidOptionError: It is not valid.
        """
        found = self._find(key)
        if found is not None and not found[0].is_prefix:
            found[0].parse(value)

    def refuse_unknown(self, keys: Iterable[str]) -> None:
        """Refuse keys that are no options.

        Raises:
            UnknownOptionError: There is one.
        """
        for key in keys:
            if key not in self:
                raise self._unknown(key)

    def is_secret(self, key: str) -> bool:
        """Return whether a key is that of an option with a secret, or begins with its prefix."""
        found = self._find(key)
        return found is not None and found[0].secret

    def extended(self, *options: Option[Any], scope: str | None = None) -> OptionSet:
        """Return a new set with more options after these."""
        return OptionSet(
            *self,
            *options,
            scope=scope or self.scope,
            keywords=self.keywords,
            elsewhere=self.elsewhere,
        )

    def parse(self, mapping: Mapping[str, Any]) -> Options:
        """Validate options from a user and convert them to typed values; driver.

        None counts as not given. If several options are wrong, the first error is raised with the
        others as notes.

        Args:
            mapping: Values by key; from Spark, all are strings.

        Returns:
            The frozen options with defaults filled in.

        Raises:
            UnknownOptionError: If a key is not declared; with suggestions.
            InvalidOptionError: If a value has the wrong type, is not allowed, or is given twice,
                or if `mapping` is not a mapping.
            MissingOptionError: If a required option is missing.
        """
        if not isinstance(mapping, Mapping):
            raise InvalidOptionError(
                f"the options{f' for {self.scope}' if self.scope else ''} cannot be used",
                expected=f"a mapping, such as {{{next(iter(self.keys), 'key')!r}: ...}}",
                found=type(mapping).__name__,
            )
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
            values[option.key] = option.fallback
        if errors:
            first, *others = errors
            for other in others:
                first.add_note(str(other))
            raise first
        return Options(values=values, given=given, secret_keys=self.secret_keys, scope=self.scope)

    def suggest(self, key: str) -> tuple[str, ...]:
        """Return at most three declared keys that are similar to `key`, best first."""
        return suggested(key, self.names())

    def names(self) -> dict[str, str]:
        """Return the declared keys by all their known names."""
        names: dict[str, str] = {}
        for option in self:
            keyword = self.keywords.get(option.key, option.key)
            for name in (option.key.removesuffix(PREFIX_MARK), keyword, *option.aliases):
                names.setdefault(name, option.key)
        return names

    def instead_of(self, key: str) -> str | None:
        """Return what replaces an option of another system; None if this is unknown."""
        return _instead(self.elsewhere, key.lower())

    def markdown(self) -> str:
        """Return the table of options for the documentation, one row per option."""
        return table(self.describe())

    def describe(self) -> tuple[dict[str, Any], ...]:
        """Return the declarations as plain data, for tools; defaults of secrets are masked."""
        return tuple(
            {
                "key": option.key,
                "keyword": self.keywords.get(option.key),
                "type": option.type_name,
                "unit": option.unit,
                "bounds": option.bounds,
                "default": option.show(option.default),
                "required": option.required,
                "secret": option.secret,
                "since": option.since,
                "choices": list(option.allowed),
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
        # The longest prefix wins, so a set can have both `properties.ssl.*` and `properties.*`.
        for option in sorted(self, key=lambda each: len(each.key), reverse=True):
            stem = option.key.removesuffix("*")
            if option.is_prefix and lowered.startswith(stem) and len(key) > len(stem):
                return option, key[len(stem) :]
            if option.is_prefix and f"{lowered}." == stem:
                return option, ""
        return None

    def _unknown(self, key: str) -> UnknownOptionError:
        return UnknownOptionError(
            key,
            suggestions=self.suggest(key),
            known=self.keys,
            scope=self.scope,
            hint=self.instead_of(key),
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


def _instead(elsewhere: Mapping[str, str], key: str) -> str | None:
    """Return the alternative to an option of another system.

    A key `kafka.*` applies to all keys below it; `{rest}` in its text is the part after the
    dot. A key `*.ignore-parse-errors` applies to all keys that end like it.
    """
    if key == "connector":  # in Flink's SQL, every table has it
        return "the class names the connector; remove it"
    if key in elsewhere:
        return elsewhere[key]
    for name, hint in elsewhere.items():
        stem = name.removesuffix("*")
        if name.endswith(PREFIX_MARK) and key.startswith(stem):
            return hint.replace("{rest}", key.removeprefix(stem))
        if name.startswith(SUFFIX_MARK) and key.endswith(name.removeprefix("*")):
            return hint
    return None
