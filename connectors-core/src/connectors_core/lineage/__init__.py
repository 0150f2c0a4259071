# SPDX-License-Identifier: Apache-2.0
"""Lineage: which datasets a pipeline reads and writes, and the events of its runs (FLIP-314)."""

from connectors_core.lineage.events import (
    JobCreatedEvent,
    JobExecutionStatusEvent,
    JobStatus,
    JobStatusChangedEvent,
    JobStatusChangedListener,
    RuntimeExecutionMode,
)
from connectors_core.lineage.graph import (
    ColumnOrigin,
    LineageDataset,
    LineageEdge,
    LineageGraph,
    LineageVertexProvider,
    Transformation,
)
from connectors_core.lineage.naming import file_dataset, jdbc_datasets, kafka_datasets
from connectors_core.lineage.openlineage import OpenLineageListener

__all__ = [
    "ColumnOrigin",
    "JobCreatedEvent",
    "JobExecutionStatusEvent",
    "JobStatus",
    "JobStatusChangedEvent",
    "JobStatusChangedListener",
    "LineageDataset",
    "LineageEdge",
    "LineageGraph",
    "LineageVertexProvider",
    "OpenLineageListener",
    "RuntimeExecutionMode",
    "Transformation",
    "file_dataset",
    "jdbc_datasets",
    "kafka_datasets",
]
