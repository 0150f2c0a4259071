# SPDX-License-Identifier: Apache-2.0
"""Where a source begins: where a person says, and never after it was drained. Driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.source.enumerator import AnySplitEnumerator, SplitEnumeratorContext
from connectors_core.source.source import SupportsRewinding


def check_position(settings: SourceSettings, position: str) -> None:
    """Refuse to begin at a position that the source does not take.

    Args:
        settings: The source.
        position: What `connectors state rewind` was told.

    Raises:
        UnsupportedError: The source takes no positions.
        ConfigurationError: It does not understand this one.
    """
    with _naming_the_way_out(settings):
        _rewindable(settings, position).check_position(position)


def enumerator_at(
    settings: SourceSettings, context: SplitEnumeratorContext[Any], position: str
) -> AnySplitEnumerator:
    """An enumerator that begins at such a position.

    Raises:
        UnsupportedError: The source takes no positions.
        ConfigurationError: It does not understand this one.
    """
    with _naming_the_way_out(settings):
        return _rewindable(settings, position).create_enumerator_at(context, position)


def _rewindable(settings: SourceSettings, position: str) -> SupportsRewinding[Any, Any]:
    if isinstance(settings.source, SupportsRewinding):
        return settings.source
    raise UnsupportedError(
        f"source {settings.uid!r} cannot begin at {position!r}, where `connectors state "
        "rewind --at` took it: it has no terms for positions",
        expected="a source with SupportsRewinding",
        found=type(settings.source).__name__,
        hint="take the pipeline back again without --at: `connectors state rewind LOCATION "
        "--to-start`; the source then begins where its options say",
    )


@contextmanager
def _naming_the_way_out(settings: SourceSettings) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        error.hint = error.hint or (
            "take the pipeline back again: `connectors state rewind LOCATION --to-start`, with "
            f"`--at {settings.uid}=POSITION` as expected, or without --at"
        )
        raise
