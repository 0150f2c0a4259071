# SPDX-License-Identifier: Apache-2.0
"""Reports the runs of pipelines as OpenLineage events, through OpenLineage's own client. Driver."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from connectors_core.errors import MissingDependencyError
from connectors_core.lineage.events import (
    JobCreatedEvent,
    JobExecutionStatusEvent,
    JobStatus,
    JobStatusChangedEvent,
)
from connectors_core.lineage.graph import (
    ColumnOrigin,
    LineageDataset,
    LineageEdge,
    LineageGraph,
    Transformation,
)
from connectors_core.secrets import Secret, revealed

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent
    from openlineage.client.generated.column_lineage_dataset import InputField

__all__ = ["OpenLineageListener"]

_PRODUCER: Final = "https://github.com/spark-connectors/connectors"
_EVENT_TYPES: Final = {
    JobStatus.RUNNING: "RUNNING",
    JobStatus.FINISHED: "COMPLETE",
    JobStatus.FAILED: "FAIL",
    JobStatus.CANCELED: "ABORT",
}


class OpenLineageListener:
    """Sends the events of a pipeline to an OpenLineage backend: one run for each start.

    Without a configuration, the client reads its environment variables and `openlineage.yml`. Needs
    the extra `connectors-core[openlineage]`.

    Args:
        namespace: The namespace of the job, such as the name of the environment.
        config: The configuration of the client, as in `openlineage.yml`.
    """

    def __init__(
        self, *, namespace: str = "default", config: Mapping[str, Any] | None = None
    ) -> None:
        self._namespace = namespace
        self._config = config
        self._client: OpenLineageClient | None = None
        self._graphs: dict[str, JobCreatedEvent] = {}

    @classmethod
    def to_file(cls, path: str | os.PathLike[str], *, namespace: str = "default") -> Self:
        """Append the events to a file, one JSON document in each line.

        Args:
            path: The file.
            namespace: The namespace of the job.
        """
        transport = {"type": "file", "log_file_path": os.fspath(path), "append": True}
        return cls(namespace=namespace, config={"transport": transport})

    @classmethod
    def to_console(cls, *, namespace: str = "default") -> Self:
        """Log the events.

        Args:
            namespace: The namespace of the job.
        """
        return cls(namespace=namespace, config={"transport": {"type": "console"}})

    @classmethod
    def to_http(
        cls, url: str, *, api_key: Secret | str | None = None, namespace: str = "default"
    ) -> Self:
        """Post the events to a backend such as Marquez.

        Args:
            url: Its address, such as `http://localhost:5000`.
            api_key: Sent as a bearer token.
            namespace: The namespace of the job.
        """
        transport: dict[str, Any] = {"type": "http", "url": url}
        if api_key is not None:
            transport["auth"] = {"type": "api_key", "apiKey": Secret(api_key)}
        return cls(namespace=namespace, config={"transport": transport})

    def __repr__(self) -> str:
        return f"OpenLineageListener(namespace={self._namespace!r})"

    def on_event(self, event: JobStatusChangedEvent) -> None:
        """Send an event.

        Raises:
            MissingDependencyError: The client is not installed.
        """
        if isinstance(event, JobCreatedEvent):
            self._graphs[event.job_id] = event
            self._emit(self._run_event(event, "START", event.at))
            return
        created = self._graphs.get(event.job_id)
        if created is None:  # its first event was dropped
            return
        if event.new_status.is_terminal:
            del self._graphs[event.job_id]
        kind = _EVENT_TYPES.get(event.new_status)
        if kind is not None:
            self._emit(self._run_event(created, kind, event.at, status=event))

    def _emit(self, event: RunEvent) -> None:
        if self._client is None:
            client = _imported().OpenLineageClient
            self._client = client(config=None if self._config is None else revealed(self._config))
        self._client.emit(event)

    def _run_event(
        self,
        created: JobCreatedEvent,
        kind: str,
        at: datetime,
        *,
        status: JobExecutionStatusEvent | None = None,
    ) -> RunEvent:
        _imported()
        from openlineage.client import event_v2
        from openlineage.client.facet_v2 import error_message_run, job_type_job

        graph = created.lineage_graph
        run_facets = _unknown_facet(graph)
        if status is not None and status.cause is not None:
            run_facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=status.cause, programmingLanguage="PYTHON"
            )
        job_type = job_type_job.JobTypeJobFacet(
            processingType=created.execution_mode.name, integration="SPARK", jobType="JOB"
        )
        return event_v2.RunEvent(
            eventType=event_v2.RunState[kind],
            eventTime=at.isoformat(),
            run=event_v2.Run(runId=created.job_id, facets=run_facets),
            job=event_v2.Job(
                namespace=self._namespace, name=created.job_name, facets={"jobType": job_type}
            ),
            producer=_PRODUCER,
            inputs=list(_inputs(graph)),
            outputs=list(_outputs(graph, {} if status is None else status.written)),
        )


def _imported() -> Any:
    try:
        from openlineage import client
    except ImportError as error:
        raise MissingDependencyError(
            "openlineage-python",
            install="pip install 'connectors-core[openlineage]'",
            feature="OpenLineageListener",
        ) from error
    return client


def _read(graph: LineageGraph) -> Iterable[str]:
    return dict.fromkeys(uid for edge in graph.edges for uid in edge.inputs)


def _unknown_facet(graph: LineageGraph) -> dict[str, Any]:
    """Return the inputs without datasets. OpenLineage's integration for Spark has this facet."""
    from openlineage.client.facet_v2 import RunFacet

    inputs = [
        {
            "description": uid,
            "outputAttributes": [
                {"name": field.name, "type": str(field.type)}
                for field in graph.schemas.get(uid, ())
            ],
        }
        for uid in _read(graph)
        if not graph.datasets.get(uid)
    ]
    return {"spark_unknown": RunFacet().with_additional_properties(inputs=inputs)} if inputs else {}


