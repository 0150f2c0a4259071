# SPDX-License-Identifier: Apache-2.0
"""What became of one operation of a bulk request, by its own status."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

from connector_elasticsearch.client.errors import is_refused_for_now

__all__ = ["Outcome", "outcome_of", "wrong_option"]

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
# Of an index that is closed, and of a cluster that takes no further index: no document is to blame.
_NOT_NOW: Final = frozenset({"index_closed_exception", "validation_exception"})
_WRONG_INDEX: Final = frozenset({"index_not_found_exception", "invalid_index_name_exception"})
_ILLEGAL: Final = "illegal_argument_exception"
# The server gives many refusals this one name; these say that a setting is wrong.
_WRONG_SETTINGS: Final = (
    ("pipeline with id [", "pipeline"),
    ("no write index is defined for alias [", "index"),
    ("only write ops with an op_type of create are allowed in data streams", "sink.operation"),
)


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
    if is_refused_for_now(status, error_type) or error_type in _NOT_NOW:
        return Outcome.LATER
    if status == _CONFLICT:
        # An update reads before it writes, and somebody was faster; others name a version.
        return {"create": Outcome.ALREADY_WRITTEN, "update": Outcome.LATER}.get(
            action, Outcome.STALE
        )
    if status in (401, 403):
        return Outcome.FORBIDDEN
    return Outcome.REFUSED


def wrong_option(error: Mapping[str, Any], *, one_index: bool) -> str | None:
    """The option that a refusal is about, which would hit every document; None for a bad document.

    Args:
        error: What the server says.
        one_index: Whether all documents go to one index, which was configured; else the rows name
            theirs, and a wrong name is a bad row.
    """
    found = None
    if error["type"] in _WRONG_INDEX:
        found = "index"
    elif error["type"] == _ILLEGAL:
        reason = str(error.get("reason"))
        found = next((name for text, name in _WRONG_SETTINGS if reason.startswith(text)), None)
    return found if one_index or found == "pipeline" else None
