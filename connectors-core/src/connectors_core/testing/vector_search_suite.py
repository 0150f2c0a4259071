# SPDX-License-Identifier: Apache-2.0
"""The suite for vector searches. Subclass it and supply an external context."""

from __future__ import annotations

import pickle
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from connectors_core.engine.execution.lookup_task import close_lookups
from connectors_core.errors import BadRecordError, RetryableError
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.join_suite import JoinTestSuite, Ways
from connectors_core.testing.traces import nothing_left
from connectors_core.testing.trial import slow_on_spark
from connectors_core.testing.vector_search_trial import (
    DIMENSIONS,
    QUERIES,
    VECTOR_ROWS,
    Floats,
    SparkVectorSearchTrial,
    VectorSearchExternalContext,
    VectorSearchTrial,
)

SEARCH: Final = Capability.VECTOR_SEARCH
HERE: Final = Capability.ONE_PROCESS
WAYS: Final[Ways] = {
    "by vector": ({}, SEARCH),
    "asynchronous": ({"lookup.async": "true"}, Capability.ASYNC_VECTOR_SEARCH),
    "partial": ({"lookup.cache": "PARTIAL"}, SEARCH),
}
ROWS: Final = 300
SEARCHES: Final = 600
every_way = pytest.mark.parametrize("way", list(WAYS))

_SINCE: Final = "1.4"
_NEAREST: Final = "test_the_most_similar_rows_are_found"
_TOLERANCE: Final = 1e-5


