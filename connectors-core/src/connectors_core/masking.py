# SPDX-License-Identifier: Apache-2.0
"""Masks the secrets of URLs in texts."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["MASK", "mask_text", "mask_url"]

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
