# SPDX-License-Identifier: Apache-2.0
"""What became of one operation of a bulk request, by its own status."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from connector_elasticsearch.client.errors import is_refused_for_now

__all__ = ["Outcome", "outcome_of"]

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


class Outcome(Enum):
    """What became of an operation, and so what is to be done."""

    WRITTEN = auto()
    """The server has it. A deletion of what was not there counts as well."""
    ALREADY_WRITTEN = auto()
    """There is a document with this id, which `create` leaves as it is."""
    STALE = auto()
    """There is a newer version, which stays."""
    LATER = auto()
    """The server cannot take it now."""
    FORBIDDEN = auto()
    """The login may not write there."""
    REFUSED = auto()
    """The server will never take it."""


def outcome_of(action: str, status: int, error_type: str | None) -> Outcome:
    """Tell what became of an operation.

    Args:
        action: `index`, `create`, `update` or `delete`, as the answer repeats it.
        status: Of the operation.
        error_type: Elasticsearch's name of its error, if there is one.
    """
    if status < 300 or (action == "delete" and status == _NOT_FOUND):
        return Outcome.WRITTEN
    if is_refused_for_now(status, error_type):
        return Outcome.LATER
    if status == _CONFLICT:
        # An update reads before it writes, and somebody was faster; others name a version.
        return {"create": Outcome.ALREADY_WRITTEN, "update": Outcome.LATER}.get(
            action, Outcome.STALE
        )
    if status in (401, 403):
        return Outcome.FORBIDDEN
    return Outcome.REFUSED
