# SPDX-License-Identifier: Apache-2.0
"""Runs the suite for vector searches on the toy table."""

from __future__ import annotations

from toy_disk import Disk
from toy_vectors import CAN, ToyVectorFiles

from connectors_core.testing import VectorSearchTestSuite


class TestToyVectors(VectorSearchTestSuite):
    system = Disk()
    capabilities = CAN

    def external_context(self, folder):
        return ToyVectorFiles(folder)
