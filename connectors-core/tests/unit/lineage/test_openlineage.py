# SPDX-License-Identifier: Apache-2.0
"""Tests the OpenLineage events of a run, in a file and at a local HTTP server."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from openlineage_runs import LATE, TABLE, TOPIC, backend, events_in, origins, run_of

from connectors_core.lineage import (
    JobCreatedEvent,
    JobExecutionStatusEvent,
    JobStatus,
    LineageEdge,
    LineageGraph,
    OpenLineageListener,
    RuntimeExecutionMode,
    Transformation,
)
from connectors_core.secrets import Secret

KEY = "canary-2b7e"


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


@pytest.fixture
def events(tmp_path):
    """Return the events of one run."""
    path = tmp_path / "events.json"
    run_of(OpenLineageListener.to_file(path))
    return events_in(path)


def test_an_event_names_each_dataset_with_its_columns(events):
    first, *_, last = events
    inputs = [(each["namespace"], each["name"]) for each in first["inputs"]]
    assert inputs == [(TOPIC.namespace, TOPIC.name), (TABLE.namespace, TABLE.name)]
    assert first["inputs"][0]["facets"]["schema"]["fields"][0]["name"] == "id"
    (output,) = last["outputs"]
    assert (output["namespace"], output["name"]) == (LATE.namespace, LATE.name)
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 7
    assert "outputStatistics" not in first["outputs"][0].get("outputFacets", {})


def dependencies(inputs):
    """Return the names of input fields with the types and subtypes of their transformations."""
    return {
        (each["name"], each["field"]): [
            (one["type"], one["subtype"]) for one in each["transformations"]
        ]
        for each in inputs
    }


def test_a_column_depends_directly_and_indirectly_on_columns_of_inputs(events):
    fields = events[-1]["outputs"][0]["facets"]["columnLineage"]["fields"]
    direct = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")
    assert {name: dependencies(each["inputFields"]) for name, each in fields.items()} == {
        "id": {("flights", "id"): [("DIRECT", "IDENTITY")]},
        "name": {
            ("/airports", "name"): [
                ("DIRECT" if each.value in direct else "INDIRECT", each.value)
                for each in Transformation
            ]
        },
    }


def test_sinks_into_one_dataset_are_one_output(tmp_path):
    def edge(sink, uid, column):
        return LineageEdge(
            sink=sink,
            inputs=(uid,),
            schema=pa.schema([("id", pa.int64()), (column, pa.int64())]),
            columns={name: origins(uid, name, Transformation.IDENTITY) for name in ("id", column)},
            row_origins=origins(uid, "id", Transformation.FILTER),
        )

    graph = LineageGraph(
        datasets={"a": (TOPIC,), "b": (TABLE,), "one": (LATE, LATE), "two": (LATE,)},
        schemas={},
        edges=(edge("one", "a", "x"), edge("two", "b", "y")),
    )
    job = {"job_id": str(uuid.uuid4()), "job_name": "p"}
    listener = OpenLineageListener.to_file(tmp_path / "events.json")
    mode = RuntimeExecutionMode.BATCH
    listener.on_event(JobCreatedEvent(**job, execution_mode=mode, lineage_graph=graph))
    states = {"old_status": JobStatus.RUNNING, "new_status": JobStatus.FINISHED}
    listener.on_event(JobExecutionStatusEvent(**job, **states, written={"one": 3, "two": 4}))
    (output,) = events_in(tmp_path / "events.json")[-1]["outputs"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 7
    facets, identity = output["facets"], [("DIRECT", "IDENTITY")]
    assert [each["name"] for each in facets["schema"]["fields"]] == ["id", "x", "y"]
    fields = facets["columnLineage"]["fields"]
    assert {name: dependencies(each["inputFields"]) for name, each in fields.items()} == {
        "id": {("flights", "id"): identity, ("/airports", "id"): identity},
        "x": {("flights", "x"): identity},
        "y": {("/airports", "y"): identity},
    }
    assert set(dependencies(facets["columnLineage"]["dataset"])) == {
        ("flights", "id"),
        ("/airports", "id"),
    }


def test_all_rows_depend_on_the_columns_of_conditions_and_keys(events):
    dataset = events[-1]["outputs"][0]["facets"]["columnLineage"]["dataset"]
    assert dependencies(dataset) == {
        ("flights", "delay"): [("INDIRECT", "FILTER"), ("INDIRECT", "SORT")],
        ("flights", "id"): [("INDIRECT", "JOIN")],
    }


def test_an_input_without_datasets_is_listed_as_unknown(events):
    for event in events:
        assert event["run"]["facets"]["spark_unknown"]["inputs"] == [
            {
                "description": "@LogicalRDD(x)",
                "outputAttributes": [{"name": "x", "type": "date32[day]"}],
            }
        ]


def test_a_run_whose_start_was_dropped_is_not_reported(tmp_path):
    path = tmp_path / "events.json"
    listener = OpenLineageListener.to_file(path)
    listener.on_event(
        JobExecutionStatusEvent(
            job_id="1", job_name="p", old_status=JobStatus.CREATED, new_status=JobStatus.RUNNING
        )
    )
    assert not path.exists()


def test_events_are_posted_with_the_key_which_is_shown_nowhere(caplog):
    with backend() as (url, received):
        listener = OpenLineageListener.to_http(url, api_key=KEY)
        with caplog.at_level("DEBUG", logger="connectors_core"):
            run_of(listener)
    assert [each.path for each in received] == ["/api/v1/lineage"] * 3
    assert {each.authorization for each in received} == {f"Bearer {KEY}"}
    shown = [repr(listener), caplog.text, *(each.body for each in received)]
    assert not any(KEY in each for each in shown)
    assert str(listener._config["transport"]["auth"]["apiKey"]) == str(Secret(KEY))
