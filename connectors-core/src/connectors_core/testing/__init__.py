# SPDX-License-Identifier: Apache-2.0
"""What connectors test themselves with; never imported by the runtime."""

from __future__ import annotations

from connectors_core.testing.faults import (
    Fault,
    FaultAction,
    FaultInjected,
    FaultPoint,
    faults_env,
    injected,
)

__all__ = [
    "Fault",
    "FaultAction",
    "FaultInjected",
    "FaultPoint",
    "faults_env",
    "injected",
]
