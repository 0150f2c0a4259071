# SPDX-License-Identifier: Apache-2.0
"""The suite of lookup tables on the toy table."""

from __future__ import annotations

from toy_table import ToyTables

from connectors_core.testing import Capabilities, Capability, LookupTestSuite


class TestToyTable(LookupTestSuite):
    capabilities = Capabilities(
        can=frozenset(
            {
                Capability.LOOKUP_BY_KEY,
                Capability.ASYNC_LOOKUP,
                Capability.FULL_CACHE,
                Capability.OUTAGES,
                Capability.DATA_TYPES,
                Capability.SECRETS,
            }
        )
    )

    def external_context(self, folder):
        return ToyTables(folder)
