# SPDX-License-Identifier: Apache-2.0
"""Stops that an enumerator plans, and the positions after a plan. Driver, pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from connectors_core.engine.protocol import (
    PlannedSplit,
    Report,
    SourcePlan,
    SplitRecord,
    SplitReport,
    Versioned,
)
from connectors_core.errors import FatalError
from connectors_core.serialization import VersionedSerializer
from connectors_core.source.enumerator import PlannedRead, SupportsPlannedStops
from connectors_core.source.split import ReadLimits, SplitT


def plan_reads(
    enumerator: SupportsPlannedStops[SplitT], splits: Sequence[SplitT], limits: ReadLimits
) -> Mapping[str, PlannedRead[SplitT]]:
    """Ask an enumerator for the stops of splits, and check its response.

    Raises:
        FatalError: It plans a split that was not requested, or confuses two splits.
    """
    reads = enumerator.plan_reads(splits, limits)
    asked = {split.split_id for split in splits}
    for split_id, read in reads.items():
        ids = {split_id, read.split.split_id}
        if read.then is not None:
            ids.add(read.then.split_id)
        if len(ids) > 1 or split_id not in asked:
            raise FatalError(
                f"plan_reads() of {type(enumerator).__name__} plans splits it was not asked for",
                expected=sorted(asked),
                found=sorted(ids),
            )
    return reads


def to_be_read(read: PlannedRead[SplitT]) -> bool:
    """Return whether a plan must contain the split: it has rows, or its end must be logged."""
    return not read.empty or read.then is None


def planned_split(
    position: PlannedSplit,
    asked: SplitT,
    read: PlannedRead[SplitT],
    serializer: VersionedSerializer[SplitT],
) -> PlannedSplit:
    """Return a split for the plan, with its stop and the position after it.

    Args:
        position: The stored position of the split.
        asked: The split that the enumerator was asked about.
        read: The enumerator's response.
        serializer: Serializer of the splits.
    """

    def stored(split: SplitT) -> Versioned:
        return Versioned(version=serializer.version, data=serializer.serialize(split))

    then = None if read.then is None else stored(read.then)
    skip = read.split.still_to_skip(position.skip, asked)
    return replace(position, state=stored(read.split), skip=skip, then=then)


def position_after(planned: PlannedSplit, report: SplitReport) -> PlannedSplit | None:
    """Return the position of a split after a plan; None if it has ended permanently."""
    state: Versioned | None = report.state
    if report.finished:
        state = None if report.ended else planned.then
    if state is None:
        return None
    return PlannedSplit(
        split_id=report.split_id,
        state=state,
        skip=report.skip,
        watermark_state=report.watermark_state,
    )


def splits_after(
    splits: Mapping[str, SplitRecord], plan: SourcePlan, reports: Sequence[Report | None]
) -> dict[str, SplitRecord]:
    """Return the unfinished splits of a source after a plan, as its coordinator knows them.

    Args:
        splits: The unfinished splits before the plan, by id.
        plan: The plan.
        reports: Its reports, None for a missing one.
    """
    found = dict(splits)
    if plan.snapshot is not None:
        found = {record.split.split_id: record for record in plan.snapshot.splits}
    else:
        for each in plan.assigned:
            record = SplitRecord(split=each.split, subtask=each.subtask, found_at=each.found_at)
            found.setdefault(each.split.split_id, record)
    planned = plan.planned_splits()
    for report in filter(None, reports):
        for read in report.splits:
            after = position_after(planned[read.split_id], read)
            if after is None:
                found.pop(read.split_id, None)
            elif read.split_id in found:
                found[read.split_id] = replace(
                    found[read.split_id], split=after, read=True, watermark=read.watermark
                )
    return found