def _inputs(graph: LineageGraph) -> Iterator[InputDataset]:
    from openlineage.client.event_v2 import InputDataset

    seen = set()
    for uid in _read(graph):
        for each in graph.datasets.get(uid, ()):
            if each not in seen:
                seen.add(each)
                facets = _schema_facet(graph.schemas[uid]) if uid in graph.schemas else {}
                yield InputDataset(namespace=each.namespace, name=each.name, facets=facets)


def _outputs(graph: LineageGraph, written: Mapping[str, int]) -> Iterator[OutputDataset]:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    into: dict[LineageDataset, list[LineageEdge]] = {}
    for edge in graph.edges:
        for each in dict.fromkeys(graph.datasets.get(edge.sink, ())):
            into.setdefault(each, []).append(edge)
    for dataset, edges in into.items():
        merged = _merged(edges)
        counted: dict[str, Any] = {}
        if counts := [written[edge.sink] for edge in edges if edge.sink in written]:
            counted["outputStatistics"] = statistics.OutputStatisticsOutputDatasetFacet(
                rowCount=sum(counts)
            )
        yield OutputDataset(
            namespace=dataset.namespace,
            name=dataset.name,
            facets=_schema_facet(merged.schema) | _column_facet(graph, merged),
            outputFacets=counted,
        )


def _merged(edges: Sequence[LineageEdge]) -> LineageEdge:
    """Return what several sinks write into one dataset."""
    columns: dict[str, frozenset[ColumnOrigin]] = {}
    for edge in edges:
        for column, origins in edge.columns.items():
            columns[column] = columns.get(column, frozenset()) | origins
    return replace(
        edges[0],
        schema=pa.schema({field.name: field for edge in edges for field in edge.schema}.values()),
        columns=columns,
        row_origins=frozenset().union(*(edge.row_origins for edge in edges)),
    )


def _schema_facet(schema: pa.Schema) -> dict[str, Any]:
    from openlineage.client.facet_v2 import schema_dataset

    fields = [
        schema_dataset.SchemaDatasetFacetFields(name=field.name, type=str(field.type))
        for field in schema
    ]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)}


def _column_facet(graph: LineageGraph, edge: LineageEdge) -> dict[str, Any]:
    """Return the columns on which each column depends, and those on which all rows depend."""
    from openlineage.client.facet_v2 import column_lineage_dataset as lineage

    fields = {
        column: lineage.Fields(inputFields=inputs)
        for column, origins in edge.columns.items()
        if (inputs := _input_fields(graph, origins))
    }
    rows = _input_fields(graph, edge.row_origins)
    if not fields and not rows:
        return {}
    return {"columnLineage": lineage.ColumnLineageDatasetFacet(fields=fields, dataset=rows)}


def _input_fields(graph: LineageGraph, origins: Iterable[ColumnOrigin]) -> list[InputField]:
    from openlineage.client.facet_v2 import column_lineage_dataset as lineage

    found: dict[tuple[str, str, str], set[Transformation]] = {}
    for origin in origins:
        for dataset in graph.datasets.get(origin.uid, ()):
            field = (dataset.namespace, dataset.name, origin.column)
            found.setdefault(field, set()).add(origin.transformation)
    return [
        lineage.InputField(
            namespace=namespace,
            name=name,
            field=column,
            transformations=[
                lineage.Transformation(
                    type="DIRECT" if each.is_direct else "INDIRECT", subtype=each.value
                )
                for each in Transformation
                if each in transformations
            ],
        )
        for (namespace, name, column), transformations in sorted(found.items())
    ]
