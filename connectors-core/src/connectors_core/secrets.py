# SPDX-License-Identifier: Apache-2.0
"""Secret values, which are masked in repr, str, format, plans, and logs."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from connectors_core.errors import InvalidOptionError
from connectors_core.masking import MASK, mask_text, mask_url

__all__ = ["MASK", "Secret", "mask_text", "mask_url", "masked", "revealed"]

_REFERENCE: Final = re.compile(r"\$\{(env|file):([^}]+)\}")
_KINDS: Final = "a text, a reference such as ${env:PASSWORD}, or a function that returns the text"

_SECRET_KEY: Final = re.compile(
    r"password|passwd|passphrase|secret|token|credential|api[_.\-]?key|access[_.\-]?key"
    r"|account[_.\-]?key|private[_.\-]?key|connection[_.\-]?string|sasl[_.\-]jaas|^key$|^pwd$",
    re.IGNORECASE,
)


class Secret:
    """A value that only an explicit call reveals.

    It is pickled *with its value*, because executors need it. Do not put it into plans, reports, or
    decisions; the JSON serializers refuse it. Driver and executor.

    Args:
        value: The secret text. `${env:NAME}` in it stands for an environment variable, and
            `${file:PATH}` for the text of a file: each call of `reveal` reads them, on the machine
            that uses the secret. Or a function that returns the text: each call of `reveal`
            calls it, so it can return another one after a login was refused.

    Raises:
        TypeError: The value is something else.
    """

    __slots__ = ("_is_plain", "_value")

    def __init__(self, value: str | Secret | Callable[[], str]) -> None:
        self._is_plain: bool = isinstance(value, Secret) and value._is_plain
        self._value: str | Callable[[], str] = value._value if isinstance(value, Secret) else value
        if not (isinstance(self._value, str) or callable(self._value)):
            raise TypeError(f"{_KINDS}, not {type(value).__name__}")

    @classmethod
    def plain(cls, text: str) -> Secret:
        """Return a secret whose text has no references, even if it looks as if it had some.

        Args:
            text: The secret text.
        """
        made = cls(text)
        made._is_plain = True
        return made

    @property
    def varies(self) -> bool:
        """Whether a later call of `reveal` can return another text."""
        return not isinstance(self._value, str) or (
            not self._is_plain and _REFERENCE.search(self._value) is not None
        )

    def reveal(self) -> str:
        """Return the secret text; call it only to pass the text to a client library.

        Raises:
            InvalidOptionError: A reference cannot be read, or the function returns no text.
        """
        if isinstance(self._value, str):
            return self._value if self._is_plain else filled(self._value)
        text: object = self._value()
        if not isinstance(text, str):
            raise InvalidOptionError(
                "the function of a secret returns no text",
                expected="a text",
                found=type(text).__name__,
                hint="return the secret as text",
            )
        return text

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, format_spec: str) -> str:
        return format(MASK, format_spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        if isinstance(self._value, str) and isinstance(other._value, str):
            same = hmac.compare_digest(self._value.encode(), other._value.encode())
            return same and self._is_plain == other._is_plain
        return self._value is other._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> tuple[Any, ...]:
        return Secret.plain if self._is_plain else Secret, (self._value,)


def is_reference(value: str) -> bool:
    """Return whether a value is a reference, such as `${env:PASSWORD}`."""
    return _REFERENCE.fullmatch(value) is not None


def has_reference(value: str) -> bool:
    """Return whether a value contains a reference, so that only its use can check it."""
    return _REFERENCE.search(value) is not None


def filled(text: str, option: str | None = None) -> str:
    """Replace `${env:NAME}` by an environment variable, and `${file:PATH}` by a file's text.

    Args:
        text: The value of an option.
        option: The key of the option, for errors.

    Raises:
        InvalidOptionError: The variable or the file does not exist.
    """
    return _REFERENCE.sub(lambda found: _read(found[1], found[2], option), text)


def _read(kind: str, name: str, option: str | None) -> str:
    if kind == "env":
        value = os.environ.get(name)
        if value is None:
            raise _missing(f"the environment variable {name}", option)
        return value
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\n")
    except OSError as error:
        raise _missing(f"the file {name}", option) from error
    except UnicodeDecodeError:  # it holds the bytes, which can be a secret
        raise _missing(f"the file {name}", option) from None


def _missing(what: str, option: str | None) -> InvalidOptionError:
    owner = "a secret" if option is None else repr(option)
    return InvalidOptionError(
        f"the value of {owner} is in {what}, which cannot be read",
        expected=what,
        option=option,
        hint=f"create {what} on each machine that uses the value: the driver, and for a secret "
        "also the executors",
    )


def revealed(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a mapping for a client library, with secrets and references as text.

    Args:
        mapping: For example, the storage options of a file system. It may be nested.

    Raises:
        InvalidOptionError: A reference cannot be read.
    """
    return {key: _revealed(value, key) for key, value in mapping.items()}


def _revealed(value: Any, key: str) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, str):
        return filled(value, key)
    return revealed(value) if isinstance(value, Mapping) else value


def masked(mapping: Mapping[str, Any], options: Iterable[str] = ()) -> dict[str, Any]:
    """Return a masked copy of a mapping, which may be shown.

    It masks the named keys, `Secret` values, keys with telling names (`password`, `token`,
    `access_key`, ...), and passwords in URLs, also in nested mappings and lists.

    Args:
        mapping: Options of a user, or storage options of a file system.
        options: Keys that are declared secret (`OptionSet.secret_keys`).

    Returns:
        A new dict with `******` in place of secrets.
    """
    secret_keys = frozenset(options)
    return {
        key: MASK
        if value is not None and (key in secret_keys or _SECRET_KEY.search(str(key)))
        else _masked_value(value, secret_keys)
        for key, value in mapping.items()
    }


def _masked_value(value: Any, secret_keys: frozenset[str]) -> Any:
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, Mapping):
        return masked(value, secret_keys)
    if isinstance(value, (list, tuple)):
        shown = [_masked_value(item, secret_keys) for item in value]
        return tuple(shown) if isinstance(value, tuple) else shown
    return value
