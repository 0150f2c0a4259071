# SPDX-License-Identifier: Apache-2.0
"""Options of file systems on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from connectors_core.errors import InvalidOptionError

__all__ = ["parse_storage_options"]


def parse_storage_options(given: Sequence[str] | None) -> dict[str, Any]:
    """Return the options of a file system from texts such as `anon=true`.

    Args:
        given: The values of `--storage-option`, each `KEY=VALUE`. A value that is JSON is read as
            JSON, and any other value is a text.

    Raises:
        InvalidOptionError: A text has no key or no equals sign. The error does not show it, because
            it can be a secret.
    """
    options: dict[str, Any] = {}
    for each in given or ():
        key, found, value = each.partition("=")
        if not (key and found):
            raise InvalidOptionError(
                "a storage option needs a value",
                expected="--storage-option KEY=VALUE",
                option="--storage-option",
            )
        try:
            options[key] = orjson.loads(value)
        except orjson.JSONDecodeError:
            options[key] = value
    return options
