# SPDX-License-Identifier: Apache-2.0
"""Values that must not be seen: masked in repr, str, format, plans and logs."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["MASK", "Secret", "mask_text", "mask_url", "masked"]

MASK: Final = "******"
"""What is shown in the place of a secret."""

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
    """A value that shows itself only when it is asked to by name.

    It pickles *with its value*, because it has to reach the executors; it must not be put into
    plans, reports or decisions, and the JSON serializers refuse it. Driver and executor.

    Args:
        value: The secret text.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str | Secret) -> None:
        self._value: str = value._value if isinstance(value, Secret) else value

    def reveal(self) -> str:
        """Return the secret text; call it only where it is handed to the client library."""
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
    """Scrub user information and secret query parameters from all URLs within a text.

    Args:
        text: Any text, for example a message of a client library.

    Returns:
        The text with `******` in their place. Text without URLs comes back unchanged.
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
    """Scrub user information and secret query parameters from a URL.

    Args:
        url: A URL such as `https://user:<password>@host/path?token=<token>`.

    Returns:
        The URL as it may be shown, e.g. `https://******@host/path?token=******`.
    """
    return mask_text(url)


def masked(mapping: Mapping[str, Any], options: Iterable[str] = ()) -> dict[str, Any]:
    """Return a copy of a mapping that may be shown.

    Masked are the named keys, values that are a `Secret`, keys whose name says that they hold one
    (`password`, `token`, `access_key`, ...) and passwords in URLs; nested mappings and lists too.

    Args:
        mapping: Options as a user gave them, or storage options of a filesystem.
        options: Keys that are secret by declaration (`OptionSet.secret_keys`).

    Returns:
        A new dict with `******` in place of what must not be seen.
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
