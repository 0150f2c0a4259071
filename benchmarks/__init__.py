# SPDX-License-Identifier: Apache-2.0
"""Benchmarks against other implementations, all in the same run."""
