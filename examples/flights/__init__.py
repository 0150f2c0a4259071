# SPDX-License-Identifier: Apache-2.0
"""The flights of New York in 2013 with the weather at departure, exactly once.

``python -m examples.flights`` lets a day's flights arrive as a file, one after another, while the
pipeline of ``pipeline.py`` runs, kills its driver, starts it again, and compares what came out
with what had to come out, row by row.
"""
