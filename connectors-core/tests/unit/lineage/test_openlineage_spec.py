# SPDX-License-Identifier: Apache-2.0
"""Tests that the events in a file and at a server are valid by OpenLineage's spec."""

from __future__ import annotations

import json

import pytest
from openlineage_runs import backend, events_in, run_of
from openlineage_schemas import FACETS, validator

from connectors_core.lineage import JobStatus, OpenLineageListener

ENDS = [JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED]
VALID = validator()


def events_of(listener, read):
    """Return the events of runs with all ends."""
    for end in ENDS:
        run_of(listener, end, "the disk is full" if end is JobStatus.FAILED else None)
    return read()


@pytest.fixture
def events(tmp_path):
    path = tmp_path / "events.json"
    return events_of(OpenLineageListener.to_file(path), lambda: events_in(path))


def facets_of(event):
    for part in (event["run"], event["job"], *event["inputs"], *event["outputs"]):
        yield from part["facets"]
        yield from part.get("inputFacets", {})
        yield from part.get("outputFacets", {})


def test_events_in_a_file_are_valid(events):
    assert len(events) == 3 * len(ENDS)
    for event in events:
        VALID.validate(event)
    known = {name for facets in FACETS.values() for name in facets}
    assert {name for event in events for name in facets_of(event)} == known | {"spark_unknown"}


def test_events_at_a_server_are_valid():
    with backend() as (url, received):
        events = events_of(
            OpenLineageListener.to_http(url), lambda: [json.loads(each.body) for each in received]
        )
    assert len(events) == 3 * len(ENDS)
    for event in events:
        VALID.validate(event)


FACET = ("outputs", 0, "facets", "columnLineage")
ORIGIN = (*FACET, "fields", "id", "inputFields", 0)
ROWS = ("outputs", 0, "outputFacets", "outputStatistics", "rowCount")
REMOVED = object()
BROKEN = {
    "no type": (("eventType",), "DONE"),
    "no run": (("run", "runId"), REMOVED),
    "a run without a UUID": (("run", "runId"), "1"),
    "a time without a zone": (("eventTime",), "2026-01-01T00:00:00"),
    "a date": (("eventTime",), "2026-01-01"),
    "no job": (("job",), REMOVED),
    "a producer that is no URI": (("producer",), "connectors"),
    "no version of the schema": (("schemaURL",), REMOVED),
    "an unknown property": (("datasets",), []),
    "inputs that are no list": (("inputs",), {}),
    "an input without a namespace": (("inputs", 0, "namespace"), REMOVED),
    "a column without a name": (("inputs", 0, "facets", "schema", "fields", 0, "name"), REMOVED),
    "a facet without a producer": ((*FACET, "_producer"), REMOVED),
    "a facet of another schema": ((*FACET, "_schemaURL"), "https://example.org/facet.json"),
    "column lineage without fields": ((*FACET, "fields"), REMOVED),
    "an origin without a field": ((*ORIGIN, "field"), REMOVED),
    "an origin without a dataset": ((*ORIGIN, "name"), REMOVED),
    "a transformation without a type": ((*ORIGIN, "transformations", 0, "type"), REMOVED),
    "an origin of rows without a field": ((*FACET, "dataset", 0, "field"), REMOVED),
    "a count that is a text": (ROWS, "7"),
    "an unknown facet that is none": (("run", "facets", "spark_unknown"), {"inputs": []}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_event_is_invalid(events, name):
    path, value = BROKEN[name]
    broken = place = events[2]
    for key in path[:-1]:
        place = place[key]
    if value is REMOVED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    assert list(VALID.iter_errors(broken))
