# SPDX-License-Identifier: Apache-2.0
"""Keeps secrets out of stored definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from connectors_core.errors import InvalidOptionError
from connectors_core.secrets import mask_text
from connectors_core.table.references import is_reference

__all__ = ["refuse_clear_secrets"]


def refuse_clear_secrets(
    owner: str, options: Mapping[str, str], is_secret: Callable[[str], bool]
) -> None:
    """Check that the secrets of a definition are references, before it is stored.

    A value with the login or the token of a URL is a secret too.

    Args:
        owner: The object with the options, for errors, such as `catalog es`.
        options: The options.
        is_secret: Whether an option has a secret.

    Raises:
        InvalidOptionError: A secret would be stored in clear text.
    """
    for key, value in options.items():
        if (is_secret(key) or mask_text(value) != value) and not is_reference(value):
            raise InvalidOptionError(
                f"the secret of the {owner} would be stored in clear text",
                expected="a reference, such as ${env:PASSWORD} or ${file:/run/secrets/password}",
                option=key,
            )
