# SPDX-License-Identifier: Apache-2.0
"""Determines the outcome of an operation of a bulk request from its status."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

from connector_elasticsearch.client.errors import is_refused_for_now

__all__ = ["MERGE_OBJECTS", "Outcome", "outcome_of", "wrong_option"]

MERGE_OBJECTS: Final = "sink.merge-objects"
"""The option that replaces a script, which some servers do not run."""

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
# Errors of a closed index, and of a cluster that accepts no more indices: the documents are not at
# fault.
_NOT_NOW: Final = frozenset({"index_closed_exception", "validation_exception"})
_WRONG_INDEX: Final = frozenset({"index_not_found_exception", "invalid_index_name_exception"})
_ILLEGAL: Final = "illegal_argument_exception"
# The server uses this name for many rejections. These messages mean that a setting is wrong.
_WRONG_SETTINGS: Final = (
    ("pipeline with id [", "ingest-pipeline"),
    ("no write index is defined for alias [", "index"),
    ("failed to execute script", MERGE_OBJECTS),  # the server runs no scripts
    ("only write ops with an op_type of create are allowed in data streams", "sink.operation"),
)
_OF_ALL_INDICES: Final = frozenset({"ingest-pipeline", MERGE_OBJECTS})


class Outcome(Enum):
    """The outcome of an operation, which determines the next step."""

    WRITTEN = auto()
    """The server has stored it. A deletion of a missing document also counts."""
    ALREADY_WRITTEN = auto()
    """A document with this ID exists, and `create` leaves it unchanged."""
    STALE = auto()
    """A newer version exists and stays."""
    LATER = auto()
    """The server temporarily rejects it."""
    FORBIDDEN = auto()
    """The login lacks the privilege to write to this index."""
    REFUSED = auto()
    """The server permanently rejects it."""


def outcome_of(action: str, status: int, error_type: str | None) -> Outcome:
    """Return the outcome of an operation.

    Args:
        action: `index`, `create`, `update`, or `delete`, as in the response.
        status: The status of the operation.
        error_type: Elasticsearch's name of the error, or None.
    """
    if status < 300 or (action == "delete" and status == _NOT_FOUND):
        return Outcome.WRITTEN
    if is_refused_for_now(status, error_type) or error_type in _NOT_NOW:
        return Outcome.LATER
    if status == _CONFLICT:
        # An update reads before it writes, and another writer was faster. Other conflicts come from
        # a version.
        return {"create": Outcome.ALREADY_WRITTEN, "update": Outcome.LATER}.get(
            action, Outcome.STALE
        )
    if status in (401, 403):
        return Outcome.FORBIDDEN
    return Outcome.REFUSED


def wrong_option(error: Mapping[str, Any], *, one_index: bool) -> str | None:
    """Return the option that caused a rejection of every document, or None for a bad document.

    Args:
        error: The server's error.
        one_index: Whether all documents go to one configured index. Otherwise the rows name their
            index, and a wrong name is a bad row.
    """
    found = None
    if error["type"] in _WRONG_INDEX:
        found = "index"
    elif error["type"] == _ILLEGAL:
        reason = str(error.get("reason"))
        found = next((name for text, name in _WRONG_SETTINGS if reason.startswith(text)), None)
    return found if one_index or found in _OF_ALL_INDICES else None
