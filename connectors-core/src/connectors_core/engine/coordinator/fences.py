# SPDX-License-Identifier: Apache-2.0
"""Keeps former drivers out of what this one decides and plans. Driver.

A lease alone cannot: a driver that was frozen while its lease expired does not know that it is
over, and it may freeze again between a look at the lease and the step that follows. So a driver
that takes a pipeline over creates, before anything else, the next decision and the next plan, as
*fences*. Decisions and plans are created exclusively. A former driver that resumes finds its number
taken and stops. What it has staged carries that number, which this driver never uses: neither of
the two can sweep, roll back or commit what the other stages.

A driver may also freeze after its fences, before it reads the plans and decisions to continue
from. After it has read them, it confirms its lease. So it never continues from a successor's.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final, TypeVar

from connectors_core.engine._faults import fault_point
from connectors_core.engine.coordinator.plan_log import (
    newest_decision,
    newest_number,
    newest_plan,
    starts_of_sources,
)
from connectors_core.engine.protocol import (
    DECISIONS,
    DECISIONS_FOLDER,
    PLANS,
    PLANS_FOLDER,
    Decision,
    DocumentCodec,
    Plan,
    Rewrite,
    decision_path,
    plan_path,
)
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import LeaseError

_FIRST_INCARNATION: Final = 1
_DocumentT = TypeVar("_DocumentT", Plan, Decision)


def fence_decisions(store: StateStore, lease: Lease, *, pipeline_id: str) -> None:
    """Make the next epoch unusable for all drivers before this one.

    Where one of them was first, its decision counts, and the epoch after it is taken.

    Args:
        store: The state location of the query.
        lease: Held by this driver.
        pipeline_id: The pipeline.

    Raises:
        LeaseError: A later driver has taken the pipeline over.
    """

    def fence(epoch: int) -> Decision:
        return Decision(
            pipeline_id=pipeline_id,
            epoch=epoch,
            incarnation=lease.incarnation,
            spark_query_id="",
            batch_id=-1,
            plan=-1,
            sinks={},
            previous=newest_decision(store),
        )

    _fence(store, lease, DECISIONS, DECISIONS_FOLDER, decision_path, fence)


def fence_plans(store: StateStore, lease: Lease, *, pipeline_id: str) -> None:
    """Make the next plan unusable for all drivers before this one.

    Where one of them was first, its plan is fed as it is, and the number after it is taken.

    Args:
        store: The state location of the query.
        lease: Held by this driver.
        pipeline_id: The pipeline.

    Raises:
        LeaseError: A later driver has taken the pipeline over.
    """

    def fence(number: int) -> Plan:
        return Plan(
            pipeline_id=pipeline_id,
            number=number,
            nonce=secrets.token_hex(8),
            incarnation=lease.incarnation,
            sources={},
            previous=newest_plan(store),
            decided=newest_decision(store),
            starts=starts_of_sources(store),  # they hold until the first plan
        )

    _fence(store, lease, PLANS, PLANS_FOLDER, plan_path, fence)
    fault_point("after_fence")


def _fence(
    store: StateStore,
    lease: Lease,
    codec: DocumentCodec[_DocumentT],
    folder: str,
    path_of: Callable[[int], str],
    fence: Callable[[int], _DocumentT],
) -> None:
    while True:
        number = newest_number(store, folder) + 1
        if number == 0 and lease.incarnation == _FIRST_INCARNATION:
            return  # there is no driver before the first
        fault_point("before_fence", folder=folder, number=number)
        document = fence(number)
        created = codec.create(store, path_of(number), document)
        # An object store may say so of our own, when its client repeated a request.
        if created or codec.read(store, path_of(number)) == document:
            return
        lease.confirm()


def taken_by_another(
    what: str, found: Plan | Decision | Rewrite | None, *, incarnation: int
) -> LeaseError:
    """The error of a driver that finds the number of its plan or decision taken.

    Args:
        what: What it wanted to create.
        found: What is there in its place.
        incarnation: Its own.
    """
    other = "another" if found is None else f"incarnation {found.incarnation}"
    return LeaseError(
        f"this driver no longer runs the pipeline: {what} is taken",
        holder={} if found is None else {"incarnation": found.incarnation},
        expected=f"incarnation {incarnation}, this one",
        found=other,
        hint="another driver has taken over and continues from here: nothing is lost. Let one "
        "driver run this pipeline, and give it time to answer within the expiry of its lease",
    )
