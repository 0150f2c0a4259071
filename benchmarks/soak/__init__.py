# SPDX-License-Identifier: Apache-2.0
"""Long runs with faults: the output is exact, and no resource grows."""
