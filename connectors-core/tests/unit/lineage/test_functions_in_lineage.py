# SPDX-License-Identifier: Apache-2.0
"""Tests that functions of the user can name their datasets."""

from __future__ import annotations

from connectors_core import HybridSource, NumberSequenceSource
from connectors_core.lineage import LineageVertexProvider, file_dataset
from connectors_core.spark.batch_functions import BatchFunctionSink

DATASETS = (file_dataset("/data"),)


class Named(LineageVertexProvider):
    def lineage_datasets(self):
        return DATASETS

    def __call__(self, *_):
        raise AssertionError("lineage calls no function")


def test_a_function_of_a_sink_names_its_datasets():
    assert BatchFunctionSink(Named()).lineage_datasets() == DATASETS
    assert BatchFunctionSink(lambda rows, epoch: None).lineage_datasets() == ()


def test_a_factory_of_a_hybrid_source_names_its_datasets():
    builder = HybridSource.builder(NumberSequenceSource(0, 9))
    assert builder.add_source(Named()).build().lineage_datasets() == DATASETS
    assert builder.add_source(lambda switch: switch).build().lineage_datasets() == ()
