# SPDX-License-Identifier: Apache-2.0
"""Runs the suite for lookup tables on the toy table."""

from __future__ import annotations

from toy_disk import Disk
from toy_table import CAN, ToyTables

from connectors_core.testing import LookupTestSuite


class TestToyTable(LookupTestSuite):
    system = Disk()
    capabilities = CAN

    def external_context(self, folder):
        return ToyTables(folder)
