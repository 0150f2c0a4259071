# SPDX-License-Identifier: Apache-2.0
"""A run with lineage, its events in a file, and a local server that receives them."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
import uuid
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pyarrow as pa

from connectors_core.lineage import (
    ColumnOrigin,
    JobCreatedEvent,
    JobExecutionStatusEvent,
    JobStatus,
    LineageDataset,
    LineageEdge,
    LineageGraph,
    RuntimeExecutionMode,
    Transformation,
)

TOPIC = LineageDataset(namespace="kafka://broker:9092", name="flights")
TABLE = LineageDataset(namespace="file", name="/airports")
LATE = LineageDataset(namespace="s3://lake", name="late")


def origins(uid, column, *transformations):
    return frozenset(
        ColumnOrigin(uid=uid, column=column, transformation=each) for each in transformations
    )


GRAPH = LineageGraph(
    datasets={
        "flights": (TOPIC,),
        "airports": (TABLE,),
        "late": (LATE,),
        "unnamed": (),
        "@LogicalRDD(x)": (),
    },
    schemas={
        "flights": pa.schema([("id", pa.int64()), ("delay", pa.int32())]),
        "airports": pa.schema([("name", pa.string())]),
        "@LogicalRDD(x)": pa.schema([("x", pa.date32())]),
    },
    edges=(
        LineageEdge(
            sink="late",
            inputs=("flights", "airports", "@LogicalRDD(x)"),
            schema=pa.schema([("id", pa.int64()), ("name", pa.string()), ("one", pa.int32())]),
            columns={
                "id": origins("flights", "id", Transformation.IDENTITY),
                "name": (
                    origins("airports", "name", *Transformation)
                    | origins("@LogicalRDD(x)", "x", Transformation.IDENTITY)
                ),
                "one": frozenset(),
            },
            row_origins=(
                origins("flights", "delay", Transformation.FILTER, Transformation.SORT)
                | origins("flights", "id", Transformation.JOIN)
            ),
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


@dataclass
class Request:
    """A request to the server."""

    path: str
    authorization: str | None
    body: str


@contextlib.contextmanager
def backend():
    """Run a server, and yield its URL and the list of its requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            received.append(Request(self.path, self.headers["Authorization"], body.decode()))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_):
            pass

    received = []
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
