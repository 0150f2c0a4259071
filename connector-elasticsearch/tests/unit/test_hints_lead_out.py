# SPDX-License-Identifier: Apache-2.0
"""Follows the hint of each kind of error literally, and ends with a running pipeline."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fake_elasticsearch import DENIED, FakeElasticsearch
from sink_writing import QUICK
from treating_server import Answer

import connector_elasticsearch
from connector_elasticsearch import ElasticsearchSink, ElasticsearchSource
from connectors_core.errors import ConnectorError
from connectors_core.records import RecordPolicy
from connectors_core.source import DataGeneratorSource, NumberSequenceSource, ReadLimits
from connectors_core.testing import (
    DirectorySink,
    Fault,
    FaultAction,
    FaultInjected,
    FaultPoint,
    HintCases,
    LocalPipeline,
    RequestFault,
    injected,
)

Steps = Generator[Callable[[], object], ConnectorError, None]
HINTS = HintCases(
    connector_elasticsearch,
    reasons={
        "ElasticsearchTooLargeError": "the sink divides its requests; see test_sink_writer",
    },
)
ROWS = 30
FLUSH = replace(QUICK, retry_timeout=timedelta(milliseconds=100))


class Index(FakeElasticsearch):
    """Also keeps a point in time of its documents, until it forgets it."""

    def __init__(self) -> None:
        super().__init__()
        self.points = 0
        self.is_away = False

    def answer(
        self, path: str, headers: Mapping[str, str], body: bytes, fault: RequestFault | None
    ) -> Answer:
        if self.is_away and "_mapping" not in path:
            return Answer(503)
        if path.startswith("/rows/_pit"):
            self.points += 1
            return Answer(200, {"id": f"p{self.points}"})
        if path.startswith("/rows/_mapping"):
            fields = {"value": {"type": "long"}}
            return Answer(200, {"rows": {"mappings": {"properties": fields}}})
        if path.startswith("/_pit"):
            return Answer(200, {"succeeded": True, "num_freed": 1})
        if not path.startswith("/_search"):
            return super().answer(path, headers, body, fault)
        asked = json.loads(body)
        if asked["pit"]["id"] != f"p{self.points}":
            lost = {"type": "search_context_missing_exception", "reason": "no context"}
            return Answer(404, {"error": lost, "status": 404})
        if not asked["size"]:
            return Answer(200, {"pit_id": asked["pit"]["id"], "hits": {"total": {"value": ROWS}}})
        first = asked.get("search_after", [-1])[0] + 1
        hits = [
            {"_index": "rows", "_id": str(n), "_source": {"value": n}, "sort": [n]}
            for n in range(first, min(first + asked["size"], ROWS))
        ]
        shards = {"total": 1, "successful": 1}
        found = {"pit_id": asked["pit"]["id"], "timed_out": False, "_shards": shards}
        return Answer(200, found | ({"hits": {"hits": hits}} if hits else {}))


class Life:
    """The lives of a pipeline into the index."""

    def __init__(self, root: Path, index: Index) -> None:
        self.root = root
        self.index = index
        self.expected = list(range(ROWS))

    def run(
        self,
        *,
        hosts: str | None = None,
        source: Any = None,
        sink: Any = None,
        policy: RecordPolicy | None = None,
        checkpoint: str = "checkpoint",
    ) -> None:
        sink = sink or ElasticsearchSink(
            hosts or self.index.url, "rows", id_columns=["value"], bulk_flush=FLUSH
        )
        location = str(self.root / checkpoint)
        with LocalPipeline("p", checkpoint_location=location, parallelism=1) as p:
            source = source or NumberSequenceSource(0, ROWS - 1)
            rows = p.from_source(source, uid="numbers", limits=ReadLimits(rows=10))
            p.sink_to(rows, sink, uid="out", record_policy=policy)
            assert p.run(timeout=30)

    def read(self, checkpoint: str = "first") -> None:
        """Read the index, and write the rows into it."""
        source = ElasticsearchSource(
            self.index.url, "rows", slices=1, page_size=10, retry_timeout="100 ms"
        )
        sink = DirectorySink(self.root / f"{checkpoint}-out")
        self.run(source=source, sink=sink, checkpoint=checkpoint)
        self.index.written = [(None, row) for row in sink.read().select(["value"]).to_pylist()]

    def written(self) -> list[int]:
        return sorted(document["value"] for _, document in self.index.written)


# --- Cases ----------------------------------------------------------------------------------------


@HINTS.case("ElasticsearchRetryableError")
def away(life: Life) -> Steps:
    life.index.is_away = True
    error = yield life.read
    assert "restart" in str(error.hint)
    life.index.is_away = False
    yield life.read


@HINTS.case("ElasticsearchAuthenticationError")
def unknown_user(life: Life) -> Steps:
    life.index.treat(RequestFault.REFUSE_FOR_GOOD)
    error = yield life.run
    assert "this cluster requires credentials" in str(error.hint)
    life.index.treat(None)
    yield life.run


@HINTS.case("ElasticsearchAuthorizationError")
def no_privilege(life: Life) -> Steps:
    life.index.answers = [Answer(403, {"error": DENIED, "status": 403})]
    error = yield life.run
    assert "ask an administrator to grant the privilege" in str(error.hint)
    yield life.run


@HINTS.case("ElasticsearchRequestError")
def redirected(life: Life) -> Steps:
    with Index() as old:
        old.answers = [Answer(307, headers={"location": f"{life.index.url}/_bulk"})]
        error = yield lambda: life.run(hosts=old.url)
    assert "set the addresses of the servers" in str(error.hint)
    (address,) = re.findall(r"307 to (http://\S+)", str(error.found))
    yield lambda: life.run(hosts=address)


@HINTS.case("ElasticsearchVersionError")
def other_product(life: Life) -> Steps:
    with Index() as other:
        other.answers = [Answer(200, {}, headers={"x-elastic-product": ""})] * 2
        error = yield lambda: life.run(hosts=other.url)
        (address,) = re.findall(r"curl (http://\S+)", str(error.hint))
        with urlopen(address) as answer:
            assert not answer.headers["x-elastic-product"]
    yield life.run


@HINTS.case("ElasticsearchFatalError")
def unexpected(life: Life) -> Steps:
    life.index.answers = [Answer(101, {})]
    error = yield life.run
    assert "fix the cause and restart" in str(error.hint)
    yield life.run


@HINTS.case("ELASTICSEARCH_DOCUMENT")
def no_id(life: Life) -> Steps:
    source = DataGeneratorSource(
        lambda at: pa.record_batch([pc.if_else(pc.equal(at, 7), None, at)], ["value"]),
        ROWS,
        pa.schema([("value", pa.int64())]),
    )
    life.expected.remove(7)
    error = yield lambda: life.run(source=source)
    assert "record policy skip" in str(error.hint)
    yield lambda: life.run(source=source, policy=RecordPolicy.skip())


@HINTS.case("PointInTimeLostError")
def forgotten(life: Life) -> Steps:
    fault = Fault(FaultPoint.AFTER_DECISION, action=FaultAction.RAISE)
    with injected(fault), pytest.raises(FaultInjected):
        life.read()
    life.index.points += 1
    error = yield life.read
    assert "restart this pipeline with a new checkpoint" in str(error.hint)
    yield lambda: life.read("second")


# --- Tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", HINTS.kinds)
def test_the_hint_of_an_error_leads_to_a_running_pipeline(tmp_path: Path, kind: str) -> None:
    with Index() as index:
        life = Life(tmp_path, index)
        HINTS.follow(kind, life)
        assert life.written() == life.expected


def test_every_kind_of_error_has_a_case_or_a_reason() -> None:
    assert HINTS.differences() == []
