# SPDX-License-Identifier: Apache-2.0
"""Tests how many tasks read an index in a batch run."""

from __future__ import annotations

import pytest

from connector_elasticsearch import ElasticsearchSource
from connector_elasticsearch.source.split import SliceSplit
from connectors_core.source import ParallelismInferenceContext


@pytest.mark.parametrize(("documents", "tasks"), [(10, 1), (3_000, 8), (50_000_000, 32)])
def test_slices_with_few_documents_share_a_task(documents, tasks):
    splits = [
        SliceSplit(
            split_id=f"{number}/16",
            point_in_time="id",
            slice=number,
            slices=16,
            documents=documents,
        )
        for number in range(16)
    ]
    context = ParallelismInferenceContext(splits=splits, parallelism=8, upper_bound=32)
    source = ElasticsearchSource("http://localhost:9200", "flights")
    assert source.infer_parallelism(context) == tasks
