# SPDX-License-Identifier: Apache-2.0
"""The former name of `connectors_core.engine.protocol`, kept for released connectors' tests."""

from __future__ import annotations

from connectors_core.engine.protocol import decision_path, report_path

__all__ = ["decision_path", "report_path"]
