# SPDX-License-Identifier: Apache-2.0
"""The lineage of the pipeline: a listener writes it to a file, from which the report draws it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from connectors_core.lineage import JobCreatedEvent, JobStatusChangedEvent, LineageGraph
from examples.flights.charts import layered_graph


@dataclass(frozen=True)
class LineageFile:
    """Writes the inputs of each sink, and their datasets, when a driver starts.

    Attributes:
        path: The file, which each driver replaces.
    """

    path: Path

    def on_event(self, event: JobStatusChangedEvent) -> None:
        """Write the lineage graph. Driver, in a thread of its own."""
        if isinstance(event, JobCreatedEvent):
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(_document(event.lineage_graph), indent=2) + "\n")
            part.replace(self.path)  # a driver may be killed at any time


def _document(graph: LineageGraph) -> dict[str, object]:
    return {
        "inputs": {edge.sink: edge.inputs for edge in graph.edges},
        "datasets": {
            uid: [(each.namespace, each.name) for each in datasets]
            for uid, datasets in graph.datasets.items()
        },
    }


def drawing(path: Path, root: Path) -> str:
    """Draw the inputs at the left, the sinks at the right, and which input reaches which sink.

    Args:
        path: The file of a `LineageFile`.
        root: The folder of the run, which the names of files do not repeat.
    """
    document = json.loads(path.read_text())
    inputs_of: dict[str, list[str]] = document["inputs"]

    def texts(uid: str) -> list[str]:
        names = [f"{namespace}: {name}" for namespace, name in document["datasets"][uid]]
        title = "a table of Spark" if uid.startswith("@") else uid
        return [title, *(each.replace(f"{root}/", "") for each in names)]

    inputs = dict.fromkeys(uid for uids in inputs_of.values() for uid in uids)
    layers = [{uid: texts(uid) for uid in layer} for layer in (inputs, inputs_of)]
    return layered_graph(layers, [(uid, sink) for sink, uids in inputs_of.items() for uid in uids])
