# SPDX-License-Identifier: Apache-2.0
"""Measurements against peers, side by side in one run."""
