# SPDX-License-Identifier: Apache-2.0
"""Tests the OpenLineage events of a run, in a file and at a local HTTP server."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pyarrow as pa
import pytest

from connectors_core.lineage import (
    ColumnOrigin,
    JobCreatedEvent,
    JobExecutionStatusEvent,
    JobStatus,
    LineageDataset,
    LineageEdge,
    LineageGraph,
    OpenLineageListener,
    RuntimeExecutionMode,
    Transformation,
)
from connectors_core.secrets import Secret

KEY = "canary-2b7e"
TOPIC = LineageDataset(namespace="kafka://broker:9092", name="flights")
TABLE = LineageDataset(namespace="file", name="/airports")
LATE = LineageDataset(namespace="s3://lake", name="late")
GRAPH = LineageGraph(
    datasets={"flights": (TOPIC,), "airports": (TABLE,), "late": (LATE,), "unnamed": ()},
    schemas={
        "flights": pa.schema([("id", pa.int64())]),
        "airports": pa.schema([("name", pa.string())]),
    },
    edges=(
        LineageEdge(
            sink="late",
            inputs=("flights", "airports"),
            schema=pa.schema([("id", pa.int64()), ("name", pa.string()), ("one", pa.int32())]),
            columns={
                "id": frozenset(
                    {
                        ColumnOrigin(
                            uid="flights", column="id", transformation=Transformation.IDENTITY
                        )
                    }
                ),
                "name": frozenset(
                    {
                        ColumnOrigin(
                            uid="airports",
                            column="name",
                            transformation=Transformation.TRANSFORMATION,
                        ),
                        ColumnOrigin(
                            uid="unnamed", column="x", transformation=Transformation.IDENTITY
                        ),
                    }
                ),
                "one": frozenset(),
            },
        ),
        LineageEdge(sink="unnamed", inputs=("flights",), schema=pa.schema([("id", pa.int64())])),
    ),
)


def run_of(listener, end=JobStatus.FINISHED, cause=None):
    """Send the events of one run, and return its id."""
    created = JobCreatedEvent(
        job_id=str(uuid.uuid4()),
        job_name="late flights",
        execution_mode=RuntimeExecutionMode.STREAMING,
        lineage_graph=GRAPH,
    )
    changed = JobExecutionStatusEvent(
        job_id=created.job_id,
        job_name="late flights",
        old_status=JobStatus.CREATED,
        new_status=JobStatus.RUNNING,
    )
    listener.on_event(created)
    listener.on_event(changed)
    listener.on_event(
        replace(
            changed, old_status=JobStatus.RUNNING, new_status=end, cause=cause, written={"late": 7}
        )
    )
    return created.job_id


def events_in(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("end", "kind"),
    [(JobStatus.FINISHED, "COMPLETE"), (JobStatus.FAILED, "FAIL"), (JobStatus.CANCELED, "ABORT")],
)
def test_a_run_has_a_start_and_an_end(tmp_path, end, kind):
    path = tmp_path / "events.json"
    listener = OpenLineageListener.to_file(path, namespace="tests")
    cause = "the disk is full" if end is JobStatus.FAILED else None
    run = run_of(listener, end, cause)
    events = events_in(path)
    assert [each["eventType"] for each in events] == ["START", "RUNNING", kind]
    assert {each["run"]["runId"] for each in events} == {run}
    assert {(each["job"]["namespace"], each["job"]["name"]) for each in events} == {
        ("tests", "late flights")
    }
    assert events[0]["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    error = events[-1]["run"]["facets"].get("errorMessage", {})
    assert error.get("message") == cause


def test_an_event_names_each_dataset_with_its_columns_and_their_origins(tmp_path):
    path = tmp_path / "events.json"
    run_of(OpenLineageListener.to_file(path))
    first, *_, last = events_in(path)
    inputs = [(each["namespace"], each["name"]) for each in first["inputs"]]
    assert inputs == [(TOPIC.namespace, TOPIC.name), (TABLE.namespace, TABLE.name)]
    assert first["inputs"][0]["facets"]["schema"]["fields"][0]["name"] == "id"
    (output,) = last["outputs"]
    assert (output["namespace"], output["name"]) == (LATE.namespace, LATE.name)
    columns = output["facets"]["columnLineage"]["fields"]
    assert {
        name: [each["field"] for each in found["inputFields"]] for name, found in columns.items()
    } == {
        "id": ["id"],
        "name": ["name"],
    }
    (origin,) = columns["name"]["inputFields"]
    assert origin["transformations"][0]["subtype"] == "TRANSFORMATION"
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 7
    assert "outputStatistics" not in first["outputs"][0].get("outputFacets", {})


def test_a_run_whose_start_was_dropped_is_not_reported(tmp_path):
    path = tmp_path / "events.json"
    listener = OpenLineageListener.to_file(path)
    listener.on_event(
        JobExecutionStatusEvent(
            job_id="1", job_name="p", old_status=JobStatus.CREATED, new_status=JobStatus.RUNNING
        )
    )
    assert not path.exists()


@pytest.fixture
def backend():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers["Authorization"], body))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_):
            pass

    received = []
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    thread.join()


def test_events_are_posted_with_the_key_which_is_shown_nowhere(backend, caplog):
    url, received = backend
    listener = OpenLineageListener.to_http(url, api_key=KEY)
    with caplog.at_level("DEBUG", logger="connectors_core"):
        run_of(listener)
    assert [path for path, _, _ in received] == ["/api/v1/lineage"] * 3
    assert {authorization for _, authorization, _ in received} == {f"Bearer {KEY}"}
    shown = [repr(listener), caplog.text, *(body.decode(errors="replace") for *_, body in received)]
    assert not any(KEY in each for each in shown)
    assert str(listener._config["transport"]["auth"]["apiKey"]) == str(Secret(KEY))
