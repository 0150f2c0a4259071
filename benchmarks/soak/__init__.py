# SPDX-License-Identifier: Apache-2.0
"""Long runs under faults: what comes out is exact, and nothing grows."""
