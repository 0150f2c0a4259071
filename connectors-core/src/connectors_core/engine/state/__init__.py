# SPDX-License-Identifier: Apache-2.0
"""The state that survives a crash: plans, reports, and decisions, and the lease on them."""

from __future__ import annotations

from connectors_core.engine.state.documents import decode as decode_document
from connectors_core.engine.state.documents import encode as encode_document
from connectors_core.engine.state.file_names import is_shortened, shortened
from connectors_core.engine.state.lease import LEASE_EXPIRY, Lease, LeaseOwner
from connectors_core.engine.state.store import StateOutput, StateStore

__all__ = [
    "LEASE_EXPIRY",
    "Lease",
    "LeaseOwner",
    "StateOutput",
    "StateStore",
    "decode_document",
    "encode_document",
    "is_shortened",
    "shortened",
]
