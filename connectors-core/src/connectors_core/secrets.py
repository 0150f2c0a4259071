# SPDX-License-Identifier: Apache-2.0
"""Secret values, which are masked in repr, str, format, plans, and logs."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["MASK", "Secret", "mask_text", "mask_url", "masked"]

MASK: Final = "******"
"""The text that replaces a secret."""

# In these schemes the part before `@` is the container, not a user.
_CONTAINER_SCHEMES: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
_USERINFO: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://(?P<user>[^/?#\s'\"]*)@")
_QUERY_SECRET: Final = re.compile(
    r"(?P<key>[?&;](?:[\w.\-]*(?:password|passwd|secret|token|signature|credential)[\w.\-]*"
    r"|pwd|sig|api[_\-]?key|access[_\-]?key))=(?P<value>[^&#;\s'\"]*)",
    re.IGNORECASE,
)
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
        value: The secret text.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str | Secret) -> None:
        self._value: str = value._value if isinstance(value, Secret) else value

    def reveal(self) -> str:
        """Return the secret text; call it only to pass the text to a client library."""
        return self._value

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
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._value,)


def mask_text(text: str) -> str:
    """Mask user information and secret query parameters in all URLs of a text.

    Args:
        text: Any text, for example a message of a client library.

    Returns:
        The text with `******` in place of the secrets. A text without URLs is unchanged.
    """
    if "://" not in text:
        return text

    def without_user(match: re.Match[str]) -> str:
        scheme, user = match["scheme"], match["user"]
        if scheme.lower() in _CONTAINER_SCHEMES and ":" not in user:
            return match[0]
        return f"{scheme}://{MASK}@"

    return _QUERY_SECRET.sub(rf"\g<key>={MASK}", _USERINFO.sub(without_user, text))


def mask_url(url: str) -> str:
    """Mask user information and secret query parameters in a URL.

    Args:
        url: A URL such as `https://user:<password>@host/path?token=<token>`.

    Returns:
        The masked URL, such as `https://******@host/path?token=******`.
    """
    return mask_text(url)


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
