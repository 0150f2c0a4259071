# SPDX-License-Identifier: Apache-2.0
"""Finds what packages register as entry points, by the option that names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata
from typing import Any

from connectors_core.errors import InvalidOptionError, MissingOptionError
from connectors_core.options.suggestions import suggested

__all__ = ["registered", "registered_names"]


@cache
def _entry_points(group: str) -> Mapping[str, metadata.EntryPoint]:
    return {each.name: each for each in metadata.entry_points(group=group)}


def registered_names(group: str) -> tuple[str, ...]:
    """Return the identifiers that installed packages register in a group of entry points."""
    return tuple(sorted(_entry_points(group)))


def registered(
    group: str,
    options: Mapping[str, str],
    key: str,
    *,
    owner: str,
    own: Mapping[str, Callable[[], Any]] | None = None,
) -> Any:
    """Create the object that an option names.

    Args:
        group: The group of entry points.
        options: The options.
        key: The option with the identifier.
        owner: The object with the options, for errors, such as `table flights`.
        own: Factories that need no entry point, by identifier.

    Raises:
        MissingOptionError: The option is missing.
        InvalidOptionError: No installed package has this identifier.
    """
    identifier = options.get(key)
    if identifier is None:
        raise MissingOptionError(key, doc=f"Identifier of the {key}.", scope=owner)
    if own is not None and identifier in own:
        return own[identifier]()
    known = _entry_points(group)
    if identifier not in known:
        names = sorted({*known, *(own or ())})
        similar = suggested(identifier, {each: each for each in names})
        raise InvalidOptionError(
            f"the {owner} has an unknown {key}",
            expected=", ".join(names) or f"the package of a {key}",
            found=identifier,
            option=key,
            hint=f"did you mean {similar[0]}?" if similar else f"install the package of this {key}",
        )
    return known[identifier].load()()
