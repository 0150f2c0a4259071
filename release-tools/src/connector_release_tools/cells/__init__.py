# SPDX-License-Identifier: Apache-2.0
"""Cells of the matrix: a major of a connector, as wheels, on a Spark line, with today's core."""
