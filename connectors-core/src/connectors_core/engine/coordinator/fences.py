# SPDX-License-Identifier: Apache-2.0
"""Keeps former drivers from planning and deciding. Driver.

A lease alone cannot do this. A driver that was frozen does not know that its lease expired, and it
may freeze again between the check of the lease and the next step. A driver that takes over a
pipeline therefore first creates the next decision and the next plan as *fences*. Decisions and
plans are created exclusively, so a former driver that resumes finds its number taken and stops. Its
staged data carry that number, which this driver never uses. Neither driver can sweep, roll back, or
commit the other's staged data.

A driver may also freeze after its fences, before it reads the plans and decisions to continue
from. After it has read them, it confirms its lease. It therefore never continues from the plans of
a successor.
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
    """Fence off the next epoch from all earlier drivers.

    If an earlier driver created this decision first, the decision counts, and the fence takes
    the next epoch.

    Args:
        store: The state location of the query.
        lease: The lease of this driver.
        pipeline_id: The pipeline.

    Raises:
        LeaseError: A later driver has taken over the pipeline.
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
    """Fence off the next plan from all earlier drivers; see `fence_decisions`."""

    def fence(number: int) -> Plan:
        return Plan(
            pipeline_id=pipeline_id,
            number=number,
            nonce=secrets.token_hex(8),
            incarnation=lease.incarnation,
            sources={},
            previous=newest_plan(store),
            decided=newest_decision(store),
            starts=starts_of_sources(store),  # valid until the first plan
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
            return  # the first driver needs no fence
        fault_point("before_fence", folder=folder, number=number)
        document = fence(number)
        created = codec.create(store, path_of(number), document)
        # After a repeated request, an object store may report our own file as existing.
        if created or codec.read(store, path_of(number)) == document:
            return
        lease.confirm()


def taken_by_another(
    what: str, found: Plan | Decision | Rewrite | None, *, incarnation: int
) -> LeaseError:
    """Return the error of a driver whose next plan or decision another driver has created.

    Args:
        what: Name of the document that it wanted to create.
        found: The existing document.
        incarnation: The driver's own incarnation.
    """
    other = "another" if found is None else f"incarnation {found.incarnation}"
    return LeaseError(
        f"this driver no longer runs the pipeline: {what} is taken",
        holder={} if found is None else {"incarnation": found.incarnation},
        expected=f"incarnation {incarnation}, this one",
        found=other,
        hint="run one driver for this pipeline, and make sure that it renews its lease in time; "
        "another driver has taken over, and no data is lost",
    )
