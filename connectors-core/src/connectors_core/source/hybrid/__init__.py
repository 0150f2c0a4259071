# SPDX-License-Identifier: Apache-2.0
"""A chain of sources that are read one after another (Flink's FLIP-150)."""

from connectors_core.source.hybrid.source import HybridSource, HybridSourceBuilder
from connectors_core.source.hybrid.switches import SourceSwitchContext, SupportsSwitchInfo

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceSwitchContext", "SupportsSwitchInfo"]
