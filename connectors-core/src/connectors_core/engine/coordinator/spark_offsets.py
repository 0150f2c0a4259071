# SPDX-License-Identifier: Apache-2.0
"""The entries of Spark's offset log, in both of its formats. No I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from connectors_core.engine.coordinator.identity import is_spark_stream, uids_of
from connectors_core.errors import StateCorruptedError

_NO_OFFSET: Final = "-"


def logged_offsets(text: str, sources: Sequence[str], path: str) -> dict[str, int | None]:
    """Return the last plan that all branches of a micro-batch have read, by source.

    Spark asks each branch of a self-join for its newest plan, one after the other. If a plan
    appears in between, one branch reads it now and the other one in the next micro-batch.

    Args:
        text: An entry of the log.
        sources: The streams in the order of the log, once per branch, as in `QueryIdentity`.
        path: Path of the entry, for messages.

    Returns:
        The plan number of each source, or None if Spark did not know a plan yet.

    Raises:
        StateCorruptedError: The entry does not belong to these sources.
    """
    found: dict[str, int | None] = {}
    for uid, plan in _branches(text, sources, path):
        other = found.setdefault(uid, plan)
        found[uid] = None if plan is None or other is None else min(plan, other)
    return {**dict.fromkeys(uids_of(sources)), **found}


def newest_offset(text: str, sources: Sequence[str], path: str) -> int | None:
    """Return the last plan that any branch of a micro-batch has read; see `logged_offsets`."""
    plans = (plan for _uid, plan in _branches(text, sources, path) if plan is not None)
    return max(plans, default=None)


def corrupted_log(path: str, expected: str, found: str) -> StateCorruptedError:
    """Return the error of an unusable file in Spark's checkpoint."""
    return StateCorruptedError(f"cannot use {path}", expected=expected, found=found)


def _branches(text: str, sources: Sequence[str], path: str) -> list[tuple[str, int | None]]:
    """Return the source and the plan of each branch in an entry of the log."""
    version, *rest = text.split("\n")
    lines = rest[1:]
    if version == "v1":
        branches = _first_format(path, lines, sources)
    elif version == "v2":
        branches = _second_format(path, lines, sources)
    else:
        raise corrupted_log(path, "v1 or v2", version)
    return [(uid, _plan(path, offset, uid)) for uid, offset in branches if not is_spark_stream(uid)]


def _first_format(path: str, lines: Sequence[str], sources: Sequence[str]) -> list[tuple[str, str]]:
    """Read a v1 log: one line per branch that reads a source, in the order of the plan."""
    if len(lines) != len(sources):
        raise corrupted_log(path, f"{len(sources)} lines of offsets", str(len(lines)))
    return list(zip(sources, lines, strict=True))


def _second_format(
    path: str, lines: Sequence[str], sources: Sequence[str]
) -> list[tuple[str, str]]:
    """Read a v2 log: `<number of a branch>:<offset>`, in any order.

    The log omits branches without an offset. Branches of one stream appear once, under the number
    of any of them.
    """
    found = []
    for line in lines:
        number, _colon, offset = line.partition(":")
        if not number.isdigit() or int(number) >= len(sources):
            raise corrupted_log(path, f"offsets of {len(sources)} branches", line)
        found.append((sources[int(number)], offset))
    return found


def _plan(path: str, line: str, uid: str) -> int | None:
    if line == _NO_OFFSET:
        return None
    try:
        offset = json.loads(line)
        if not isinstance(offset, dict):
            return int(offset)
        owner, plan = str(offset["uid"]), int(offset["plan"])
    except (ValueError, KeyError, TypeError) as error:
        raise corrupted_log(path, "a plan number in each line", line) from error
    if owner != uid:
        raise corrupted_log(path, f"the offset of source {uid!r}", f"that of {owner!r}")
    return plan
