# SPDX-License-Identifier: Apache-2.0
"""Starts a source at a position that a person set. Driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.source.enumerator import AnySplitEnumerator, SplitEnumeratorContext
from connectors_core.source.source import SupportsRewinding


def check_position(settings: SourceSettings, position: str) -> None:
    """Refuse a start position that the source does not accept.

    Args:
        settings: The source.
        position: The position from `connectors state rewind`.

    Raises:
        UnsupportedError: The source does not support start positions.
        ConfigurationError: The position is not valid for the source.
    """
    with _naming_the_way_out(settings):
        _rewindable(settings, position).check_position(position)


def enumerator_at(
    settings: SourceSettings, context: SplitEnumeratorContext[Any], position: str
) -> AnySplitEnumerator:
    """Create an enumerator that starts at a position.

    Raises:
        UnsupportedError: The source does not support start positions.
        ConfigurationError: The position is not valid for the source.
    """
    with _naming_the_way_out(settings):
        return _rewindable(settings, position).create_enumerator_at(context, position)


def _rewindable(settings: SourceSettings, position: str) -> SupportsRewinding[Any, Any]:
    if isinstance(settings.source, SupportsRewinding):
        return settings.source
    raise UnsupportedError(
        f"source {settings.uid!r} cannot start at {position!r}, the position from `connectors "
        "state rewind --at`: it does not support start positions",
        expected="a source with SupportsRewinding",
        found=type(settings.source).__name__,
        hint="rewind the pipeline again without --at: `connectors state rewind LOCATION "
        "--to-start`; the source then starts as its options specify",
    )


@contextmanager
def _naming_the_way_out(settings: SourceSettings) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        error.hint = error.hint or (
            "rewind the pipeline again: `connectors state rewind LOCATION --to-start`, with a "
            f"valid `--at {settings.uid}=POSITION` or without --at"
        )
        raise
