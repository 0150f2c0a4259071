# SPDX-License-Identifier: Apache-2.0
"""The core's test suite for vector searches, with its test data and capabilities."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from elasticsearch_system import OnElasticsearch
from joined_index import JoinedIndex

from connector_elasticsearch import ElasticsearchTable
from connectors_core.testing import (
    Capabilities,
    Capability,
    VectorSearchExternalContext,
    VectorSearchTestSuite,
)

VECTORS = Capabilities(
    can=frozenset(
        {
            Capability.VECTOR_SEARCH,
            Capability.ASYNC_VECTOR_SEARCH,
            Capability.OUTAGES,
            Capability.SECRETS,
        }
    )
)


class VectorIndex(JoinedIndex, VectorSearchExternalContext):
    """An index whose vectors are not quantized, so that their scores are exact."""

    types: ClassVar = {
        "number": {"type": "long"},
        "text": {"type": "keyword"},
        "embedding": {
            "type": "dense_vector",
            "dims": 8,
            "similarity": "cosine",
            "index_options": {"type": "hnsw"},
        },
    }

    def create_table(self, options: Mapping[str, str]) -> ElasticsearchTable:
        return self._table(self._name, options, num_candidates=500)

    def scores(
        self, query: npt.NDArray[np.float32], vectors: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float64]:
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
        return (1 + (vectors @ query) / lengths).astype(np.float64) / 2


class ElasticsearchVectorSuite(OnElasticsearch, VectorSearchTestSuite):
    capabilities = VECTORS

    def external_context(self, folder: Path) -> VectorIndex:
        return VectorIndex(self.address)
