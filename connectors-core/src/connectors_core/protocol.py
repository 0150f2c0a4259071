# SPDX-License-Identifier: Apache-2.0
"""The former name of `connectors_core.engine.protocol`, kept for released connectors' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors_core.annotations import former_names

if TYPE_CHECKING:
    from connectors_core.engine.protocol import decision_path, report_path
else:
    __getattr__ = former_names(
        __name__,
        {
            "decision_path": "connectors_core.engine.protocol.decision_path",
            "report_path": "connectors_core.engine.protocol.report_path",
        },
    )

__all__ = ["decision_path", "report_path"]
