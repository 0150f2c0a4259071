# SPDX-License-Identifier: Apache-2.0
"""Cells of the matrix: a connector major on a Spark line, tested as wheels with today's core."""
