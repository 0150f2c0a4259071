# SPDX-License-Identifier: Apache-2.0
"""Values of options that are read where they are used, so that no definition has a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from connectors_core.errors import InvalidOptionError

__all__ = ["has_reference", "is_reference", "resolved"]

_REFERENCE: Final = re.compile(r"\$\{(env|file):([^}]+)\}")


def is_reference(value: str) -> bool:
    """Return whether a value is a reference, such as `${env:PASSWORD}`."""
    return _REFERENCE.fullmatch(value) is not None


def has_reference(value: str) -> bool:
    """Return whether a value contains a reference, so that only its use can check it."""
    return _REFERENCE.search(value) is not None


def resolved(options: Mapping[str, str]) -> dict[str, str]:
    """Replace `${env:NAME}` by an environment variable, and `${file:PATH}` by a file's text.

    Raises:
        InvalidOptionError: The variable or the file does not exist.
    """

    def filled(key: str, value: str) -> str:
        return _REFERENCE.sub(lambda found: _value(key, found[1], found[2]), value)

    return {key: filled(key, value) for key, value in options.items()}


def _value(key: str, kind: str, name: str) -> str:
    if kind == "env":
        value = os.environ.get(name)
        if value is None:
            raise _missing(key, f"the environment variable {name}")
        return value
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\n")
    except OSError as error:
        raise _missing(key, f"the file {name}") from error
    except UnicodeDecodeError:  # it holds the bytes, which can be a secret
        raise _missing(key, f"the file {name}") from None


def _missing(key: str, what: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"the value of {key!r} is in {what}, which cannot be read", expected=what, option=key
    )
