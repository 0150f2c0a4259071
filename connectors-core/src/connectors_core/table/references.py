# SPDX-License-Identifier: Apache-2.0
"""Values of options that are read where they are used, so that no definition has a secret."""

from __future__ import annotations

from collections.abc import Mapping

from connectors_core.secrets import filled, has_reference, is_reference

__all__ = ["has_reference", "is_reference", "resolved"]


def resolved(options: Mapping[str, str]) -> dict[str, str]:
    """Replace `${env:NAME}` by an environment variable, and `${file:PATH}` by a file's text.

    Raises:
        InvalidOptionError: The variable or the file does not exist.
    """
    return {key: filled(value, key) for key, value in options.items()}