class VectorSearchTestSuite(JoinTestSuite):
    """Cases for a table that searches vectors. NumPy computes the expected rows by brute force.

    Derive from this class, declare the capabilities, and supply a context.

    With ``on_spark``, pipelines on Spark search. Cases that inspect caches, or the remaining
    resources of a process, apply only in this process.
    """

    judged_by = frozenset({SEARCH, Capability.ASYNC_VECTOR_SEARCH})
    ways = WAYS
    rows = VECTOR_ROWS
    trials = (VectorSearchTrial, SparkVectorSearchTrial)

    @abstractmethod
    def external_context(self, folder: Path) -> VectorSearchExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    # --- Rows -----------------------------------------------------------------------------------

    @case(since=_SINCE)
    @every_way
    def test_the_most_similar_rows_are_found(self, trial: VectorSearchTrial, way: str) -> None:
        """Rows keep their order, and the matches of a row have descending scores."""
        vectors, queries = _vectors(ROWS, seed=1), _vectors(5, seed=2)
        trial.context.write(_table(vectors))
        found = trial.search(_queries(queries), top_k=10)
        _assert_nearest(trial.context, found, queries, vectors, top_k=10)

    @case(since=_SINCE, after=_NEAREST)
    @slow_on_spark
    @every_way
    def test_a_small_table_is_found_as_a_whole(self, trial: VectorSearchTrial, way: str) -> None:
        vectors, queries = _vectors(4, seed=1), _vectors(2, seed=2)
        trial.context.write(_table(vectors))
        found = trial.search(_queries(queries), top_k=10)
        _assert_nearest(trial.context, found, queries, vectors, top_k=10)

    @case(since=_SINCE, after=_NEAREST)
    @slow_on_spark
    @every_way
    def test_a_table_without_rows_matches_nothing(self, trial: VectorSearchTrial, way: str) -> None:
        found = trial.search(_queries([_vectors(1, seed=1)[0], None]))
        assert found.to_pylist() == [
            {**row, "number": None, "score": None}
            for row in found.select(["id", "query"]).to_pylist()
        ]
        assert found["id"].to_pylist() == [0, 1]

    @case(since=_SINCE, after=_NEAREST)
    @every_way
    def test_a_null_vector_finds_nothing(self, trial: VectorSearchTrial, way: str) -> None:
        vectors = _vectors(ROWS, seed=1)
        trial.context.write(_table(vectors))
        queries = _queries([None, vectors[7], None])
        kept = trial.search(queries, top_k=1)
        assert kept.select(["id", "number"]).to_pylist() == [
            {"id": 0, "number": None},
            {"id": 1, "number": 7},
            {"id": 2, "number": None},
        ]
        inner = trial.search(queries, top_k=1, how="inner")
        assert inner.select(["id", "number"]).to_pylist() == [{"id": 1, "number": 7}]

    @case(since=_SINCE, after=_NEAREST)
    @slow_on_spark
    @every_way
    def test_rows_without_a_vector_are_not_found(self, trial: VectorSearchTrial, way: str) -> None:
        vectors = _vectors(4, seed=1)
        trial.context.write(_table([*vectors, None]))
        found = trial.search(_queries(vectors[:1]), top_k=10)
        assert sorted(found["number"].to_pylist()) == [0, 1, 2, 3]

    @case(since=_SINCE, after=_NEAREST)
    @slow_on_spark
    @every_way
    @pytest.mark.parametrize("columns", [(), ("text",), ("embedding", "number")], ids=str)
    def test_the_columns_that_are_needed_are_given_alone(
        self, trial: VectorSearchTrial, way: str, columns: tuple[str, ...]
    ) -> None:
        vectors = _vectors(4, seed=1)
        trial.context.write(_table(vectors))
        found = trial.search(_queries(vectors[2:3]), top_k=1, columns=columns)
        assert found.column_names == ["id", "query", *columns, "score"]
        wanted = {"text": "row 2", "number": 2}
        for name in columns:
            (value,) = found[name].to_pylist()
            if name == "embedding":
                assert np.allclose(value, vectors[2], atol=_TOLERANCE)
            else:
                assert value == wanted[name]

    @case(since=_SINCE, after=_NEAREST)
    @slow_on_spark
    @every_way
    def test_many_vectors_at_a_time(self, trial: VectorSearchTrial, way: str) -> None:
        """The rows have many distinct vectors, each twice."""
        vectors, queries = _vectors(ROWS, seed=1), _vectors(SEARCHES, seed=2)
        trial.context.write(_table(vectors))
        queries = np.concatenate([queries, queries[::-1]])
        found = trial.search(_queries(queries), top_k=2)
        _assert_nearest(trial.context, found, queries, vectors, top_k=2)

    @case(HERE, since=_SINCE, after=_NEAREST)
    @every_way
    def test_vectors_with_other_dimensions_are_refused(
        self, trial: VectorSearchTrial, way: str
    ) -> None:
        trial.context.write(_table(_vectors(4, seed=1)))
        for other in ([1.0] * (DIMENSIONS + 1), [1.0], []):
            rows = pa.table({"id": [0], "query": [other]}, schema=QUERIES)
            with pytest.raises(BadRecordError, match="elements"):
                trial.search(rows)

    # --- Caches ---------------------------------------------------------------------------------

    @case(HERE, since=_SINCE, after=_NEAREST)
    def test_a_partial_cache_keeps_what_was_asked_for(self, trial: VectorSearchTrial) -> None:
        trial.options |= {"lookup.cache": "PARTIAL"}
        vectors = _vectors(4, seed=1)
        trial.context.write(_table(vectors[:2]))
        before = trial.search(_queries(vectors[:1]), top_k=4, life="life")
        trial.context.write(_table(vectors))
        again = trial.search(_queries(vectors[:1]), top_k=4, life="life")
        other = trial.search(_queries(vectors[1:2]), top_k=4, life="life")
        assert again.equals(before)
        assert sorted(before["number"].to_pylist()) == [0, 1]
        assert sorted(other["number"].to_pylist()) == [0, 1, 2, 3]

    # --- Failures -------------------------------------------------------------------------------

    @case(HERE, Capability.OUTAGES, since=_SINCE, after=_NEAREST)
    @every_way
    def test_a_system_that_is_away_can_be_asked_again(
        self, trial: VectorSearchTrial, way: str
    ) -> None:
        """A temporary failure is retryable, and the open function works again after the outage."""
        trial.options |= {"lookup.max-retries": "1"}
        vectors = _vectors(4, seed=1)
        trial.context.write(_table(vectors))
        table = trial.context.create_table(trial.options)
        trial.search(_queries(vectors[:1]), table=table)
        with trial.context.away(), pytest.raises(Exception, match=r"(?s).*") as refused:
            trial.search(_queries(vectors[:1]), table=table)
        assert isinstance(refused.value, RetryableError), (
            f"{type(refused.value).__name__} is not a RetryableError: it would not be retried"
        )
        found = trial.search(_queries(vectors[:1]), top_k=1, table=table)
        assert found["number"].to_pylist() == [0]

    @case(HERE, Capability.OUTAGES, since="1.5", after=_NEAREST)
    def test_first_responses_that_are_late_in_every_life_find_all_rows(
        self, trial: VectorSearchTrial
    ) -> None:
        """A late response is neither a failure nor a search without matches, in any way."""
        if self.system is None:
            pytest.skip("the suite names no system")
        vectors, queries = _vectors(ROWS, seed=1), _vectors(4, seed=2)
        trial.context.write(_table(vectors))
        rows = _queries(queries)
        batches = pa.concat_tables([rows.slice(0, 2), rows.slice(2)])
        with self.late_first_responses():
            for options, capability in WAYS.values():
                if capability in self.possible().can:
                    table = trial.context.create_table(options)
                    found = trial.search(batches, top_k=10, table=table)
                    _assert_nearest(trial.context, found, queries, vectors, top_k=10)

    # --- The table as an object -----------------------------------------------------------------

    @case(HERE, since=_SINCE, after=_NEAREST)
    @every_way
    def test_what_executors_are_given_survives_pickling(
        self, trial: VectorSearchTrial, way: str
    ) -> None:
        _, provider = trial.prepared(_queries([]))
        assert type(pickle.loads(pickle.dumps(provider))) is type(provider)

    @case(HERE, since=_SINCE, after=_NEAREST)
    @every_way
    def test_no_thread_handle_or_temporary_file_is_left(
        self, trial: VectorSearchTrial, way: str, tmp_path: Path
    ) -> None:
        vectors = _vectors(4, seed=1)
        trial.context.write(_table(vectors))
        trial.search(_queries(vectors))  # create what each process creates only once
        close_lookups()
        with nothing_left(tmp_path / "temporary"):
            trial.search(_queries(vectors))
            trial.close()

    @case(HERE, Capability.SECRETS, since=_SINCE, after=_NEAREST)
    @every_way
    def test_a_secret_is_seen_nowhere(
        self,
        trial: VectorSearchTrial,
        way: str,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        table = trial.context.create_table(trial.options)
        rows = _queries(_vectors(2, seed=1))
        _, provider = trial.prepared(rows, table=table)
        trial.context.write(_table(_vectors(2, seed=1)))

        def use() -> None:
            trial.search(rows, table=table)

        self._assert_secrets_unseen(
            (table, provider), use, trial, tmp_path / "state", caplog, capfd
        )


def _vectors(count: int, *, seed: int) -> Floats:
    """Return vectors of length one, which every similarity accepts."""
    drawn = np.random.default_rng(seed).normal(size=(count, DIMENSIONS))
    vectors: Floats = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return vectors


def _lists(vectors: Sequence[Any] | Floats) -> pa.Array:
    lists = [None if each is None else each.tolist() for each in vectors]
    return pa.array(lists, pa.list_(pa.float32()))


def _table(vectors: Sequence[Any] | Floats) -> pa.Table:
    numbers = range(len(vectors))
    texts = [f"row {number}" for number in numbers]
    return pa.table([pa.array(numbers, pa.int64()), texts, _lists(vectors)], schema=VECTOR_ROWS)


def _queries(vectors: Sequence[Any] | Floats) -> pa.Table:
    ids = pa.array(range(len(vectors)), pa.int64())
    return pa.table([ids, _lists(vectors)], schema=QUERIES)


def _assert_nearest(
    context: VectorSearchExternalContext,
    found: pa.Table,
    queries: Floats,
    vectors: Floats,
    *,
    top_k: int,
) -> None:
    """Check the rows against a comparison of each query with all vectors."""
    scores = np.stack([context.scores(query, vectors) for query in queries])
    nearest = -np.sort(-scores, axis=1)[:, :top_k]
    each = nearest.shape[1]
    assert found["id"].to_pylist() == np.repeat(np.arange(len(queries)), each).tolist()
    numbers = found["number"].to_numpy().reshape(nearest.shape)
    assert all(len(set(row)) == each for row in numbers.tolist()), "a row is found twice"
    # Rows with equal scores may be in any order.
    assert np.allclose(np.take_along_axis(scores, numbers, 1), nearest, atol=_TOLERANCE)
    assert np.allclose(found["score"].to_numpy(), nearest.ravel(), atol=_TOLERANCE)
