# SPDX-License-Identifier: Apache-2.0
"""The names of topics in lineage, after OpenLineage's naming spec."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from connectors_core.lineage import LineageDataset

__all__ = ["datasets_of"]


def datasets_of(
    bootstrap_servers: Sequence[str], topics: Iterable[str]
) -> tuple[LineageDataset, ...]:
    """Return the datasets of topics. The first bootstrap server names the cluster.

    Args:
        bootstrap_servers: Addresses of brokers.
        topics: The topics, or their pattern.
    """
    namespace = f"kafka://{bootstrap_servers[0].strip()}"
    return tuple(LineageDataset(namespace=namespace, name=each) for each in dict.fromkeys(topics))
