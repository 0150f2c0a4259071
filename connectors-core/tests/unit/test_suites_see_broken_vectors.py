# SPDX-License-Identifier: Apache-2.0
"""Tests the suite for vector searches: each broken table fails the case that must detect it."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from broken_connectors import failed_cases, table_with
from broken_outages import is_late
from toy_disk import Disk
from toy_vectors import CAN, ToySearch, ToyVectorFiles, ToyVectors

from connectors_core.lineage import LineageDataset
from connectors_core.lookup import LookupCache, VectorMatches
from connectors_core.testing import VectorSearchTestSuite

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.line("4.3")  # without Spark


class FindsTheLeastSimilar(ToySearch):
    def scores(self, query, stored):
        return -super().scores(query, stored)


class StatesDistances(ToySearch):
    """Its rows are right, but not their scores."""

    def vector_search(self, top_k, vectors):
        counts, rows, scores = super().vector_search(top_k, vectors)
        return VectorMatches(counts, rows, pa.array(1 - np.asarray(scores)))


class FindsRowsWithoutAVector(ToySearch):
    def read(self):
        rows = super().read()
        stored = rows["embedding"].combine_chunks().fill_null([0.0] * 8)
        return rows.set_column(2, "embedding", stored)


class SearchesForSomeVectors(ToySearch):
    """Behaves like a service with a limit on vectors."""

    def vector_search(self, top_k, vectors):
        few = super().vector_search(top_k, vectors.slice(0, 50))
        missing = max(0, len(vectors) - 50)
        counts = pa.concat_arrays([few.counts, pa.array([0] * missing, pa.int64())])
        return VectorMatches(counts, few.rows, few.scores)


class GivesAnotherColumn(ToySearch):
    def vector_search(self, top_k, vectors):
        counts, rows, scores = super().vector_search(top_k, vectors)
        if "number" not in rows.column_names and rows.num_columns:
            rows = rows.append_column("number", pa.nulls(rows.num_rows, pa.int64()))
        return VectorMatches(counts, rows, scores)


class FailsWhenItsSystemIsAway(ToySearch):
    def read(self):
        with pa.ipc.open_file(self.path) as file:
            return file.read_all()


class TakesALateResponseForNoMatch(ToySearch):
    def vector_search(self, top_k, vectors):
        late = is_late()
        counts, rows, scores = super().vector_search(top_k, vectors)
        if not late:
            return VectorMatches(counts, rows, scores)
        none = pa.array([0] * len(counts), counts.type)
        return VectorMatches(none, rows.slice(0, 0), scores.slice(0, 0))


class TakesWhatIsInTime(ToySearch):
    """Has the first match of each vector, as if it had searched only some shards."""

    def vector_search(self, top_k, vectors):
        return super().vector_search(1 if is_late() else top_k, vectors)


class GivesMatchesOfBothAttempts(ToySearch):
    def vector_search(self, top_k, vectors):
        late = is_late()
        counts, rows, scores = super().vector_search(top_k, vectors)
        if not late:
            return VectorMatches(counts, rows, scores)
        ends = np.cumsum(counts)
        twice = np.concatenate(
            [
                np.repeat(np.arange(end - count, end), 2)[:top_k]
                for count, end in zip(counts.to_pylist(), ends, strict=True)
            ]
        )
        return VectorMatches(counts, rows.take(twice), scores.take(pa.array(twice)))


class LeavesAThread(ToySearch):
    def open(self, context):
        threading.Thread(target=threading.Event().wait, args=(30,), daemon=True).start()


class CannotTravel(ToySearch):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.lock = threading.Lock()


class CachesNothing(ToyVectors):
    def get_search_runtime_provider(self, context):
        made = super().get_search_runtime_provider(context)
        if isinstance(made.cache, LookupCache):
            made.cache.get_if_present = lambda keys: (pa.array([False] * keys.num_rows), None)
        return made


class KnowsNoDimensions(ToyVectors):
    def get_search_runtime_provider(self, context):
        return replace(super().get_search_runtime_provider(context), dimensions=None)


class NamesItsFileAnew(ToyVectors):
    def lineage_datasets(self):
        return (LineageDataset(namespace="file", name=f"{self.path}-{uuid.uuid4()}"),)


class ShowsItsPassword(ToyVectors):
    def __repr__(self):
        return f"ToyVectors({self.function(self.path, []).password.reveal()!r})"


LATE = "test_first_responses_that_are_late_in_every_life_find_all_rows"
BROKEN = {
    FindsTheLeastSimilar: "test_the_most_similar_rows_are_found",
    StatesDistances: "test_the_most_similar_rows_are_found",
    FindsRowsWithoutAVector: "test_rows_without_a_vector_are_not_found",
    SearchesForSomeVectors: "test_many_vectors_at_a_time",
    GivesAnotherColumn: "test_the_columns_that_are_needed_are_given_alone",
    FailsWhenItsSystemIsAway: "test_a_system_that_is_away_can_be_asked_again",
    TakesALateResponseForNoMatch: LATE,
    TakesWhatIsInTime: LATE,
    GivesMatchesOfBothAttempts: LATE,
    LeavesAThread: "test_no_thread_handle_or_temporary_file_is_left",
    CannotTravel: "test_what_executors_are_given_survives_pickling",
    CachesNothing: "test_a_partial_cache_keeps_what_was_asked_for",
    KnowsNoDimensions: "test_vectors_with_other_dimensions_are_refused",
    NamesItsFileAnew: "test_datasets_are_named_for_lineage",
    ShowsItsPassword: "test_a_secret_is_seen_nowhere",  # pragma: allowlist secret
}
BY_NAME = {broken.__name__: (broken, seen_by) for broken, seen_by in BROKEN.items()}


def broken_suite(name):
    """Create a suite for a table that is broken, or that has this broken function."""
    table = table_with(BY_NAME[name][0], ToyVectors)

    class Suite(VectorSearchTestSuite):
        system = Disk()
        capabilities = CAN

        def external_context(self, folder):
            return ToyVectorFiles(folder, table)

    return Suite


RUN = """
from test_suites_see_broken_vectors import broken_suite

TestBroken = broken_suite({name!r})
"""


@pytest.mark.slow
@pytest.mark.line("4.3", only=True)
@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_broken_table_fails_the_intended_case(name, pytester):
    assert failed_cases(pytester, RUN.format(name=name)) == {BY_NAME[name][1]}
