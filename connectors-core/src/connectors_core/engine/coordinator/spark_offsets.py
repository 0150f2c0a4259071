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
    """Return the last plan that a micro-batch reads, by source.

    Args:
        text: An entry of the log.
        sources: The streams in the order of the log, once per branch, as in `QueryIdentity`.
        path: Path of the entry, for messages.

    Returns:
        The plan number of each source, or None if Spark did not know a plan yet.

    Raises:
        StateCorruptedError: The entry does not belong to these sources.
    """
    version, *rest = text.split("\n")
    lines = rest[1:]
    if version == "v1":
        return _first_format(path, lines, sources)
    if version == "v2":
        return _second_format(path, lines, sources)
    raise corrupted_log(path, "v1 or v2", version)


def corrupted_log(path: str, expected: str, found: str) -> StateCorruptedError:
    """Return the error of an unusable file in Spark's checkpoint."""
    return StateCorruptedError(f"cannot use {path}", expected=expected, found=found)


def _first_format(path: str, lines: Sequence[str], sources: Sequence[str]) -> dict[str, int | None]:
    """Read a v1 log: one line per branch that reads a source, in the order of the plan."""
    if len(lines) != len(sources):
        raise corrupted_log(path, f"{len(sources)} lines of offsets", str(len(lines)))
    found: dict[str, int | None] = {}
    for uid, line in zip(sources, lines, strict=True):
        if is_spark_stream(uid):
            continue
        plan = _plan(path, line, uid)
        if found.setdefault(uid, plan) != plan:
            raise corrupted_log(path, f"one offset for source {uid!r}", "several")
    return found


def _second_format(
    path: str, lines: Sequence[str], sources: Sequence[str]
) -> dict[str, int | None]:
    """Read a v2 log: `<number of a branch>:<offset>`, in any order.

    The log omits sources without an offset. A source that several branches read appears once, under
    the number of any of them.
    """
    found: dict[str, int | None] = dict.fromkeys(uids_of(sources))
    for line in lines:
        number, _colon, offset = line.partition(":")
        if not number.isdigit() or int(number) >= len(sources):
            raise corrupted_log(path, f"offsets of {len(sources)} branches", line)
        uid = sources[int(number)]
        if not is_spark_stream(uid):
            found[uid] = _plan(path, offset, uid)
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
